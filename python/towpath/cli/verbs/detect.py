"""Counts the messages of each dialect."""

from __future__ import annotations

import argparse
import json
from collections import Counter

from towpath import _towpath
from towpath.cli.arguments import add_input, add_json, inputs
from towpath.cli.exit_status import DECODE_ERRORS, INTERRUPTED, SUCCESS
from towpath.cli.text import show

PURPOSE = "count the messages of each dialect"


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_input(verb)
    add_json(verb)


def run(parsed: argparse.Namespace) -> int:
    """Print the counts of each file. Return status 1 if a message has no known dialect."""
    counts: dict[str, Counter[str]] = {}
    read = inputs(parsed)
    for messages in read:
        found = (_towpath.detect(value) or "unknown" for value in messages.batch["value"].to_pylist() if value)
        counts.setdefault(messages.name, Counter()).update(found)
    if parsed.json:
        print(json.dumps(counts, ensure_ascii=False))
    else:
        for name, of_file in counts.items():
            for dialect, count in of_file.most_common():
                show(f"{name}: {dialect}: {count}")
    if read.interrupted:
        return INTERRUPTED
    return DECODE_ERRORS if any(of_file["unknown"] for of_file in counts.values()) else SUCCESS
