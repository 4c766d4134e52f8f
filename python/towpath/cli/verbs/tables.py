"""Lists the tables whose changes are in the messages."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from towpath.cli.arguments import add_decoder, add_json, decoder_arguments, inputs
from towpath.cli.findings import Findings
from towpath.cli.text import print_table, show

PURPOSE = "list the tables: rows by operation, errors, first and last event time"

_OPS = {"insert": "insert", "update": "update", "delete": "delete", "snapshot": "read"}
"""Operations with their own column, and its heading. The rows of a snapshot were read from the table."""


@dataclass
class Table:
    """Summary of the messages about one table."""

    ops: Counter[str] = field(default_factory=Counter)
    """Number of rows by operation."""
    errors: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def add(self, group: dict[str, Any]) -> None:
        """Add the rows of one operation in a batch."""
        self.ops[group["op"]] += group["op_count"]
        self.errors += group["is_bad_sum"]
        self.first = min(filter(None, (self.first, group["event_time_min"])), default=None)
        self.last = max(filter(None, (self.last, group["event_time_max"])), default=None)


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_decoder(verb)
    add_json(verb)


def run(parsed: argparse.Namespace) -> int:
    """Print a line for each table. Return status 1 if there are errors."""
    fields = ["op", "database", "table", "event_time", "error", *(["before", "after"] if parsed.schema else [])]
    findings = Findings(decoder_arguments(parsed, fields=fields))
    read = inputs(parsed)
    tables = _tables(findings.decode(read))
    if parsed.json:
        print(json.dumps([_as_json(name, table) for name, table in tables.items()], ensure_ascii=False))
    else:
        head = ["table", *_OPS.values(), "others", "errors", "first event", "last event"]
        print_table([head, *(_line(name, table) for name, table in tables.items())])
    for example in findings.examples:
        show(f"error: {example}", sys.stderr)
    for warning in findings.warnings():
        show(f"warning: {warning}", sys.stderr)
    return findings.status(read)


def _tables(batches: Iterable[pa.RecordBatch]) -> dict[str, Table]:
    """Return the tables by name, in the order of their first rows. Rows without a table count for the table `-`."""
    tables: dict[str, Table] = {}
    for batch in batches:
        bad = batch["error"].is_valid().cast(pa.int64())
        rows = pa.table(batch.select(["op", "database", "table", "event_time"]).append_column("is_bad", bad))
        by = rows.group_by(["database", "table", "op"], use_threads=False)
        counted = [("op", "count"), ("is_bad", "sum"), ("event_time", "min"), ("event_time", "max")]
        for group in by.aggregate(counted).to_pylist():
            name = ".".join(filter(None, (group["database"], group["table"]))) or "-"
            tables.setdefault(name, Table()).add(group)
    return tables


def _line(name: str, table: Table) -> list[object]:
    named = [table.ops[op] for op in _OPS]
    times = [time.strftime("%Y-%m-%d %H:%M:%S") if time else "" for time in (table.first, table.last)]
    return [name, *named, table.ops.total() - sum(named), table.errors, *times]


def _as_json(name: str, table: Table) -> dict[str, Any]:
    times = {"first": table.first, "last": table.last}
    written = {word: time.isoformat() if time else None for word, time in times.items()}
    return {"table": name, "rows": table.ops.total(), "ops": table.ops, "errors": table.errors, **written}
