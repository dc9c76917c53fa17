"""Measures the program and its policies: speed, where the time goes, and success in the official environments.

Programs call these functions; nothing in a training run depends on them.
"""
