"""The command `towpath`: inspects and converts captured change messages without Spark. Each verb has its own module."""

from towpath.cli.command import main, parser

__all__ = ["main", "parser"]
