"""Keeps a run on disk and in memory: its folder, checkpoints and policies; interrupts and resumes it.

Nothing here draws or prints; `curious_jax.show` does that.
"""
