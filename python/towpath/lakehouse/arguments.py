"""Checks arguments at the call. A wrong one would otherwise fail in a batch, or put a table aside.

A check returns the argument, or raises a `ValueError` whose text begins with the argument's name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath.arguments import DialectOptions
from towpath.decoder import PARAMETERS, Decoder
from towpath.lakehouse.reading.changes import REQUIRED, has_offsets, table_columns
from towpath.lakehouse.tables.jdbc_rows import check_jdbc_rows
from towpath.lakehouse.tables.sql import execute, sql, string
from towpath.lakehouse.tables.targets import absolute
from towpath.names import did_you_mean, nearest
from towpath.spark.types import is_data_frame, not_a_data_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from towpath.literals import Dialect

    Snapshot = DataFrame | Callable[[], DataFrame]
    """The rows of a table, or a function that returns them. It is called only if the target does not exist."""

Place = str | os.PathLike[str]
"""A path, or the name of a table."""

Check = Callable[[str, Any], Any]
"""Check of an argument. It takes the argument's name and value, and returns the value."""


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Check that a value is one of the allowed texts."""
    if value in allowed:
        return str(value)
    expected = " or ".join(f'"{one}"' for one in allowed)
    raise ValueError(f"{name}: {did_you_mean(str(value), allowed)}expected {expected}, not {value!r}")


def _check(is_right: Callable[[Any], bool], expected: str, converted: Callable[[Any], Any] | None = None) -> Check:
    """Make a check from a condition, a description of the expected value, and a conversion."""

    def check(name: str, value: Any) -> Any:
        if not is_right(value):
            raise ValueError(f"{name}: expected {expected}, not {value!r}")
        return converted(value) if converted else value

    return check


def or_none(check: Check) -> Check:
    """Make a check that allows None."""
    return lambda name, value: None if value is None else check(name, value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _are_columns(value: Any) -> bool:
    """Return whether a value is None or a sequence of texts. A single text would be split into its letters."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return value is None or (is_list and all(isinstance(one, str) for one in value))


flag = _check(lambda value: isinstance(value, bool), "True or False")
text = _check(lambda value: isinstance(value, str) and value != "", "a non-empty string")
count = _check(_is_count, "a positive integer")
count_or_none = _check(lambda value: value is None or _is_count(value), "a positive integer or None")
columns = _check(_are_columns, 'a list of columns such as ["id"]', lambda value: list(value or ()))
names = _check(
    lambda value: isinstance(value, bool) or (isinstance(value, Collection) and not isinstance(value, str)),
    "a boolean or a collection of names",
    lambda value: value if isinstance(value, bool) else frozenset(value),
)
"""A boolean for all or no tables, or the names of some tables."""

_PLACE = "a path or the name of a table"

place = or_none(_check(lambda value: isinstance(value, str | os.PathLike), _PLACE, os.fspath))
"""A path or the name of a table as text, or None."""


def table(name: str, value: Any) -> str | None:
    """Check a place. Make a relative path absolute, because Delta's SQL takes it for the name of a table."""
    found = place(name, value)
    return absolute(found) if found else found


def target(value: Any) -> str:
    """Check the target of one table: a path or a name."""
    return str(_check(bool, _PLACE)("target", table("target", value)))


def by_name(name: str, value: Any, example: str, check: Check = lambda _, value: value) -> dict[str, Any]:
    """Check a mapping from names to checked values. None is an empty mapping. Errors show the example."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name}: expected a mapping such as {example}, not {value!r}")
    return {key: check(f"{name}: {key}", one) for key, one in value.items()}


def columns_by_table(name: str, value: Any) -> dict[str, list[str]]:
    """Check a mapping from "database.table" to names of columns."""
    return by_name(name, value, '{"shop.orders": ["id"]}', columns)


def texts(name: str, value: Any) -> dict[str, str]:
    """Check a mapping from texts to texts: properties of tables, or options of a writer."""
    return by_name(name, value, '{"name": "value"}', _check(lambda value: isinstance(value, str), "a string"))


def frame(name: str, value: Any) -> DataFrame:
    """Check that a value is a DataFrame."""
    if is_data_frame(value):
        return value
    raise not_a_data_frame(name, value)


def check_age(spark: SparkSession, forget_after: str) -> None:
    """Check an interval by letting Spark parse it."""
    from pyspark.errors import PySparkException

    try:
        execute(spark, sql("SELECT current_timestamp() - INTERVAL {age}", age=string(forget_after)))
    except PySparkException:
        expected = 'an SQL interval such as "7 days"'
        raise ValueError(f"forget_after: expected {expected}, not {forget_after!r}") from None


def check_snapshot(name: str, value: Any) -> DataFrame:
    """Check the rows of a source table: a batch without columns that Spark's JDBC source reads wrong."""
    found = frame(name, value)
    if found.isStreaming:
        raise ValueError(f"{name}: expected a batch with the rows of the table, not a stream")
    check_jdbc_rows(name, found)
    return found


def snapshots(name: str, value: Any) -> dict[str, Snapshot]:
    """Check a mapping from "database.table" to batch DataFrames, or to functions that return them."""

    def check(name: str, rows: Any) -> Snapshot:
        return rows if callable(rows) else check_snapshot(name, rows)

    return by_name(name, value, '{"shop.orders": frame}', check)


def check_decoded(changes: DataFrame) -> None:
    """Check that changes have the columns that every table needs."""
    missing = [name for name in REQUIRED if name not in changes.columns]
    if missing:
        raise ValueError(f'changes: missing columns {", ".join(missing)}; decode with layout="upsert"')


def check_changes(changes: DataFrame, keys: Sequence[str], soft_deletes: str | None) -> None:
    """Check the columns of the frame given to `apply_changes`. A stream's changes also need an order."""
    check_decoded(changes)
    if changes.isStreaming and not has_offsets(changes):
        raise ValueError(
            "changes: the changes of a stream have no order across its batches; decode with "
            'keep=["topic", "partition", "offset", "timestamp"]. If the source has no offsets, add the column "offset" '
            "with nulls; then each message needs a commit time or a binlog position"
        )
    if not keys and "_primary_key" not in changes.columns:
        raise ValueError("keys: give the columns of the primary key, or decode the field _primary_key")
    known = table_columns(changes)
    lower = {one.lower() for one in known}
    for name in keys:
        if name.lower() not in lower:
            raise ValueError(f"keys: unknown {name}; {did_you_mean(name, known)}expected one of {', '.join(known)}")
    if soft_deletes is not None and soft_deletes.lower() in lower:
        raise ValueError(f"soft_deletes: the table already has a column {soft_deletes}")


_TRIGGERS = ("availableNow", "processingTime", "once", "continuous", "realTime")


def triggers(value: Any) -> dict[str, Any]:
    """Check the arguments of `DataStreamWriter.trigger`."""
    found = by_name("trigger", value, '{"availableNow": True}')
    for one in found:
        one_of("trigger", one, _TRIGGERS)
    return found


@dataclass(frozen=True)
class Query:
    """Settings of a stream's query."""

    checkpoint: str
    trigger: Mapping[str, Any]
    name: str | None
    writer_options: Mapping[str, str]


def query(
    name: str,
    value: Any,
    checkpoint: Place | None,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
    writer_options: Mapping[str, str] | None,
) -> Query | None:
    """Return the arguments of a stream's query, which needs a checkpoint; None for a batch, which takes none."""
    own = {"checkpoint": checkpoint, "trigger": trigger, "query_name": query_name, "writer_options": writer_options}
    found = Query(
        place("checkpoint", checkpoint) or "",
        triggers(trigger),
        or_none(text)("query_name", query_name),
        texts("writer_options", writer_options),
    )
    if not frame(name, value).isStreaming:
        for given, one in own.items():
            if one is not None:
                raise ValueError(f"{given}: only for streams, and the DataFrame is a batch")
        return None
    if not found.checkpoint:
        raise ValueError("checkpoint: required for a stream, which would read everything at each start without it")
    return found


def check_names(options: Mapping[str, Any], own: Sequence[str]) -> None:
    """Suggest the function's argument that the user probably meant, if a decoder has no such option."""
    known = {*PARAMETERS, *DialectOptions.__annotations__}
    for name in options.keys() - known:
        if (probable := nearest(name, [*own, *known])) in own:
            raise ValueError(f"unknown argument {name}; did you mean {probable}?")


def check_decoders(
    dialect: Dialect, options: Mapping[str, Any], schemas: Mapping[str, Any], table_options: Mapping[str, Any]
) -> None:
    """Make the decoder of envelopes, and the decoder of each table that has its own arguments, to check them."""
    _check_free(options)
    Decoder(dialect, key="key", **options)
    for table in {**schemas, **table_options}:
        more = by_name(f"table_options: {table}", table_options.get(table), '{"zero_date": "error"}')
        _check_free(more)
        try:
            Decoder(dialect, schemas.get(table), layout="upsert", **{**options, **more})
        except ValueError as error:
            raise ValueError(f"{table}: {error}") from None


def _check_free(options: Mapping[str, Any]) -> None:
    for name in ("layout", "fields", "mode", "schema", "value", "key", "keep", "row_column"):
        if name in options:
            raise ValueError(f"{name}: not allowed, since replicate sets it")
