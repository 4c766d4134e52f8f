"""The order of changes: one value for each change that is comparable across partitions and batches.

The value is a struct, stored with each row of a target and with each tombstone. Its fields:

- `event_time`, `produced_time`, `batch`: when the source executed the change, when the producer wrote the message, and
  canal's batch. `produced_time` is only set with a batch: canal counts from 1 again after a restart.
- `timestamp`, `offset`, `step`: when the record came to Kafka, its offset, and the place in the message.
- `commit_ts`: TiDB's commit time; `is_row`: a row is newer than a delete of the same commit, because TiCDC writes a
  changed key as a delete and an insert.
- `log`, `file`, `at`: the place in the binlog. `log` is the server and the name of its files.
- `topic`, `partition`: where the change is.

Where neither a commit time nor a common binlog decides, the structs are compared, and so their fields in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.spark.lakehouse.changes import COLUMNS
from towpath.spark.lakehouse.sql import Sql, column, comma_separated, expressions, sql, string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BINLOG_FILE = "^(?:(.*)[.])?([0-9]+)$"
ORDER_FIELDS = {
    "event_time": "timestamp",
    "produced_time": "timestamp",
    "batch": "bigint",
    "timestamp": "timestamp",
    "offset": "bigint",
    "step": "bigint",
    "commit_ts": "bigint",
    "is_row": "boolean",
    "log": "string",
    "file": "bigint",
    "at": "bigint",
    "topic": "string",
    "partition": "int",
}
"""The fields of an order value, with their types in Spark."""

ORDER_TYPE = f"struct<{','.join(f'{name}:{kind}' for name, kind in ORDER_FIELDS.items())}>"

_UNBOUNDED = -(2**63)
"""Spark's `Window.unboundedPreceding`."""

_NUMBER = sql("try_cast(regexp_extract(source.file, {file}, 2) AS bigint)", file=string(_BINLOG_FILE))
_IN_LOG = sql(
    "source.commit_ts IS NULL AND source.position IS NOT NULL AND {number} IS NOT NULL",
    number=_NUMBER,
)
_VALUES = {
    "commit_ts": Sql("source.commit_ts"),
    "is_row": Sql("op NOT IN ('delete', 'truncate')"),
    "log": sql(
        "IF({in_log}, concat_ws('/', source.server_id, regexp_extract(source.file, {file}, 1)), NULL)",
        in_log=_IN_LOG,
        file=string(_BINLOG_FILE),
    ),
    "file": sql("IF({in_log}, {number}, NULL)", in_log=_IN_LOG, number=_NUMBER),
    "at": sql("IF({in_log}, source.position, NULL)", in_log=_IN_LOG),
    "event_time": Sql("event_time"),
    "produced_time": Sql("IF(source.message_id > 0, produced_time, NULL)"),
    "batch": Sql("source.message_id"),
    "timestamp": Sql("timestamp"),
    "offset": Sql("offset"),
    "step": Sql("step"),
    "topic": Sql("topic"),
    "partition": Sql("partition"),
}


def with_order(changes: DataFrame) -> DataFrame:
    """Add the order value of each change."""
    from pyspark.sql import functions as f

    fields = comma_separated(sql("{name}, {value}", name=string(name), value=_VALUES[name]) for name in ORDER_FIELDS)
    return changes.withColumn("order", f.expr(sql("named_struct({fields})", fields=fields)))


@dataclass(frozen=True)
class Kinds:
    """What a batch's changes may have; what they cannot have is left out of expressions, which Spark has to compile."""

    commits: bool = True
    """Commit times."""
    logs: bool = True
    """Places in a binlog."""


def is_newer(one: Sql, other: Sql, kinds: Kinds | None = None) -> Sql:
    """True if the first of two order values is newer. Null is older than every value.

    A lower place in the same log is a change that was delivered again, unless its event time is later: then the
    server's binlogs were reset.
    """
    kinds = kinds or Kinds()
    cases = [Sql("WHEN {other} IS NULL THEN true"), *(_COMMIT if kinds.commits else ()), *(_LOG if kinds.logs else ())]
    return sql(f"(CASE {' '.join(cases)} ELSE {{one}} > {{other}} END)", one=one, other=other)


_COMMIT = (
    "WHEN {one}.commit_ts IS NOT NULL AND {other}.commit_ts IS NOT NULL THEN {one}.commit_ts > {other}.commit_ts "
    "OR {one}.commit_ts = {other}.commit_ts AND {one}.is_row AND NOT {other}.is_row",
)
_LOG = (
    "WHEN {one}.log = {other}.log AND ({one}.file > {other}.file OR {one}.file = {other}.file "
    "AND {one}.at > {other}.at) THEN true",
    "WHEN {one}.log = {other}.log AND NOT ({one}.file = {other}.file AND {one}.at = {other}.at) "
    "THEN coalesce({one}.event_time > {other}.event_time, false)",
)


def sort_key(order: Sql) -> Sql:
    """A sortable value with the order of changes, except of those in a binlog."""
    template = "struct({order}.commit_ts, {order}.commit_ts IS NOT NULL AND {order}.is_row, {order})"
    return sql(template, order=order)


def key_columns(keys: Sequence[str]) -> list[Sql]:
    """The columns of the key in a frame of changes."""
    return [column(COLUMNS, name) for name in keys]


def newest_by_key(changes: DataFrame, keys: Sequence[str], *, logs: bool) -> DataFrame:
    """The newest change of each key. Changes with a value in the column `alone` are all kept.

    Args:
        changes: Changes with their order values.
        keys: The columns of the key.
        logs: Whether there may be changes with a place in a binlog.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    key = [*map(expressions(changes.sparkSession), key_columns(keys)), f.col("alone")]
    newest = without_repeats(changes, key) if logs else changes
    window = Window.partitionBy(*key).orderBy(f.expr(sort_key(Sql("`order`"))).desc())
    return newest.withColumn("rank", f.row_number().over(window)).filter("rank = 1").drop("rank")


def without_repeats(changes: DataFrame, key: Sequence[object], *, newest: bool = True) -> DataFrame:
    """Without changes of a binlog that were delivered again.

    Args:
        changes: Changes with their order values.
        key: The columns of the key.
        newest: Whether only the newest change of each key in each binlog is kept.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    arrival = [f.expr(f"`order`.{name}") for name in ("timestamp", "offset", "step")]
    in_log = Window.partitionBy(*key, f.expr("`order`.log")).orderBy(*arrival)  # type: ignore[arg-type]
    place = f.expr("struct(`order`.file, `order`.at, `order`.event_time)")
    before = f.max(place).over(in_log.rowsBetween(_UNBOUNDED, -1))
    repeated = (
        "`order`.log IS NOT NULL AND struct(before.file, before.at) > struct(`order`.file, `order`.at) "
        "AND NOT coalesce(`order`.event_time > before.event_time, false)"
    )
    changes = changes.withColumn("before", before).filter(f"NOT coalesce({repeated}, false)").drop("before")
    if not newest:
        return changes
    last = Window.partitionBy(*key, f.expr("`order`.log")).orderBy(*(field.desc() for field in arrival))  # type: ignore[arg-type]
    ranked = changes.withColumn("rank", f.row_number().over(last))
    return ranked.filter("`order`.log IS NULL OR rank = 1").drop("rank")
