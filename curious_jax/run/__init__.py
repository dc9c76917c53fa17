"""What a run keeps on disk and in memory: its folder, checkpoints, policies, and how it is interrupted and resumed.

Nothing here draws or prints; `curious_jax.show` does that.
"""
