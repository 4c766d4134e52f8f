"""The order of changes: each change has a value that is comparable across partitions and batches.

The value is a struct. A target stores it with each row and with each tombstone. Its fields:

- `event_time`, `produced_time`, `batch`: when the source executed the change, when the producer wrote the message, and
  canal's batch. `produced_time` is only set with a batch: canal counts from 1 again after a restart.
- `timestamp`, `offset`, `step`: when the record reached Kafka, its offset, and the place in the message.
- `commit_ts`: TiDB's commit time; `is_row`: a row is newer than a delete of the same commit, because TiCDC writes a
  changed key as a delete and an insert.
- `log`, `file`, `at`: the place in the binlog. `log` is the server and the name of its files.
- `topic`, `partition`: the change's partition.
- `table`: the table of the change, if several tables may share a target; otherwise null. It decides nothing.

The first of these rules that knows both changes decides: commit times; places in the same binlog; offsets in the same
partition; otherwise the whole structs, field by field in this order. An offset is better than an event time: MySQL's
event time is the start of the statement, so a statement that waited for a lock is later in the binlog with an earlier
time. Therefore a change also gets the event time of the change that it replaces, if it is later. A change of another
partition is then compared with the latest time of the row.
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
"""Fields of an order value with their Spark types."""

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
"""Expressions of the fields that are not columns of the same name."""


def with_order(changes: DataFrame) -> DataFrame:
    """Add the order value of each change."""
    from pyspark.sql import functions as f

    values = {name: _VALUES.get(name, column(name)) for name in ORDER_FIELDS}
    return changes.withColumn("order", f.expr(order_value(values)))


def order_value(values: Mapping[str, Sql]) -> Sql:
    """Return an order value with these fields."""
    fields = comma_separated(sql("{name}, {value}", name=string(name), value=values[name]) for name in ORDER_FIELDS)
    return sql("named_struct({fields})", fields=fields)


@dataclass(frozen=True)
class Kinds:
    """Facts about the changes of a batch. Expressions leave out impossible cases, since Spark has to compile them."""

    commits: bool = True
    """Whether changes may have commit times."""
    logs: bool = True
    """Whether changes may have places in a binlog."""


def is_newer(one: Sql, other: Sql, kinds: Kinds | None = None) -> Sql:
    """Return a condition that the first of two order values is newer. Null is older than every value."""
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
# A lower place with a later event time means that the server's binlogs were reset. A higher place with an earlier event
# time means that the change waited for a lock. Kafka's timestamps tell which case it is.
_LOG = (
    "WHEN {one}.log = {other}.log AND NOT ({one}.file = {other}.file AND {one}.at = {other}.at) THEN "
    "CASE WHEN {after} AND coalesce({one}.event_time < {other}.event_time, false) "
    "THEN coalesce({one}.timestamp >= {other}.timestamp, false) "
    "WHEN NOT {after} AND coalesce({one}.event_time > {other}.event_time, false) "
    "THEN coalesce({one}.timestamp > {other}.timestamp, true) ELSE {after} END",
    # After a failover the offsets of two logs are not comparable.
    "WHEN {one}.log <> {other}.log THEN {one} > {other}",
)
_AFTER = "(struct({one}.file, {one}.at) > struct({other}.file, {other}.at))"
_PARTITION = (
    "WHEN {one}.topic = {other}.topic AND {one}.partition = {other}.partition THEN {recreated} OR NOT {was_recreated} "
    "AND ({one}.offset > {other}.offset OR {one}.offset = {other}.offset AND {one}.step > {other}.step)"
)


def _is_recreated(one: Sql, other: Sql) -> Sql:
    """Return a condition that the topic was recreated between two changes: the later one has no higher offset.

    Timestamps of concurrent producers differ by some milliseconds. The later change must therefore be a second later.
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
    """Return a condition that the order of a statement and a change in the source is known.

    Across partitions, without commit times and places in a binlog, canal's batches decide unless times contradict them.
    Otherwise times decide. Times are start times, so they do not order changes within a batch: either may have waited
    for the other's lock. If the later batch has the earlier time, it may have waited, or canal may have sent it again.
    """
    return sql(f"(CASE {' '.join(_ORDERED)} END)", one=statement, other=change)


def is_before(change: Sql, statement: Sql) -> Sql:
    """Return a condition that a change is known to be older than a statement."""
    return sql("({ordered} AND {newer})", ordered=is_ordered(statement, change), newer=is_newer(statement, change))


def is_after(change: Sql, statement: Sql) -> Sql:
    """Return a condition that a change is known to be newer than a statement."""
    return sql("({ordered} AND NOT {newer})", ordered=is_ordered(statement, change), newer=is_newer(statement, change))


def is_certain(one: Sql, other: Sql) -> Sql:
    """Return a condition that an order does not depend on times: both are in one log, in one partition, or in TiDB."""
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
"""1 if the first change is in a later canal batch, 0 if both are in one batch, null if unknown."""

_TIMES = "sign(unix_micros({one}.event_time) - unix_micros({other}.event_time))"
_ORDERED = (
    f"WHEN coalesce({_CERTAIN}, false) THEN true",
    "WHEN {one}.event_time IS NULL OR {other}.event_time IS NULL THEN false",
    f"ELSE coalesce({_BATCHES} <> 0 AND {_TIMES} IN (0, {_BATCHES}), {_TIMES} <> 0)",
)


def not_before(order: Sql, *others: Sql) -> Sql:
    """Return an order value with the latest event time among it and others, which may be null."""
    times = comma_separated(sql("{value}.event_time", value=value) for value in (order, *others))
    values = {name: sql(f"{{order}}.{name}", order=order) for name in ORDER_FIELDS}
    return order_value({**values, "event_time": sql("greatest({times})", times=times)})


def newest_order(kinds: Kinds) -> Sql:
    """Return the aggregate of the newest order value of a key's deletes."""
    newer = is_newer(Sql("x"), Sql("newest"), kinds)
    return sql(
        "aggregate(array_sort(collect_list(`order`)), {null}, (newest, x) -> IF({newer}, x, newest))",
        null=sql("CAST(NULL AS {type})", type=Sql(ORDER_TYPE)),
        newer=newer,
    )


def key_columns(keys: Sequence[str]) -> list[Sql]:
    """Return the columns of the key in a frame of changes."""
    return [column(COLUMNS, name) for name in keys]
