"""The Modular Goal Fetch Arm: its constants, scene, observation, start states, modules and environment.

Numbers and formulas are those of the paper and of the official Fetch environments.
"""
