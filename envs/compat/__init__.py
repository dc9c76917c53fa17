"""Lets packages of others run on the versions pinned here, one file a package.

Each file says until when it is needed, and a test fails once it no longer is.
"""
