"""POSIX's rules on names, attributes and rights, by comparison: the same calls are made in two directories, one on the
mount and one beside it on the server's file system, and must have the same outcome.
"""
