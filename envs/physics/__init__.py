"""The physics of many worlds at once behind one protocol: C MuJoCo, MJX in JAX, MuJoCo Warp.

All three read the same MJCF and fill the same sensors.
"""
