"""What is measured of the program and of its policies: speed, memory traffic, and success before the official judges.

Programs call these functions; nothing in a training run depends on them.
"""
