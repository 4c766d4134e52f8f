"""Writes a page with plots."""

from __future__ import annotations

import argparse

from towpath.cli.arguments import add_decoder, add_json, add_output, decoder_arguments, inputs
from towpath.cli.findings import Findings
from towpath.cli.outputs import check_output

PURPOSE = "write an HTML page with plots of the messages"


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_decoder(verb)
    add_output(verb, "report.html", "the page (default: %(default)s)")
    add_json(verb, "print the counts as JSON")


def run(parsed: argparse.Namespace) -> int:
    """Write the report, and print its name and the counts."""
    from towpath.report import FIELDS, write_report

    # Values are only converted, and their errors found, if row images are among the fields.
    fields = [*FIELDS, "before", "after"] if parsed.schema else FIELDS
    findings = Findings(decoder_arguments(parsed, fields=fields))
    read = inputs(parsed)
    check_output(parsed.output, read.paths, parsed.force)
    places = {"Topics": ", ".join(parsed.topic)} if parsed.kafka else {"Files": ", ".join(parsed.files)}
    details = {**places, "Dialect": parsed.dialect}
    details |= {name.title(): getattr(parsed, name) for name in ("database", "table") if getattr(parsed, name)}
    write_report(findings.decode(read), parsed.output, warnings=findings.warnings, details=details)
    print(parsed.output)
    return findings.finish(read, as_json=parsed.json)
