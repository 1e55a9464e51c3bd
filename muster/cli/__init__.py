"""Muster, from the command line: one file a command."""
