"""Checks arguments at the call: a wrong one would otherwise fail in a batch, or put a table aside.

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

Place = str | os.PathLike[str]
"""A path, or the name of a table."""


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of some texts."""
    if value in allowed:
        return str(value)
    expected = " or ".join(f'"{one}"' for one in allowed)
    raise ValueError(f"{name}: {did_you_mean(str(value), allowed)}expected {expected}, not {value!r}")


def _unexpected(name: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"{name}: expected {expected}, not {value!r}")


_PLACE = "a path or the name of a table"


def place(name: str, value: Any) -> str | None:
    """A path or the name of a table as text, or None; a `pathlib.Path` is accepted."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if value is None or isinstance(value, str):
        return value
    raise _unexpected(name, value, _PLACE)


def table(name: str, value: Any) -> str | None:
    """As `place`. A relative path is in the working directory: Delta's SQL takes it for the name of a table."""
    found = place(name, value)
    return absolute(found) if found else found


def target(value: Any) -> str:
    """The target of one table: a path or a name."""
    if found := table("target", value):
        return found
    raise _unexpected("target", value, _PLACE)


def by_name(name: str, value: Any, example: str) -> dict[str, Any]:
    """A mapping whose keys are names, such as those of tables. None is an empty one.

    Args:
        name: The argument.
        value: What was given.
        example: What it may look like, for the error.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(one, str) for one in value):
        return dict(value)
    raise _unexpected(name, value, f"a mapping such as {example}")


def columns(name: str, value: Any) -> list[str]:
    """A sequence of columns' names, not a single text, which would be taken for its letters. None is an empty one."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if value is None or (is_list and all(isinstance(one, str) for one in value)):
        return list(value or ())
    raise _unexpected(name, value, 'a list of columns such as ["id"]')


def by_table(name: str, value: Any, example: str, check: Callable[[str, Any], Any]) -> dict[str, Any]:
    """A mapping from "database.table" to what another check returns; `example` is what one table may have."""
    found = by_name(name, value, f'{{"shop.orders": {example}}}')
    return {table: check(f"{name}: {table}", one) for table, one in found.items()}


def columns_by_table(name: str, value: Any) -> dict[str, list[str]]:
    """A mapping from "database.table" to the names of columns."""
    return by_table(name, value, '["id"]', columns)


def texts(name: str, value: Any) -> dict[str, str]:
    """Properties of tables, or options of a writer: a mapping from texts to texts."""
    found = by_name(name, value, '{"name": "value"}')
    for key, one in found.items():
        if not isinstance(one, str):
            raise _unexpected(f"{name}: {key}", one, "a text")
    return found


def flag(name: str, value: Any) -> bool:
    """A boolean. Every text would be true."""
    if isinstance(value, bool):
        return value
    raise _unexpected(name, value, "True or False")


def text(name: str, value: Any) -> str:
    """A text that is not empty."""
    if isinstance(value, str) and value:
        return value
    raise _unexpected(name, value, "a text")


def count(name: str, value: Any, *, or_none: str = "") -> Any:
    """A number from 1 on."""
    if type(value) is int and value >= 1:
        return value
    raise _unexpected(name, value, f"a number from 1 on{or_none}")


def names(name: str, value: Any) -> bool | Collection[str]:
    """Whether all, or the names of some, not a single text, which would be taken for its letters."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Collection) and not isinstance(value, str):
        return frozenset(value)
    raise _unexpected(name, value, "a boolean or a collection of names")


def frame(name: str, value: Any) -> DataFrame:
    """A DataFrame."""
    if is_data_frame(value):
        return value
    raise not_a_data_frame(name, value)


def check_age(spark: SparkSession, forget_after: str) -> None:
    """Let Spark read an interval."""
    from pyspark.errors import PySparkException

    try:
        execute(spark, sql("SELECT current_timestamp() - INTERVAL {age}", age=string(forget_after)))
    except PySparkException:
        raise _unexpected("forget_after", forget_after, 'an interval of SQL such as "7 days"') from None


def check_snapshot(name: str, value: Any) -> DataFrame:
    """The rows of a source's table. They are no stream, and nothing that Spark's JDBC source reads wrong."""
    found = frame(name, value)
    if found.isStreaming:
        raise ValueError(f"{name}: expected a batch with the rows of the table, not a stream")
    check_jdbc_rows(name, found)
    return found


def check_changes(changes: DataFrame, keys: Sequence[str], soft_deletes: str | None) -> None:
    """Look at the columns of a frame that `apply_changes` gets, and at what orders a stream's changes."""
    missing = [name for name in REQUIRED if name not in changes.columns]
    if missing:
        raise ValueError(f'changes lacks the columns {", ".join(missing)}: decode with layout="upsert"')
    if changes.isStreaming and not has_offsets(changes):
        raise ValueError(
            "changes: nothing orders a stream's changes across its batches: decode with "
            'keep=["topic", "partition", "offset", "timestamp"]. Without offsets in its source add the column "offset" '
            "with nulls; then each message needs a commit time or a place in the binlog"
        )
    if not keys and "_primary_key" not in changes.columns:
        raise ValueError("keys: name the primary key's columns, or decode the field _primary_key too")
    known = table_columns(changes)
    lower = {one.lower() for one in known}
    for name in keys:
        if name.lower() not in lower:
            raise ValueError(f"keys: {did_you_mean(name, known)}{name} is not among the columns {', '.join(known)}")
    if soft_deletes is not None and soft_deletes.lower() in lower:
        raise ValueError(f"soft_deletes: the table has a column {soft_deletes} itself")


_TRIGGERS = ("availableNow", "processingTime", "once", "continuous", "realTime")


def triggers(value: Any) -> dict[str, Any]:
    """The arguments of `DataStreamWriter.trigger`."""
    found = by_name("trigger", value, '{"availableNow": True}')
    for one in found:
        one_of("trigger", one, _TRIGGERS)
    return found


@dataclass(frozen=True)
class Query:
    """How the query of a stream is started."""

    checkpoint: str
    trigger: Mapping[str, Any]
    name: str | None
    writer_options: Mapping[str, str]


def query(
    given: DataFrame,
    checkpoint: Place | None,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
    writer_options: Mapping[str, str] | None,
) -> Query | None:
    """The arguments for the query of a stream, which needs a checkpoint; None for a batch, which has none of them."""
    own = {"checkpoint": checkpoint, "trigger": trigger, "query_name": query_name, "writer_options": writer_options}
    found = Query(
        place("checkpoint", checkpoint) or "",
        triggers(trigger),
        text("query_name", query_name) if query_name is not None else None,
        texts("writer_options", writer_options),
    )
    if not given.isStreaming:
        for name, value in own.items():
            if value is not None:
                raise ValueError(f"{name}: the DataFrame is a batch, not a stream, and has no query")
        return None
    if not found.checkpoint:
        raise ValueError("checkpoint: a stream needs a folder for its checkpoint, or each start would read everything")
    return found


def check_names(options: Mapping[str, Any], own: Sequence[str]) -> None:
    """Name the argument that was probably meant, if it is none of the decoder's.

    Args:
        options: What a decoder would get.
        own: The arguments of the function itself.
    """
    known = {*PARAMETERS, *DialectOptions.__annotations__}
    for name in options.keys() - known:
        if (probable := nearest(name, [*own, *known])) in own:
            raise ValueError(f"unknown argument {name}; did you mean {probable}?")


def check_decoders(
    dialect: Dialect, options: Mapping[str, Any], schemas: Mapping[str, Any], table_options: Mapping[str, Any]
) -> None:
    """Make the decoder of envelopes, and that of each table that has arguments of its own."""
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
            raise ValueError(f"{name}: replicate chooses it")
