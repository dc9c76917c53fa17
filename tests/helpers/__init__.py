"""What several tests share, one kind a file."""
