"""Checks of the program itself: parity of physics backends, speed beside peers, steadiness, the cost of more seeds.

Each is a command; `gpu_check.sh` runs those that need a graphics card.
"""
