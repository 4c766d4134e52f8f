"""The order of changes: one value for each change that is comparable across partitions and batches.

The value is a struct, stored with each row of a target and with each tombstone. Its fields:

- `event_time`, `produced_time`, `batch`: when the source executed the change, when the producer wrote the message, and
  canal's batch. `produced_time` is only set with a batch: canal counts from 1 again after a restart.
- `timestamp`, `offset`, `step`: when the record came to Kafka, its offset, and the place in the message.
- `commit_ts`: TiDB's commit time; `is_row`: a row is newer than a delete of the same commit, because TiCDC writes a
  changed key as a delete and an insert.
- `log`, `file`, `at`: the place in the binlog. `log` is the server and the name of its files.
- `topic`, `partition`: where the change is.
- `table`: the table of the change, if several may share a target; null elsewhere. It decides nothing.

The first of these rules that knows both changes decides: commit times; places in the same binlog; offsets in the same
partition; otherwise the structs are compared, and so their fields in this order. An offset is better than an event
time: MySQL's event time is that of the statement's start, so a statement that waited for a lock is later in the binlog
with an earlier time. Therefore the value of a change also gets the event time of the change that it replaces, if that
is later: a change of another partition is compared with the latest time of the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.lakehouse.order.order_arrays import ORDER
from towpath.lakehouse.reading.changes import COLUMNS
from towpath.lakehouse.tables.sql import Sql, column, comma_separated, sql, string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BINLOG_FILE = "^(?:(.*)[.])?([0-9]+)$"
_TYPES = {
    "timestamp[us, tz=UTC]": "timestamp",
    "int64": "bigint",
    "int32": "int",
    "bool": "boolean",
    "string": "string",
}
ORDER_FIELDS = {one.name: _TYPES[str(one.type)] for one in ORDER}
"""The fields of an order value, with their types in Spark."""

ORDER_TYPE = f"struct<{','.join(f'{name}:{kind}' for name, kind in ORDER_FIELDS.items())}>"

_NUMBER = sql("try_cast(regexp_extract(source.file, {file}, 2) AS bigint)", file=string(_BINLOG_FILE))
_IN_LOG = sql("source.commit_ts IS NULL AND source.position IS NOT NULL AND {number} IS NOT NULL", number=_NUMBER)
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
    "produced_time": Sql("IF(source.message_id > 0, produced_time, NULL)"),
    "batch": Sql("source.message_id"),
    "table": Sql("label"),
}
"""Of the fields that are not columns of the same name."""


def with_order(changes: DataFrame) -> DataFrame:
    """Add the order value of each change."""
    from pyspark.sql import functions as f

    values = {name: _VALUES.get(name, column(name)) for name in ORDER_FIELDS}
    return changes.withColumn("order", f.expr(order_value(values)))


def order_value(values: Mapping[str, Sql]) -> Sql:
    """An order value of its fields."""
    fields = comma_separated(sql("{name}, {value}", name=string(name), value=values[name]) for name in ORDER_FIELDS)
    return sql("named_struct({fields})", fields=fields)


@dataclass(frozen=True)
class Kinds:
    """What a batch's changes may have; what they cannot have is left out of expressions, which Spark has to compile."""

    commits: bool = True
    """Commit times."""
    logs: bool = True
    """Places in a binlog."""


def is_newer(one: Sql, other: Sql, kinds: Kinds | None = None) -> Sql:
    """True if the first of two order values is newer. Null is older than every value."""
    kinds = kinds or Kinds()
    cases = [
        Sql("WHEN {other} IS NULL THEN true"),
        *(_COMMIT if kinds.commits else ()),
        *(_LOG if kinds.logs else ()),
        _PARTITION,
    ]
    template = f"(CASE {' '.join(cases)} ELSE {{one}} > {{other}} END)"
    recreated, was_recreated = _is_recreated(one, other), _is_recreated(other, one)
    after = sql(_AFTER, one=one, other=other)
    return sql(template, one=one, other=other, after=after, recreated=recreated, was_recreated=was_recreated)


_COMMIT = (
    "WHEN {one}.commit_ts IS NOT NULL AND {other}.commit_ts IS NOT NULL THEN {one}.commit_ts > {other}.commit_ts "
    "OR {one}.commit_ts = {other}.commit_ts AND {one}.is_row AND NOT {other}.is_row",
)
# A lower place with a later event time is a change after the server's binlogs were reset. A higher place with an
# earlier event time is one that waited for a lock. Kafka's timestamps say which of them it is.
_LOG = (
    "WHEN {one}.log = {other}.log AND NOT ({one}.file = {other}.file AND {one}.at = {other}.at) THEN "
    "CASE WHEN {after} AND coalesce({one}.event_time < {other}.event_time, false) "
    "THEN coalesce({one}.timestamp >= {other}.timestamp, false) "
    "WHEN NOT {after} AND coalesce({one}.event_time > {other}.event_time, false) "
    "THEN coalesce({one}.timestamp > {other}.timestamp, true) ELSE {after} END",
    # A failover: the offsets of two logs say nothing.
    "WHEN {one}.log <> {other}.log THEN {one} > {other}",
)
_AFTER = "(struct({one}.file, {one}.at) > struct({other}.file, {other}.at))"
_PARTITION = (
    "WHEN {one}.topic = {other}.topic AND {one}.partition = {other}.partition THEN {recreated} OR NOT {was_recreated} "
    "AND ({one}.offset > {other}.offset OR {one}.offset = {other}.offset AND {one}.step > {other}.step)"
)


def _is_recreated(one: Sql, other: Sql) -> Sql:
    """True if the topic was recreated between two changes of a partition: the later one has no higher offset.

    Timestamps of concurrent producers differ by some milliseconds, therefore it must be later by a second.
    """
    return sql(
        "({one}.offset <= {other}.offset AND CASE WHEN {one}.timestamp IS NULL OR {other}.timestamp IS NULL "
        "THEN coalesce({one}.event_time > {other}.event_time, false) "
        "ELSE {one}.timestamp > {other}.timestamp + INTERVAL 1 SECOND "
        "AND coalesce({one}.event_time >= {other}.event_time, true) END)",
        one=one,
        other=other,
    )


def is_ordered(statement: Sql, change: Sql) -> Sql:
    """True if it is known which of a statement and a change came first in the source.

    In different partitions, without commit times and places in a binlog, it is known by canal's batches if times do not
    contradict them, otherwise by times. Times are those of the start, so within a batch they say nothing: either may
    have waited for the lock of the other. If the later batch has the earlier time, it may have waited, or have been
    sent again.
    """
    return sql(f"(CASE {' '.join(_ORDERED)} END)", one=statement, other=change)


def is_before(change: Sql, statement: Sql) -> Sql:
    """True if a change is known to be older than a statement."""
    return sql("({ordered} AND {newer})", ordered=is_ordered(statement, change), newer=is_newer(statement, change))


def is_after(change: Sql, statement: Sql) -> Sql:
    """True if a change is known to be newer than a statement."""
    return sql("({ordered} AND NOT {newer})", ordered=is_ordered(statement, change), newer=is_newer(statement, change))


def is_certain(one: Sql, other: Sql) -> Sql:
    """True if the order of two order values does not depend on times: they are in one log, one partition, or TiDB."""
    return sql(f"coalesce({_CERTAIN}, false)", one=one, other=other)


_ONE_PARTITION = "{one}.topic = {other}.topic AND {one}.partition = {other}.partition"
_CERTAIN = (
    "{one}.commit_ts IS NOT NULL AND {other}.commit_ts IS NOT NULL OR {one}.log = {other}.log "
    f"OR NOT coalesce({{one}}.log <> {{other}}.log, false) AND {_ONE_PARTITION}"
)
_BATCHES = (
    "CASE WHEN {one}.produced_time <=> {other}.produced_time THEN sign({one}.batch - {other}.batch) "
    "ELSE sign(unix_micros({one}.produced_time) - unix_micros({other}.produced_time)) END"
)
"""1 if the first is of a later batch of canal, 0 if both are of one batch, null if that is not known."""

_TIMES = "sign(unix_micros({one}.event_time) - unix_micros({other}.event_time))"
_ORDERED = (
    f"WHEN coalesce({_CERTAIN}, false) THEN true",
    "WHEN {one}.event_time IS NULL OR {other}.event_time IS NULL THEN false",
    f"ELSE coalesce({_BATCHES} <> 0 AND {_TIMES} IN (0, {_BATCHES}), {_TIMES} <> 0)",
)


def not_before(order: Sql, *others: Sql) -> Sql:
    """An order value with the latest event time of it and others, which may be null."""
    times = comma_separated(sql("{value}.event_time", value=value) for value in (order, *others))
    values = {name: sql(f"{{order}}.{name}", order=order) for name in ORDER_FIELDS}
    return order_value({**values, "event_time": sql("greatest({times})", times=times)})


def newest_order(kinds: Kinds) -> Sql:
    """Aggregates the order values of a row's deletes to the newest."""
    newer = is_newer(Sql("x"), Sql("newest"), kinds)
    return sql(
        "aggregate(array_sort(collect_list(`order`)), {null}, (newest, x) -> IF({newer}, x, newest))",
        null=sql("CAST(NULL AS {type})", type=Sql(ORDER_TYPE)),
        newer=newer,
    )


def key_columns(keys: Sequence[str]) -> list[Sql]:
    """The columns of the key in a frame of changes."""
    return [column(COLUMNS, name) for name in keys]
