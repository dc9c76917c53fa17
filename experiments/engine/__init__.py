"""The machinery that runs an experiment: the grid of conditions, its cells, and the processes that train them.

It works on one machine with a pool of processes and on many with Ray.
"""
