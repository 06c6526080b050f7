"""The command line: one file per verb, each thin."""

from arcset.cli.app import main

__all__ = ["main"]
