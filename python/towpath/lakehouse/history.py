"""The history of a table: each change is one row. `versions` derives the versions of each row from it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.log.ordered_statements import Place
from towpath.lakehouse.merging.delta_rs import SMALL_TABLE, are_same, quoted
from towpath.lakehouse.merging.rows import REJECTED, ROW, Applied, is_rejected
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.order.order import is_newer, not_before, with_order
from towpath.lakehouse.reading.changes import COLUMNS
from towpath.lakehouse.tables.own_table import OwnTable
from towpath.lakehouse.tables.sql import TRUE, Sql, column, comma_separated, expressions, sql, string
from towpath.lakehouse.tables.tables import (
    TableSettings,
    append,
    append_new,
    create_or_evolve,
    create_with,
    free_name,
    optimize_in_turn,
    order_column,
    rename_column,
    schema_of,
)
from towpath.places import PLACE
from towpath.spark.requirements import has_arrow
from towpath.spark.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PLACE = (*PLACE, "step")
_OWN = {"_op": "op", "_event_time": "event_time", "_missing_columns": "IF(partial, missing, NULL)"}
"""A history's own columns, except the order value, with their expressions over changes."""


def append_changes(
    changes: DataFrame,
    keys: Sequence[str],
    target: str,
    settings: TableSettings,
    batch_id: int,
    in_tasks: TaskMerges | None,
) -> Applied:
    """Append changes to a history. Create it if needed.

    Skip changes that the history already contains, so a replay adds nothing. Skip rejected changes too, since they
    become dead letters. `in_tasks` says which tables delta-rs may write, if the changes are few.
    """
    from pyspark.sql import functions as f

    began = time.monotonic()
    ordered = with_order(changes).withColumn("rejected", f.expr(is_rejected(keys)))
    if in_tasks is not None and (few := _append_few(ordered, target, settings, in_tasks)) is not None:
        return Applied(few, seconds=time.monotonic() - began)
    counted = ordered.groupBy("rejected").agg(
        f.count("*").alias("count"), f.min("offset").alias("first"), f.max("offset").alias("last")
    )
    found = {row["rejected"]: row for row in counted.collect()}
    counts = {outcome: found[key]["count"] for outcome, key in ((ROW, False), (REJECTED, True)) if key in found}
    if False in found:
        _append(ordered.filter("NOT rejected"), target, settings, found[False]["first"], found[False]["last"])
        optimize_in_turn(changes.sparkSession, target, batch_id, settings.optimize_every)
    return Applied(counts, seconds=time.monotonic() - began)


def append_truncate(spark: SparkSession, target: str, place: Place) -> int:
    """Append the truncate that a DDL statement implies to an existing history. Return 0: no row is deleted."""
    names = _Names.of(schema_of(spark, target))
    if names is None:
        return 0
    order = place.literal()
    row = {"_op": Sql("'truncate'"), "_event_time": sql("{order}.event_time", order=order)}
    values = [sql("{value} AS {name}", value=value, name=column(names.own[name])) for name, value in row.items()]
    append(spark, target, spark.range(1).selectExpr(*values, sql("{o} AS {n}", o=order, n=column(names.order))))
    return 0


def versions(
    history: DataFrame,
    keys: Sequence[str],
    *,
    valid_from: str = "valid_from",
    valid_to: str = "valid_to",
) -> DataFrame:
    """Return the versions of each row: a slowly changing dimension of type 2.

    These are the versions that a reader of the target of `replicate` would see after each change. A late change that is
    older than the newest change of its row is not a version.

    Args:
        history: A table that `replicate(..., history=...)` maintains, as a batch DataFrame.
        keys: Columns of the primary key.
        valid_from: Name of the column with the start of a version's validity, inclusive: the event time of its change,
            a timestamp in UTC.
        valid_to: Name of the column with the end of its validity, exclusive. Null marks the current version.

    Returns:
        The table's columns, `valid_from` and `valid_to`. Each version is a row.

    Raises:
        ValueError: `history` is not a history, lacks a column of the key, or already has a column `valid_from` or
            `valid_to`.

    Example:
        >>> history = spark.read.format("delta").load("/lake/history/shop/orders")  # doctest: +SKIP
        >>> towpath.spark.versions(history, ["id"]).createOrReplaceTempView("orders_scd2")  # doctest: +SKIP
    """
    from pyspark.sql import functions as f

    names = _Names.of(history.schema)
    if names is None:
        raise ValueError("history: expected a table that replicate(..., history=...) maintains")
    of_table = [name for name in history.columns if name not in (*names.own.values(), names.order)]
    _check_columns(of_table, keys, (valid_from, valid_to))
    expr = expressions(history.sparkSession)
    changes = _changes(history, names, of_table)
    arrived = expr(f"struct(`order`.timestamp, `order`.offset, `order`.step, struct({', '.join(_CHANGE)}) AS change)")
    by_key = changes.filter("op <> 'truncate'").groupBy(*(column(COLUMNS, key) for key in keys))
    truncates = changes.filter("op = 'truncate'").agg(f.collect_list(arrived).alias("truncates"))
    joined = by_key.agg(f.collect_list(arrived).alias("arrived")).crossJoin(f.broadcast(truncates))
    found = joined.select(expr(f"array_sort(concat(arrived, {_OF_TABLE}))").alias("arrived"))
    found = found.select(expr(_folded(changes)).alias("versions")).select(f.inline(expr(_WITH_VALIDITY)))
    return found.filter("op NOT IN ('delete', 'truncate')").select(
        f"{COLUMNS}.*", f.col("since").alias(valid_from), f.col("until").alias(valid_to)
    )


_OF_TABLE = "filter(truncates, x -> exists(arrived, y -> y.change.`order`.`table` <=> x.change.`order`.`table`))"
"""Truncates of a row's own table, if several tables share the target."""

_CHANGE = ("op", COLUMNS, "missing", "partial", "inherits", "`order`")
_WITH_VALIDITY = (
    f"transform(versions, (x, i) -> struct(x.op, x.{COLUMNS}, x.`order`.event_time AS since, "
    "get(versions, i + 1).`order`.event_time AS until))"
)


def _changes(history: DataFrame, names: _Names, of_table: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as f

    own = {name: f.col(column(used)) for name, used in names.own.items()}
    return history.select(
        own["_op"].alias("op"),
        f.struct(*(f.col(column(name)).alias(name) for name in of_table)).alias(COLUMNS),
        own["_missing_columns"].alias("missing"),
        own["_missing_columns"].isNotNull().alias("partial"),
        f.lit(True).alias("inherits"),
        f.col(column(names.order)).alias("order"),
    )


def _folded(changes: DataFrame) -> Sql:
    """Fold the arrived changes of a row to those that were applied, in order. The last one so far is `newest`."""
    return sql(
        "aggregate(slice(arrived, 2, size(arrived)), array(arrived[0].change), (versions, x) -> "
        "transform(array(element_at(versions, -1)), newest -> "
        "IF({newer} AND NOT ({unknown}), concat(versions, array({replaced})), versions))[0])",
        newer=is_newer(Sql("x.change.`order`"), Sql("newest.`order`")),
        # An insert is missing after the delete: the target has no such row either.
        unknown=Sql("x.change.op = 'update' AND x.change.partial AND newest.op IN ('delete', 'truncate')"),
        replaced=_replaced(changes),
    )


def _check_columns(of_table: Sequence[str], keys: Sequence[str], added: Sequence[str]) -> None:
    known = {name.lower() for name in of_table}
    missing = [name for name in keys if name.lower() not in known]
    if missing or not keys:
        raise ValueError(f"keys: unknown columns {missing or '[]'}; expected columns of {of_table}")
    taken = [name for name in added if name.lower() in known]
    if taken:
        raise ValueError(f"the table already has a column {taken[0]}; choose another name with {taken[0]}=")


@dataclass(frozen=True)
class _Names:
    """Names of a history's own columns. No column of its table has one of them."""

    order: str
    own: Mapping[str, str]

    @classmethod
    def of(cls, schema: StructType | None) -> _Names | None:
        """Return the names in an existing history."""
        order = order_column(schema) if schema is not None else None
        if schema is None or order is None:
            return None
        prefixed = {name: f"{order}{name}" for name in _OWN}
        own = {name: other if other in schema.names else name for name, other in prefixed.items()}
        return cls(order, own) if all(name in schema.names for name in own.values()) else None

    @classmethod
    def beside(cls, columns: StructType) -> _Names:
        """Return the names for a new history of a table with these columns."""
        order, taken = free_name(columns.names), {name.lower() for name in columns.names}
        return cls(order, {name: f"{order}{name}" if name in taken else name for name in _OWN})


def _append_few(ordered: DataFrame, target: str, settings: TableSettings, in_tasks: TaskMerges) -> Counter[str] | None:
    """Append a few changes to a small history with delta-rs. Return None if Spark has to append them."""
    from pyspark.sql import functions as f

    spark, own = ordered.sparkSession, OwnTable(target, in_tasks, settings, SMALL_TABLE)
    if not has_arrow(type(ordered)) or not own.may_merge(spark):
        return None
    values, order = _row(ordered, target, schema_of(spark, target, in_tasks))
    frame = ordered.select(f.struct(*values).alias("row"), "rejected")
    found = frame.toArrow().cast(arrow_schema(frame.schema)).combine_chunks()
    rejected = found.column("rejected").combine_chunks()
    rows = pa.Table.from_struct_array(found.column("row")).filter(pc.invert(rejected))
    same = are_same(f"{quoted(order)}['{one}']" for one in _PLACE)
    if rows.num_rows and not own.merge(spark, rows, frame.select("row.*").schema, same, {}):
        return None
    return Counter({ROW: rows.num_rows, REJECTED: len(rejected) - rows.num_rows})


def _append(changes: DataFrame, target: str, settings: TableSettings, first: int | None, last: int | None) -> None:
    spark = changes.sparkSession
    existing = schema_of(spark, target)
    values, order = _row(changes, target, existing)
    rows = changes.select(*values)
    if existing is None and create_with(spark, target, rows, settings):
        return
    create_or_evolve(spark, target, rows.schema, settings=settings)
    same = Sql(" AND ".join(sql("t.{name} <=> s.{name}", name=column(order, name)) for name in _PLACE))
    # Statistics then show which files to read.
    in_batch = TRUE if first is None else Sql(f"{column(order, 'offset')} BETWEEN {first} AND {last}")
    append_new(rows, target, same, in_batch)


def _row(changes: DataFrame, target: str, existing: StructType | None) -> tuple[list[Column], str]:
    """Return the values of a history's row for a change, and the name of the column with its order value."""
    from pyspark.sql import functions as f

    spark, columns = changes.sparkSession, changes.select(f"{COLUMNS}.*").schema
    known = _Names.of(existing)
    names = _kept_free(spark, target, known, columns) if known else _Names.beside(columns)
    return [*(f.col(column(COLUMNS, name)) for name in columns.names), *_values(spark, names)], names.order


def _values(spark: SparkSession, names: _Names) -> list[Column]:
    expr = expressions(spark)
    return [*(expr(value).alias(names.own[name]) for name, value in _OWN.items()), expr("`order`").alias(names.order)]


def _kept_free(spark: SparkSession, target: str, names: _Names, columns: StructType) -> _Names:
    """Rename the history's own columns whose names the table's columns now have."""
    taken = {name.lower() for name in columns.names}
    order = free_name(columns.names, names.order)
    own = {name: f"{order}{name}" if used in taken or used != name else used for name, used in names.own.items()}
    for used, new in ((names.order, order), *((names.own[name], own[name]) for name in _OWN)):
        if used != new:
            rename_column(spark, target, used, new)
    return _Names(order, own)


def _replaced(changes: DataFrame) -> Sql:
    """Return the change `x.change` after it replaced `newest`."""
    values = {name: column("x", "change", name) for name in changes.columns}
    values["order"] = not_before(values["order"], Sql("newest.`order`"))
    values.update(_inherited(changes.select(f"{COLUMNS}.*").columns))
    fields = comma_separated(sql("{name}, {value}", name=string(name), value=value) for name, value in values.items())
    return sql("named_struct({fields})", fields=fields)


def _inherited(names: Sequence[str]) -> dict[str, Sql]:
    """Return fields that an update inherits from an earlier change. An insert or a delete begins a new row."""
    fields = comma_separated(sql("{name}, {value}", name=string(name), value=_value(name)) for name in names)
    inherited = {
        COLUMNS: sql("named_struct({fields})", fields=fields),
        "missing": Sql("array_intersect(x.change.missing, newest.missing)"),
        "partial": Sql("x.change.partial AND newest.partial"),
        "inherits": Sql("newest.inherits"),
    }
    template = "IF(x.change.op = 'update', {inherited}, {own})"
    return {name: sql(template, inherited=value, own=column("x", "change", name)) for name, value in inherited.items()}


def _value(name: str) -> Sql:
    template = "IF(coalesce(array_contains(x.change.missing, {name}), false), {earlier}, {own})"
    earlier, own = (column(*path, COLUMNS, name) for path in (("newest",), ("x", "change")))
    return sql(template, name=string(name), earlier=earlier, own=own)
