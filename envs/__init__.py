"""The worlds: the Fetch arm, its physics backends and a point-mass probe. Knows nothing of the learner."""
