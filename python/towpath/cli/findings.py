"""What a user has to know about decoded messages: counts, samples of errors, names that match nothing."""

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
"""The first messages, in which tables and dialects are looked for when something is wrong."""
EXAMPLES = 3
"""How many errors are shown."""
_SHOWN = 200  # characters of a message


class Findings:
    """Decodes messages and remembers what explains the counts.

    Args:
        arguments: The arguments of the decoder.
        most: How many errors are remembered.
    """

    def __init__(self, arguments: dict[str, Any], most: int = EXAMPLES) -> None:
        self.decoder: Decoder = Decoder(**arguments)
        self.examples: list[str] = []
        """Where the first errors are, and what they are."""
        self._arguments, self._most = arguments, most
        self._sample: list[Messages] = []
        self.has_matched: bool = False
        """Whether the filter let a row through."""

    def decode(self, inputs: Iterable[Messages]) -> Iterator[pa.RecordBatch]:
        """The rows.

        Raises:
            DecodeError: In mode FAILFAST; its text says where the message is.
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
        """The errors of a batch, decoded again so that they are in the rows, whatever rows were asked for."""
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
        """Print the counts and warnings to standard error, where they do not mix with rows.

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
        """The counts, with the examples of errors and the warnings, as `--json` prints them."""
        return {**self.decoder.metrics, "examples": self.examples, "warnings": self.warnings()}

    def warnings(self) -> list[str]:
        """What is probably a mistake of the user."""
        metrics = self.decoder.metrics
        tables = self._tables_seen() if self.is_unmatched() else []
        return [*_absent(metrics), *self._other_dialect(metrics), *tables]

    def status(self, inputs: Input) -> int:
        """The exit status."""
        if inputs.interrupted:
            return INTERRUPTED
        return DECODE_ERRORS if self._errors() or self.is_unmatched() else SUCCESS

    def is_unmatched(self) -> bool:
        """Whether there are changes, and the filter let none through."""
        return self.decoder.metrics["filtered"] > 0 and not self.has_matched

    def _other_dialect(self, metrics: Metrics) -> Iterator[str]:
        """What the messages look like, if they are not of the dialect that was named."""
        named = self._arguments["dialect"]
        if named == "auto" or not metrics["errors"].keys() & {"syntax", "encoding", "envelope"}:
            return
        values = [value for messages in self._sample for value in messages.batch["value"].to_pylist() if value]
        seen = Counter(_towpath.detect(value) or "no known dialect" for value in values)
        known = {name: one["name"] for one in _towpath.dialects() for name in (one["name"], *one["aliases"])}
        if seen and seen.most_common(1)[0][0] != known.get(named):
            yield f"--dialect is {named}, but of the first {len(values)} messages {_counted(seen)}"

    def _tables_seen(self) -> Iterator[str]:
        """Which tables there are, if the filter let none through."""
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
    """What a user reads if no message is of these databases and tables.

    Args:
        database: The argument `--database`.
        table: The argument `--table`.
        tables: The names of tables in messages, with their databases, and how many messages each has.
        count: How many messages were looked at.
    """
    asked = [f"--{name} {value!r}" for name, value in (("database", database), ("table", table)) if value]
    found = f"no message matches {' and '.join(asked)}; tables in the first {count} messages: {_counted(tables)}"
    if table not in tables or "." not in (table or ""):
        return found
    of_database, _, name = (table or "").partition(".")
    return f"{found}; --table is the name without the database: --database {of_database} --table {name}"


def _without_columns(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments without those about the columns of one table."""
    return {name: value for name, value in arguments.items() if name not in ("labels", "column_types", "missing")}


def _counted(counts: Counter[str], most: int = 20) -> str:
    named = [f"{name} ({count})" for name, count in counts.most_common(most)]
    left = len(counts) - len(named)
    return ", ".join([*named, *([f"and {left} more"] if left else [])]) or "none"


def _has_table(rows: pa.RecordBatch) -> bool:
    """Whether a row is a change of a table; messages that name none pass every filter."""
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
