"""Checks arguments at the call: a wrong one would otherwise fail in a batch, or put a table aside."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
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
    """An argument that is one of some texts.

    Raises:
        ValueError: It is another one. The text has the argument's name and what is allowed.
    """
    if value in allowed:
        return str(value)
    expected = " or ".join(f'"{one}"' for one in allowed)
    raise ValueError(f"{name}: {did_you_mean(str(value), allowed)}expected {expected}, not {value!r}")


def target(value: Any) -> str:
    """The target of one table.

    Raises:
        ValueError: It is neither a path nor the name of a table.
    """
    found = table("target", value)
    if not found:
        raise ValueError(f"target: expected a path or the name of a table, not {value!r}")
    return found


def place(name: str, value: Any) -> str | None:
    """A path or a name of a table as text; a `pathlib.Path` is accepted.

    Raises:
        ValueError: It is neither.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise ValueError(f"{name}: expected a path or the name of a table, not {value!r}")


def table(name: str, value: Any) -> str | None:
    """As `place`. A relative path is in the working directory: Delta's SQL takes it for the name of a table.

    Raises:
        ValueError: It is neither.
    """
    found = place(name, value)
    return absolute(found) if found else found


def by_name(name: str, value: Any, example: str) -> dict[str, Any]:
    """A mapping whose keys are names, such as those of tables.

    Args:
        name: The argument.
        value: What was given; None is an empty mapping.
        example: What it may look like, for the error.

    Raises:
        ValueError: It is not a mapping with texts as keys.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name}: expected a mapping such as {example}, not {value!r}")
    return dict(value)


def columns(name: str, value: Any) -> list[str]:
    """A sequence of columns' names; None is an empty one.

    Raises:
        ValueError: It is not a sequence of texts; a single text would be taken for its letters.
    """
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if value is not None and not (is_list and all(isinstance(one, str) for one in value)):
        raise ValueError(f'{name}: expected a list of columns such as ["id"], not {value!r}')
    return list(value or ())


def columns_by_table(name: str, value: Any) -> dict[str, list[str]]:
    """A mapping from "database.table" to the names of columns.

    Raises:
        ValueError: It is not such a mapping.
    """
    found = by_name(name, value, '{"shop.orders": ["id"]}')
    return {table: columns(f"{name}: {table}", one) for table, one in found.items()}


def rules_by_table(value: Any) -> dict[str, Mapping[str, Any]]:
    """The argument `columns`: the rules of each table.

    Raises:
        ValueError: It is not a mapping whose values are mappings.
    """
    example = '{"exclude": ["phone"]}'
    found = by_name("columns", value, f'{{"shop.orders": {example}}}')
    return {table: by_name(f"columns: {table}", one, example) for table, one in found.items()}


def texts(name: str, value: Any) -> dict[str, str]:
    """Properties of tables, or options of a writer.

    Raises:
        ValueError: It is not a mapping from texts to texts.
    """
    found = by_name(name, value, '{"name": "value"}')
    for key, one in found.items():
        if not isinstance(one, str):
            raise ValueError(f"{name}: {key}: expected a text, not {one!r}")
    return found


def flag(name: str, value: Any) -> bool:
    """A boolean.

    Raises:
        ValueError: It is not a boolean; every text would be true.
    """
    if isinstance(value, bool):
        return value
    raise ValueError(f"{name}: expected True or False, not {value!r}")


def text(name: str, value: Any) -> str:
    """A text that is not empty.

    Raises:
        ValueError: It is not a text, or is empty.
    """
    if isinstance(value, str) and value:
        return value
    raise ValueError(f"{name}: expected a text, not {value!r}")


def count(name: str, value: Any, *, optional: bool = False) -> Any:
    """A number from 1 on, or None if it is optional.

    Raises:
        ValueError: It is another value.
    """
    if optional and value is None:
        return None
    if type(value) is not int or value < 1:
        raise ValueError(f"{name}: expected a number from 1 on{' or None' if optional else ''}, not {value!r}")
    return value


def column(name: str, value: Any) -> str | None:
    """The name of a column, or None.

    Raises:
        ValueError: It is neither.
    """
    return None if value is None else text(name, value)


def frame(name: str, value: Any) -> DataFrame:
    """A DataFrame.

    Raises:
        ValueError: It is not a DataFrame.
    """
    if is_data_frame(value):
        return value
    raise not_a_data_frame(name, value)


def check_age(spark: SparkSession, name: str, value: str) -> None:
    """Let Spark read an interval.

    Raises:
        ValueError: Spark does not read it.
    """
    from pyspark.errors import PySparkException

    try:
        execute(spark, sql("SELECT current_timestamp() - INTERVAL {age}", age=string(value)))
    except PySparkException:
        raise ValueError(f'{name}: expected an interval of SQL such as "7 days", not {value!r}') from None


def check_snapshot(name: str, value: Any) -> DataFrame:
    """The rows of a source's table.

    Raises:
        ValueError: It is not a DataFrame, or is a stream, or Spark's JDBC source reads it wrong.
    """
    found = frame(name, value)
    if found.isStreaming:
        raise ValueError(f"{name}: expected a batch with the rows of the table, not a stream")
    check_jdbc_rows(name, found)
    return found


def check_changes(changes: DataFrame, keys: Sequence[str], soft_deletes: str | None) -> None:
    """Look at the columns of a frame that `apply_changes` gets.

    Raises:
        ValueError: It is not in layout "upsert", nothing orders a stream's changes across its batches, or a column of
            the key is missing.
    """
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


def triggers(value: Any) -> dict[str, Any]:
    """The arguments of `DataStreamWriter.trigger`.

    Raises:
        ValueError: It is not a mapping, or has an unknown name.
    """
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
    """The arguments for the query of a stream; None for a batch.

    Raises:
        ValueError: One of them is wrong, a stream has no checkpoint, or a batch has one of them.
    """
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

    Raises:
        ValueError: An argument is unknown, and resembles one of the function's.
    """
    known = {*PARAMETERS, *DialectOptions.__annotations__}
    for name in options.keys() - known:
        if (probable := nearest(name, [*own, *known])) in own:
            raise ValueError(f"unknown argument {name}; did you mean {probable}?")


def check_decoders(
    dialect: Dialect,
    options: Mapping[str, Any],
    schemas: Mapping[str, Any],
    table_options: Mapping[str, Any],
) -> None:
    """Make the decoder of envelopes, and that of each table that has arguments of its own.

    Raises:
        ValueError: The decoder refuses a schema or an option, or replicate chooses the option.
    """
    check_free(options)
    Decoder(dialect, key="key", **options)
    for table in {**schemas, **table_options}:
        more = by_name(f"table_options: {table}", table_options.get(table), '{"zero_date": "error"}')
        check_free(more)
        try:
            Decoder(dialect, schemas.get(table), layout="upsert", **{**options, **more})
        except ValueError as error:
            raise ValueError(f"{table}: {error}") from None


def check_free(options: Mapping[str, Any]) -> None:
    """Refuse arguments of a decoder that are not the user's.

    Raises:
        ValueError: One is among the options.
    """
    for name in ("layout", "fields", "mode", "schema", "value", "key", "keep", "row_column"):
        if name in options:
            raise ValueError(f"{name}: replicate chooses it")


_TRIGGERS = ("availableNow", "processingTime", "once", "continuous", "realTime")


def names(name: str, value: bool | Collection[str]) -> bool | Collection[str]:
    """Whether all, or the names of some.

    Raises:
        ValueError: It is neither; a single text would be taken for its letters.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str) or not isinstance(value, Collection):
        raise ValueError(f"{name}: expected a boolean or a collection of names, not {value!r}")
    return frozenset(value)
