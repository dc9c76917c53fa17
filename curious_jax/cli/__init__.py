"""The command line that all programs share: the parser of options, exit statuses, and how an environment is made.

The library below never sees an option; it receives configs and arguments.
"""
