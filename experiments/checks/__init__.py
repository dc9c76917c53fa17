"""Checks of the program itself: parity of physics backends, speed beside peers, steadiness, the cost of more seeds.

Each is a command; `gpu_check.sh` runs `gpu_visit`, which measures a graphics card in one visit.
"""
