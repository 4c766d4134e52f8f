"""Lists the dialects."""

from __future__ import annotations

import argparse
import json

from towpath import _towpath
from towpath.cli.arguments import add_json
from towpath.cli.exit_status import SUCCESS
from towpath.cli.text import print_table

PURPOSE = "list the dialects"


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_json(verb)


def run(parsed: argparse.Namespace) -> int:
    """Print name, wire format and producer of each dialect."""
    known = _towpath.dialects()
    if parsed.json:
        print(json.dumps(known, ensure_ascii=False))
    else:
        print_table([[one["name"], one["wire"], one["producer"]] for one in known])
    return SUCCESS
