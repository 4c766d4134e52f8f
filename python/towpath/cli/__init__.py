"""The command `towpath`: inspects and converts captures of change messages, without Spark. One file for each verb."""

from towpath.cli.command import main, parser

__all__ = ["main", "parser"]
