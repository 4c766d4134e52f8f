"""Prints schemas from the types that messages declare."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from typing import Any

import pyarrow as pa

from towpath.cli.arguments import add_filters, add_json, add_set, inputs
from towpath.cli.exit_status import DECODE_ERRORS, SUCCESS
from towpath.cli.findings import unmatched
from towpath.cli.inputs import Input
from towpath.cli.text import show
from towpath.ddl import ddl
from towpath.decoder import Decoder, infer_schema
from towpath.literals import Dialect
from towpath.names import did_you_mean
from towpath.printable import printable

PURPOSE = "print a schema from the types that messages declare, one for each table"

_INFERRED_WITH = ("schema_registry", "writer_schemas")
"""Arguments of `infer_schema` with the location of schemas."""

_MESSAGES = pa.schema([("key", pa.binary()), ("value", pa.binary())])

_OF_ROWS = ("insert", "update", "delete", "snapshot")

_NUMBER = "number"
"""Column with the number of each message."""

Table = tuple[str, str]


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_filters(verb)
    verb.set_defaults(limit=10_000)
    add_set(verb, f"{' or '.join(_INFERRED_WITH)}: --set schema_registry=http://registry:8081")
    add_json(verb, "print a JSON object from the name of each table to its DDL")


def run(parsed: argparse.Namespace) -> int:
    """Print DDL, after the table's name if the tables differ. Return status 1 if a table declares no types."""
    settings = dict(parsed.set)
    if unknown := settings.keys() - set(_INFERRED_WITH):
        name = min(unknown)
        allowed = f"{did_you_mean(name, _INFERRED_WITH)}expected one of {', '.join(_INFERRED_WITH)}"
        raise ValueError(f"--set: unknown {name!r}; {allowed}")
    messages = _together(inputs(parsed))
    tables = _tables(messages, parsed.dialect, settings, database=parsed.database, table=parsed.table)
    if not tables and (parsed.database or parsed.table):
        seen = _tables(messages, parsed.dialect, settings)
        names = Counter({".".join(name): len(rows) for name, rows in seen.items()})
        raise ValueError(unmatched(parsed.database, parsed.table, names, len(messages)))
    if len(tables) < 2 and not parsed.json:  # without a table, the error describes the problem
        show(ddl(infer_schema(messages, parsed.dialect, parsed.database, parsed.table, **settings)))
        return SUCCESS
    found, failed = _inferred(messages, tables, parsed.dialect, settings)
    for why in failed:
        show(f"towpath: {why}", sys.stderr)
    if parsed.json:
        print(json.dumps(found, ensure_ascii=False))
    elif len(set(found.values())) == 1:  # shards
        show(next(iter(found.values())))
    else:
        show("\n\n".join(f"-- {printable(name)}\n{text}" for name, text in found.items()))
    return DECODE_ERRORS if failed else SUCCESS


def _together(read: Input) -> pa.RecordBatch:
    """Return all messages as one batch."""
    # The types of keys and values may differ between files: null, binary, large binary.
    batches = [messages.batch.select(_MESSAGES.names).cast(_MESSAGES) for messages in read]
    if not sum(map(len, batches)):
        raise ValueError("infer: the input has no messages")
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _tables(
    messages: pa.RecordBatch, dialect: Dialect, settings: dict[str, Any], **filters: Any
) -> dict[Table, list[int]]:
    """Return the tables whose rows are in the messages, in order, each with the numbers of its messages."""
    numbered = messages.append_column(_NUMBER, pa.array(range(len(messages)), pa.int64()))
    keep = {_NUMBER: pa.int64()}
    decoder = Decoder(dialect, key="key", fields=["op", "database", "table"], keep=keep, **filters, **settings)
    found: dict[Table, list[int]] = {}
    with_rows: dict[Table, None] = {}
    for row in decoder.decode(numbered).to_pylist():
        table = row["database"] or "", row["table"] or ""
        found.setdefault(table, []).append(row[_NUMBER])
        if row["op"] in _OF_ROWS:
            with_rows[table] = None
    return {table: found[table] for table in with_rows}


def _inferred(
    messages: pa.RecordBatch, tables: dict[Table, list[int]], dialect: Dialect, settings: dict[str, Any]
) -> tuple[dict[str, str], list[str]]:
    """Return the DDL of each table by name, and why other tables have none."""
    found: dict[str, str] = {}
    failed: list[str] = []
    for (database, table), numbers in tables.items():
        name = f"{database}.{table}" if database else table
        own = messages.take(pa.array(dict.fromkeys(numbers), pa.int64()))
        try:
            schema = infer_schema(own, dialect, re.escape(database), re.escape(table), **settings)
        except ValueError as error:
            failed.append(f"{name}: {error}")
        else:
            found[name] = ddl(schema)
    return found, failed
