"""Holds the paper's algorithm, one concept a file: environments, modules and configs in, trained networks out.

`trainer.train_cycle` reads beside Algorithm 1; nothing here knows of command lines, files or pictures.
"""
