"""Makes of an experiment's cells a table of results, statistics, figures and a summary in words.

Everything here reads files that a run has written and can be repeated at any time.
"""
