"""Muster, from the command line: one file a command, which parses, calls and prints."""

from muster.cli.app import main

__all__ = ["main"]
