"""SQL table function `from_cdc`, whose columns depend on its arguments. This module needs pyspark 4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, Row, StringType, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, SelectedColumn

from towpath.ddl import quoted
from towpath.decoder import Decoder
from towpath.secret_values import secret_values
from towpath.sequence import OFFSET, needs_offset, unordered
from towpath.spark.source_options import DECODER_PARSERS, parsed
from towpath.spark.types import arrow_schema
from towpath.workers import begin_task

_MOST = 10_000
"""Number of messages that are decoded at once."""


@dataclass
class _Analyzed(AnalyzeResult):
    """Columns of a call, and the arguments for decoding its messages."""

    arguments: dict[str, Any] = field(default_factory=dict)
    """Arguments of `towpath.Decoder`."""
    columns: dict[str, pa.DataType] = field(default_factory=dict)
    """Columns of the messages that are needed."""


class FromCdc:
    """Table function that decodes the column `value` of a table of messages. `docs/spark/index.md` describes it."""

    def __init__(self, analyzed: _Analyzed) -> None:
        self._decoder = Decoder(**analyzed.arguments)
        self._columns = analyzed.columns
        self._waiting: list[Row] = []
        begin_task()

    @staticmethod
    def analyze(messages: AnalyzeArgument, **options: AnalyzeArgument) -> AnalyzeResult:
        """Return the columns of a call. Spark calls this when it plans the query.

        Raises:
            ValueError: The argument is not a table, the table has no column of messages, or an option is wrong.
        """
        if not messages.isTable:
            raise ValueError(
                "from_cdc: expected the table of the messages: from_cdc(TABLE(kafka), dialect => 'canal-json')"
            )
        table: Any = messages.dataType
        arguments = parsed({name: _constant(name, one) for name, one in options.items()}, DECODER_PARSERS)
        _refuse_passwords(arguments)
        keep = _kept(table, arguments.get("keep", ()))
        columns = {**_messages(table), **keep}
        arguments["keep"] = keep
        arguments["key"] = "key" if "key" in columns else None
        if OFFSET not in columns and needs_offset(arguments, arguments.get("dialect", "auto")):
            raise unordered("from_cdc", f"add the bigint column {OFFSET!r} to the table")
        schema = Decoder(**arguments).spark_schema
        select = [SelectedColumn(quoted(name)) for name in columns]
        return _Analyzed(schema, select=select, arguments=arguments, columns=columns)

    def eval(self, messages: Row, **_: Any) -> Iterator[tuple[Any, ...]]:
        """Take a message. Many messages are decoded at once."""
        self._waiting.append(messages)
        if len(self._waiting) >= _MOST:
            yield from self.terminate()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the waiting messages."""
        arrays = {name: pa.array([row[name] for row in self._waiting], kind) for name, kind in self._columns.items()}
        self._waiting = []
        for batch in self._decoder.decode_batches(pa.record_batch(arrays)):
            kinds = batch.schema.types
            for row in batch.to_pylist():
                yield tuple(_with_dicts(value, kind) for value, kind in zip(row.values(), kinds, strict=True))


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    """Convert a value for Spark: an Arrow map becomes a dict. pyarrow before 20 cannot do this."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        return {key: _with_dicts(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    return [_with_dicts(item, kind.value_type) for item in value]


def _constant(name: str, argument: AnalyzeArgument) -> str:
    if not argument.isConstantExpression or argument.value is None:
        raise ValueError(f"from_cdc: {name}: expected a constant, such as {name} => 'text'")
    value = argument.value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refuse_passwords(arguments: Mapping[str, Any]) -> None:
    """Refuse passwords, since the query's plan and Spark's user interface would show them."""
    for name in ("schema_registry", "claim_check"):
        if secret_values({"": arguments.get(name)}):
            raise ValueError(
                f"from_cdc: {name}: query plans show SQL constants, so passwords are not allowed here; pass it to "
                "towpath.spark.decode in Python, and create a view of the result"
            )


def _messages(table: StructType) -> dict[str, pa.DataType]:
    """Return the columns with messages, keys and offsets."""
    found: dict[str, pa.DataType] = {}
    for name, optional in (("value", False), ("key", True)):
        if name not in table.names:
            if optional:
                continue
            raise ValueError(
                f"from_cdc: the table has no column value with the messages, only {', '.join(table.names)}"
            )
        kind = table[name].dataType
        if not isinstance(kind, BinaryType | StringType):
            raise ValueError(f"from_cdc: column {name}: expected binary or string, not {kind.simpleString()}")
        found[name] = pa.binary() if isinstance(kind, BinaryType) else pa.string()
    if OFFSET in table.names and isinstance(table[OFFSET].dataType, LongType):
        found[OFFSET] = pa.int64()
    return found


def _kept(table: StructType, names: tuple[str, ...]) -> dict[str, pa.DataType]:
    for name in names:
        if name not in table.names:
            raise ValueError(f"from_cdc: keep: the table has no column {name}, only {', '.join(table.names)}")
    schema = arrow_schema(StructType([table[name] for name in names]))
    return dict(zip(schema.names, schema.types, strict=True))
