"""Findings about decoded messages for the user: counts, samples of errors, names that match nothing."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath import _towpath
from towpath.cli.exit_status import DECODE_ERRORS, INTERRUPTED, SUCCESS
from towpath.cli.inputs import Input, Messages
from towpath.cli.text import show
from towpath.decoder import Decoder
from towpath.places import located
from towpath.sequence import numbered

if TYPE_CHECKING:
    from towpath.decoder import Metrics

SAMPLE = 10_000
"""Number of first messages that are searched for tables and dialects after a problem."""
EXAMPLES = 3
"""Number of errors that are shown."""
_SHOWN = 200  # characters of a message


class Findings:
    """Decoder that collects explanations for its counts.

    Args:
        arguments: Arguments of the decoder.
        most: Maximum number of errors to keep.
    """

    def __init__(self, arguments: dict[str, Any], most: int = EXAMPLES) -> None:
        self.decoder: Decoder = Decoder(**arguments)
        self.examples: list[str] = []
        """Places and texts of the first errors."""
        self._arguments, self._most = arguments, most
        self._sample: list[Messages] = []
        self.has_matched: bool = False
        """Whether a row has passed the filter."""

    def decode(self, inputs: Iterable[Messages]) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Raises:
            DecodeError: A message is malformed, in mode FAILFAST. The text names its place.
        """
        first, is_ordered = 0, "_sequence" in self.decoder.schema.names
        for messages in inputs:
            if sum(len(one.batch) for one in self._sample) < SAMPLE:
                self._sample.append(messages)
            errors = self._errors()
            try:
                batch = numbered(messages.batch, first) if is_ordered else messages.batch
                first += len(batch)
                for rows in self.decoder.decode_batches(batch):
                    self.has_matched = self.has_matched or _has_table(rows)
                    yield rows
            except _towpath.DecodeError as error:
                raise located(error, messages.place(error.row)) from error
            if self._errors() > errors and len(self.examples) < self._most:
                self.examples += self._errors_of(messages)[: self._most - len(self.examples)]

    def _errors(self) -> int:
        return sum(self.decoder.metrics["errors"].values())

    def _errors_of(self, messages: Messages) -> list[str]:
        """Return the errors of a batch. It is decoded again with an error column, whatever the requested rows."""
        number = pa.array(range(len(messages.batch)), pa.int64())
        explaining = {"layout": "change", "mode": "PERMISSIVE", "row_column": None}
        fields = ["error", "_corrupt_record", *(["before", "after"] if self._arguments.get("schema") else [])]
        arguments = self._arguments | explaining | {"fields": fields, "keep": {"_number": pa.int64()}}
        rows = Decoder(**arguments).decode(messages.batch.append_column("_number", number)).select([0, 1, -1])
        bad = [row for row in rows.to_pylist() if row["error"]]
        return [
            f"{messages.place(row['_number'])}: {row['error']['message']}: {_shown(row['_corrupt_record'])}"
            for row in bad
        ]

    def finish(self, inputs: Input, *, as_json: bool = False) -> int:
        """Print the counts and warnings to standard error, apart from the rows.

        Returns:
            The exit status.
        """
        metrics = self.decoder.metrics
        warnings = self.warnings()
        if as_json:
            print(json.dumps(self.found(), ensure_ascii=False), file=sys.stderr)
        else:
            examples = [f"error: {example}" for example in self.examples]
            show("\n".join([*_lines(metrics), *examples, *(f"warning: {one}" for one in warnings)]), sys.stderr)
        return self.status(inputs)

    def found(self) -> dict[str, Any]:
        """Return counts, examples of errors, and warnings in the form of `--json`."""
        return {**self.decoder.metrics, "examples": self.examples, "warnings": self.warnings()}

    def warnings(self) -> list[str]:
        """Return warnings about probable mistakes of the user."""
        metrics = self.decoder.metrics
        tables = self._tables_seen() if self.is_unmatched() else []
        return [*_absent(metrics), *self._other_dialect(metrics), *tables]

    def status(self, inputs: Input) -> int:
        """Return the exit status."""
        if inputs.interrupted:
            return INTERRUPTED
        return DECODE_ERRORS if self._errors() or self.is_unmatched() else SUCCESS

    def is_unmatched(self) -> bool:
        """Return whether there are changes, but none passed the filter."""
        return self.decoder.metrics["filtered"] > 0 and not self.has_matched

    def _other_dialect(self, metrics: Metrics) -> Iterator[str]:
        """Yield the dialect that the messages resemble, if they are not of the named dialect."""
        named = self._arguments["dialect"]
        if named == "auto" or not metrics["errors"].keys() & {"syntax", "encoding", "envelope"}:
            return
        values = [value for messages in self._sample for value in messages.batch["value"].to_pylist() if value]
        seen = Counter(_towpath.detect(value) or "no known dialect" for value in values)
        known = {name: one["name"] for one in _towpath.dialects() for name in (one["name"], *one["aliases"])}
        if seen and seen.most_common(1)[0][0] != known.get(named):
            yield f"--dialect is {named}, but the first {len(values)} messages are {_counted(seen)}"

    def _tables_seen(self) -> Iterator[str]:
        """Yield the tables in the messages, if no change passed the filter."""
        open_filter = {"database": None, "table": None, "schema": None, "layout": "change", "mode": "PERMISSIVE"}
        fields = {"fields": ["database", "table"], "keep": (), "row_column": None}
        decoder = Decoder(**_without_columns(self._arguments) | open_filter | fields)
        tables: Counter[str] = Counter()
        for messages in self._sample:
            rows = decoder.decode(messages.batch).to_pylist()
            tables.update(f"{row['database'] or ''}.{row['table']}" for row in rows if row["table"])
        count = sum(len(messages.batch) for messages in self._sample)
        yield unmatched(self._arguments["database"], self._arguments["table"], tables, count)


def unmatched(database: str | None, table: str | None, tables: Counter[str], count: int) -> str:
    """Return the text for a user if no message is of these databases and tables.

    Args:
        database: The argument `--database`.
        table: The argument `--table`.
        tables: Names of tables in messages with their databases, and their numbers of messages.
        count: Number of searched messages.
    """
    asked = [f"--{name} {value!r}" for name, value in (("database", database), ("table", table)) if value]
    found = f"no message matches {' and '.join(asked)}; tables in the first {count} messages: {_counted(tables)}"
    if table not in tables or "." not in (table or ""):
        return found
    of_database, _, name = (table or "").partition(".")
    return f"{found}; --table is the name without the database: --database {of_database} --table {name}"


def _without_columns(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments without those for the columns of one table."""
    return {name: value for name, value in arguments.items() if name not in ("labels", "column_types", "missing")}


def _counted(counts: Counter[str], most: int = 20) -> str:
    named = [f"{name} ({count})" for name, count in counts.most_common(most)]
    left = len(counts) - len(named)
    return ", ".join([*named, *([f"and {left} more"] if left else [])]) or "none"


def _has_table(rows: pa.RecordBatch) -> bool:
    """Return whether a row is a change of a table. Messages that name no table pass every filter."""
    names = rows.schema.names
    for name in ("table", "_table"):
        if name in names:
            return bool(rows[name].null_count < len(rows))
    return len(rows) > 0


def _shown(message: bytes | None) -> str:
    # A character has at most four bytes.
    text = " ".join((message or b"")[: 4 * _SHOWN].decode(errors="backslashreplace").split())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _absent(metrics: Metrics) -> Iterator[str]:
    for column, similar in metrics["absent_columns"].items():
        hint = f"; the messages have {similar!r}" if similar else ""
        yield f"no row has the column {column!r} of the schema{hint}"


def _lines(metrics: Metrics) -> list[str]:
    errors = metrics["errors"]
    kinds = "".join(f"{', ' if at else ': '}{count} {kind}" for at, (kind, count) in enumerate(sorted(errors.items())))
    counts = [f"{count} {name}" for name, count in metrics.items() if isinstance(count, int)]
    missing = [f"{count} rows without column {name!r}" for name, count in metrics["missing_columns"].items()]
    zeros = [f"{count} zero dates in {name!r} became null" for name, count in metrics["zero_dates"].items()]
    return [*counts, f"{sum(errors.values())} errors{kinds}", *missing, *zeros]
