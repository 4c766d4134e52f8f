"""Lists the messages that do not decode."""

from __future__ import annotations

import argparse
import json
import sys

from towpath.cli.arguments import add_decoder, add_json, decoder_arguments, inputs
from towpath.cli.findings import Findings
from towpath.cli.text import show

PURPOSE = "list the messages that do not decode; status 1 if there are any"


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_decoder(verb)
    verb.add_argument("--most", type=int, default=20, metavar="N", help="print at most N errors (default: %(default)s)")
    add_json(verb)


def run(parsed: argparse.Namespace) -> int:
    """Print the errors with their places, and their number."""
    fields = ["op", "table", "before", "after", "error"]  # convert all values, to find their errors
    findings = Findings(decoder_arguments(parsed, fields=fields), most=parsed.most)
    read = inputs(parsed)
    for _ in findings.decode(read):
        pass
    if parsed.json:
        print(json.dumps(findings.found(), ensure_ascii=False))
        return findings.status(read)
    for example in findings.examples:
        show(example)
    for warning in findings.warnings():
        show(f"warning: {warning}", sys.stderr)
    metrics = findings.decoder.metrics
    errors = sum(metrics["errors"].values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(metrics["errors"].items()))
    print(f"{metrics['messages']} messages, {metrics['rows']} rows, {errors} errors" + (f": {kinds}" if kinds else ""))
    return findings.status(read)
