"""The newest change of each key in a batch: what is left if the changes are applied one by one as they arrived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from towpath.spark.lakehouse.changes import COLUMNS, PLACE
from towpath.spark.lakehouse.order import Kinds, is_newer, key_columns, not_before
from towpath.spark.lakehouse.rows import is_rejected
from towpath.spark.lakehouse.sql import Sql, column, comma_separated, expressions, sql, string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def newest_changes(changes: DataFrame, keys: Sequence[str], kinds: Kinds, *, partial: bool) -> DataFrame:
    """The newest change of each key, and each change that is no row of the table.

    Args:
        changes: Changes with their order values.
        keys: The columns of the key.
        kinds: What the order values may have.
        partial: Whether there may be rows that lack columns (`binlog_row_image=minimal`), which then have the values of
            earlier changes of the same row. The column `inherits` says whether a row still needs values of the target.
    """
    expr = expressions(changes.sparkSession)
    alone = sql(
        "IF(({rejected}) OR op = 'truncate', struct({place}, row, step), NULL)",
        rejected=is_rejected(keys),
        place=comma_separated(column(name) for name in PLACE),
    )
    changes = changes.withColumn("inherits", expr("op = 'update'"))
    key = {f"k{number}": expr(name) for number, name in enumerate([*key_columns(keys), alone])}
    by_key = changes.groupBy(*(value.alias(name) for name, value in key.items()))
    arrived = sql(
        "array_sort(collect_list(struct(`order`.timestamp, `order`.offset, `order`.step, struct({names}) AS change)))",
        names=comma_separated(map(column, changes.columns)),
    )
    newer = sql(
        "aggregate(slice(arrived, 2, size(arrived)), arrived[0].change, "
        "(newest, x) -> IF({newer}, {replaced}, newest))",
        newer=is_newer(Sql("x.change.`order`"), Sql("newest.`order`"), kinds),
        replaced=replaced(changes, partial=partial),
    )
    newest = sql("IF(size(arrived) = 1, arrived[0].change, {newer})", newer=newer)
    return by_key.agg(expr(arrived).alias("arrived")).select(expr(newest).alias("newest")).select("newest.*")


def replaced(changes: DataFrame, *, partial: bool) -> Sql:
    """The change `x.change` in place of `newest`."""
    values = {name: column("x", "change", name) for name in changes.columns}
    values["order"] = not_before(values["order"], Sql("newest.`order`"))
    if partial:
        values.update(_inherited(changes.select(f"{COLUMNS}.*").columns))
    fields = comma_separated(sql("{name}, {value}", name=string(name), value=value) for name, value in values.items())
    return sql("named_struct({fields})", fields=fields)


def _inherited(names: Sequence[str]) -> dict[str, Sql]:
    """The values that an update has from an earlier change. An insert or a delete begins another row."""
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
