"""What becomes of each change of a micro-batch: it is written, is older than what is known, or cannot be applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from towpath.spark.lakehouse.changes import COLUMNS, PLACE
from towpath.spark.lakehouse.order import Kinds, is_newer, key_columns, newest_by_key, sort_key, without_repeats
from towpath.spark.lakehouse.sql import Sql, any_of, column, comma_separated, expressions, sql, string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ORDER = Sql("`order`")
_UNBOUNDED = -(2**63)

ROW, DELETE, OLD, REJECTED, UNKNOWN, TRUNCATE = "row", "delete", "old", "rejected", "unknown", "truncate"
"""The outcomes of a change: `UNKNOWN` is a partial update of a row that the target lacks."""


def tombstone_key(number: int) -> str:
    """The column of a table of tombstones with a column of the key, which has any name."""
    return f"k{number}"


def is_rejected(keys: Sequence[str]) -> Sql:
    """True for changes without all values of the row. A delete needs its key only."""
    in_key = any_of(sql("lower(error.column) = lower({name})", name=string(name)) for name in keys)
    no_key = any_of(sql("{key} IS NULL", key=key) for key in key_columns(keys))
    return sql(
        "CASE WHEN op = 'delete' THEN error IS NOT NULL AND (error.column IS NULL OR {in_key} OR {no_key}) "
        "ELSE error IS NOT NULL OR key_only END",
        in_key=in_key,
        no_key=no_key,
    )


def newest_changes(changes: DataFrame, keys: Sequence[str], *, logs: bool, partial: bool) -> DataFrame:
    """The newest change of each key, and each change that is no row of the table.

    Args:
        changes: Changes with their order values.
        keys: The columns of the key.
        logs: Whether there may be changes with a place in a binlog.
        partial: Whether there may be rows that lack columns, which then have the values of earlier changes.
    """
    expr = expressions(changes.sparkSession)
    alone = sql(
        "IF(({rejected}) OR op = 'truncate', struct({place}, row, step), NULL)",
        rejected=is_rejected(keys),
        place=comma_separated(column(name) for name in PLACE),
    )
    changes = changes.withColumn("alone", expr(alone))
    if partial:
        changes = with_earlier_values(changes, keys, logs=logs)
    else:
        changes = changes.withColumn("inherits", expr("op = 'update'"))
    return newest_by_key(changes, keys, logs=logs and not partial)


def with_earlier_values(changes: DataFrame, keys: Sequence[str], *, logs: bool) -> DataFrame:
    """Fill the columns that rows lack (`binlog_row_image=minimal`) from earlier changes of the same row.

    A delete or an insert begins another row, which inherits nothing. `inherits` says whether a row still needs values
    of the target.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    expr = expressions(changes.sparkSession)
    key = [*map(expr, key_columns(keys)), f.col("alone")]
    if logs:
        changes = changes.transform(lambda frame: _one_log(frame, key))
    ordered = Window.partitionBy(*key).orderBy(expr(sort_key(_ORDER)))
    begins = f.sum(expr("CAST(op <> 'update' AS INT)")).over(ordered.rowsBetween(_UNBOUNDED, 0))
    changes = changes.withColumn("life", begins)
    same_row = Window.partitionBy(*key, f.col("life")).orderBy(expr(sort_key(_ORDER)))
    until_row = same_row.rowsBetween(_UNBOUNDED, 0)
    names = changes.select(f"{COLUMNS}.*").columns
    lacks = {name: sql("array_contains(missing, {name})", name=string(name)) for name in names}
    # Wrapped in a struct, since the newest value may be null.
    value = {
        name: f.last(
            expr(
                sql(
                    "IF(coalesce({lacks}, false), NULL, struct({value} AS v))",
                    lacks=lacks[name],
                    value=column(COLUMNS, name),
                )
            ),
            ignorenulls=True,
        ).over(until_row)
        for name in names
    }
    filled = changes.withColumns({f"v{number}": value[name] for number, name in enumerate(names)})
    fields = comma_separated(
        sql("{name}, {value}.v", name=string(name), value=column(f"v{number}")) for number, name in enumerate(names)
    )
    missing = comma_separated(
        sql("IF({value} IS NULL, {name}, NULL)", name=string(name), value=column(f"v{number}"))
        for number, name in enumerate(names)
    )
    inherits = expr("op = 'update'") & (f.col("life") == 0)
    return filled.withColumns(
        {
            COLUMNS: expr(sql("named_struct({fields})", fields=fields)),
            "missing": expr(sql("array_compact(array({missing}))", missing=missing)),
            "partial": expr("partial") & (f.col("life") == 0),
            "inherits": inherits,
        }
    ).drop("life", *(f"v{number}" for number, _ in enumerate(names)))


def _one_log(changes: DataFrame, key: Sequence[object]) -> DataFrame:
    """Without changes that were delivered again; all others of a binlog are kept, in the order of arrival."""
    return without_repeats(changes, key, newest=False)


def with_outcome(
    newest: DataFrame,
    keys: Sequence[str],
    known: DataFrame | None,
    tombstones: DataFrame | None,
    kinds: Kinds,
) -> DataFrame:
    """Add the column `outcome`.

    Args:
        newest: The newest change of each key.
        keys: The columns of the key.
        known: The target's rows: their key as in `tombstone_key`, and their order value `known`.
        tombstones: The target's tombstones.
        kinds: What the order values may have.
    """
    expr = expressions(newest.sparkSession)
    found = newest if known is None else _with_known(newest, keys, known)
    found = found if tombstones is None else _with_tombstones(found, newest, keys, tombstones)
    conditions = [
        sql("WHEN {rejected} THEN 'rejected'", rejected=is_rejected(keys)),
        *(_after_tombstones(kinds) if tombstones is not None else ["WHEN op = 'truncate' THEN 'truncate'"]),
        *(_after_row(kinds) if known is not None else []),
        "WHEN op = 'delete' THEN 'delete'",
        f"WHEN partial AND inherits AND {'NOT is_known' if known is not None else 'true'} THEN 'unknown'",
    ]
    return found.withColumn("outcome", expr(f"CASE {' '.join(conditions)} ELSE 'row' END")).drop(*_HELP)


_HELP = ("known", "is_known", "gone", "truncates")


def _after_row(kinds: Kinds) -> list[str]:
    newer = is_newer(_ORDER, Sql("known"), kinds)
    return [sql("WHEN is_known AND NOT {newer} THEN 'old'", newer=newer)]


def _after_tombstones(kinds: Kinds) -> list[str]:
    after_truncate = is_newer(_ORDER, Sql("x"), kinds)
    # A delete equal to its tombstone is applied if its row is there: its batch failed before the merge.
    after_delete = sql(
        "NOT {newer} AND NOT (op = 'delete' AND gone <=> {order} AND is_known)",
        newer=is_newer(_ORDER, Sql("gone"), kinds),
        order=_ORDER,
    )
    return [
        sql("WHEN exists(truncates, x -> NOT {newer}) THEN 'old'", newer=after_truncate),
        "WHEN op = 'truncate' THEN 'truncate'",
        sql("WHEN {old} THEN 'old'", old=after_delete),
    ]


def _with_known(newest: DataFrame, keys: Sequence[str], known: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    expr = expressions(newest.sparkSession)
    names = [tombstone_key(number) for number, _ in enumerate(keys)]
    joined = newest.join(known.withColumn("found", f.lit(True)), expr(_same_key(keys)), "left")
    return joined.withColumn("is_known", expr("found IS NOT NULL")).drop("found", *names)


def _with_tombstones(changes: DataFrame, newest: DataFrame, keys: Sequence[str], tombstones: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    expr = expressions(changes.sparkSession)
    names = [tombstone_key(number) for number, _ in enumerate(keys)]
    of_keys = tombstones.filter("NOT truncated").join(newest.select(COLUMNS), expr(_same_key(keys)), "left_semi")
    newest_delete = sql("max_by({order}, {key})", order=_ORDER, key=sort_key(_ORDER))
    gone = of_keys.groupBy(*names).agg(expr(newest_delete).alias("gone"))
    truncates = tombstones.filter("truncated").agg(expr("collect_list(`order`)").alias("truncates"))
    joined = changes.join(gone, expr(_same_key(keys)), "left").drop(*names)
    if "is_known" not in joined.columns:
        joined = joined.withColumn("is_known", f.lit(False))
    return joined.crossJoin(f.broadcast(truncates))


def _same_key(keys: Sequence[str]) -> Sql:
    pairs = zip(key_columns(keys), map(tombstone_key, range(len(keys))), strict=True)
    return Sql(" AND ".join(sql("{ours} <=> {theirs}", ours=ours, theirs=column(theirs)) for ours, theirs in pairs))
