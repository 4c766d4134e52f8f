"""Decodes messages to rows."""

from __future__ import annotations

import argparse

from towpath.cli.arguments import add_decoder, add_json, add_layout, add_output, decoder_arguments, inputs
from towpath.cli.findings import Findings
from towpath.cli.outputs import check_output
from towpath.sinks import sink

PURPOSE = "decode messages to JSON lines, Parquet or Arrow"


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_decoder(verb)
    add_layout(verb)
    add_output(verb, "-", ".parquet, .arrow or .jsonl; - is JSON lines (default)")
    add_json(verb, "print the counts as JSON; rows to standard output are JSON anyway")


def run(parsed: argparse.Namespace) -> int:
    """Decode to a file or standard output, and print the counts."""
    findings = Findings(decoder_arguments(parsed))
    read = inputs(parsed, live=parsed.output == "-")
    check_output(parsed.output, read.paths, parsed.force)
    with sink(parsed.output, findings.decoder.schema) as write:
        for rows in findings.decode(read):
            write(rows)
    return findings.finish(read, as_json=parsed.json)
