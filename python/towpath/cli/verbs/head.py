"""Shows the first changes with before and after side by side."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from towpath.cli.arguments import add_decoder, add_json, count, decoder_arguments, inputs
from towpath.cli.exit_status import DECODE_ERRORS, INTERRUPTED, SUCCESS
from towpath.cli.findings import Findings
from towpath.cli.text import print_table, show
from towpath.printable import printable
from towpath.sinks import plain

PURPOSE = "show the first changes, before and after side by side, and mark what changed"

_FIELDS = ["op", "database", "table", "event_time", "before", "after", "changed", "sql", "error"]
_WIDEST = 40  # characters of a cell
_BOLD, _NORMAL = "\033[1m", "\033[0m"

Row = dict[str, Any]


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_decoder(verb)
    verb.add_argument("-n", type=count, default=10, metavar="N", help="show N rows (default: %(default)s)")
    add_json(verb, "print JSON lines, with whole cells")


def run(parsed: argparse.Namespace) -> int:
    """Print the first rows. Return status 1 if a row has an error."""
    findings = Findings(decoder_arguments(parsed, fields=_FIELDS))
    read = inputs(parsed, live=True)
    rows = chain.from_iterable(map(_rows, findings.decode(read)))
    has_errors = False
    for row in islice(rows, parsed.n):
        has_errors = has_errors or bool(row["error"])
        if parsed.json:
            print(json.dumps(row, ensure_ascii=False))
        else:
            _print(row)
        sys.stdout.flush()
    for warning in findings.warnings():
        show(f"warning: {warning}", sys.stderr)
    if read.interrupted:
        return INTERRUPTED
    return DECODE_ERRORS if has_errors or findings.is_unmatched() else SUCCESS


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of tables and errors, without watermarks and transactions."""
    types = [(field.name, field.type) for field in batch.schema]
    for row in batch.to_pylist():
        # A row change may name no table, for example Flink's.
        if any(row[name] for name in ("table", "before", "after", "error")):
            yield {name: plain(row[name], kind) for name, kind in types}


def _print(row: Row) -> None:
    """Print a heading, and a line for each column."""
    name = ".".join(filter(None, (row["database"], row["table"])))
    bold, normal = (_BOLD, _NORMAL) if sys.stdout.isatty() else ("", "")
    print(bold + printable("  ".join(filter(None, (row["op"], name, row["event_time"])))) + normal)
    if row["error"]:
        show(f"  error: {row['error']['message']}")
    if row["sql"]:
        show(f"  {_cut(row['sql'], 2 * _WIDEST)}")
    if row["before"] or row["after"]:
        print_table(list(_columns(row)))
    print()


def _columns(row: Row) -> Iterator[tuple[str, str, str, str]]:
    """Yield the table's columns with their values before and after. A star marks changed columns."""
    before, after = row["before"] or {}, row["after"] or {}
    yield "  ", "column", "before", "after"
    for name in dict.fromkeys([*before, *after]):
        mark = " *" if name in (row["changed"] or ()) else "  "
        yield mark, name, _cell(before, name), _cell(after, name)


def _cell(image: Row, name: str) -> str:
    if name not in image:
        return ""
    value = image[name]
    return "NULL" if value is None else _cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _cut(text: str, width: int = _WIDEST) -> str:
    line = " ".join(text.split()) if "\n" in text else text
    return line if len(line) <= width else line[: width - 3] + "..."
