"""The outcome of each change of a micro-batch: written, older than the stored row, or impossible to apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from towpath.lakehouse.order.order import Kinds, is_before, is_newer, is_ordered, key_columns, newest_order, not_before
from towpath.lakehouse.tables.sql import Sql, any_of, column, expressions, sql, string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ORDER = Sql("`order`")

ROW, DELETE, OLD, REJECTED, UNKNOWN, TRUNCATE = "row", "delete", "old", "rejected", "unknown", "truncate"
"""Outcomes of a change.

`UNKNOWN` is a partial update of a row that was deleted or that the target lacks. It is also a change that waited until
its row had a newer change, which may lack its values.
"""


@dataclass(frozen=True)
class Applied:
    """Effects of a batch on a target."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of keys by outcome: see `ROW` and the others."""
    event_time: datetime | None = None
    """Last event time."""
    place: str | None = None
    """Last place: topic, partition and offset."""
    unordered: int = 0
    """Number of the target's rows that may be older or newer than a truncate."""
    seconds: float = 0.0


def key_names(keys: Sequence[str]) -> list[str]:
    """Return names for the key's columns that clash with no other columns."""
    return [f"k{number}" for number, _ in enumerate(keys)]


def is_rejected(keys: Sequence[str]) -> Sql:
    """Return a condition for changes that lack their key, or values of their row. A delete needs only its key."""
    if not keys:
        return Sql("error IS NOT NULL OR key_only")
    in_key = any_of(sql("lower(error.column) = lower({name})", name=string(name)) for name in keys)
    no_key = any_of(sql("{key} IS NULL", key=key) for key in key_columns(keys))
    absent = any_of(
        sql(
            "coalesce(array_contains(transform(missing, name -> lower(name)), lower({name})), false)", name=string(name)
        )
        for name in keys
    )
    return sql(
        "{absent} OR CASE WHEN op = 'delete' THEN error IS NOT NULL AND (error.column IS NULL OR {in_key} OR {no_key}) "
        "ELSE error IS NOT NULL OR key_only END",
        in_key=in_key,
        no_key=no_key,
        absent=absent,
    )


def with_outcome(
    newest: DataFrame,
    keys: Sequence[str],
    known: DataFrame | None,
    tombstones: DataFrame | None,
    kinds: Kinds,
    waits: Sql | None = None,
) -> DataFrame:
    """Add the columns `outcome` and `unordered`: whether a row may be older or newer than a truncate.

    Args:
        newest: Newest change of each key, with the columns of `fold.ADDED`.
        keys: Columns of the key.
        known: Rows of the target: their key as `key_names`, their order value `known`, and `is_deleted`.
        tombstones: `relevant` tombstones of the target.
        kinds: Kinds of the order values.
        waits: As in `Changes`.
    """
    expr = expressions(newest.sparkSession)
    found = newest if known is None else _with_known(newest, keys, known)
    found = found if tombstones is None else _with_tombstones(found, keys, tombstones, kinds)
    earlier = [Sql(name) for name in ("known", "gone") if name in found.columns]
    latest = not_before(_ORDER, *earlier) if earlier else _ORDER
    is_live = "is_known AND NOT is_deleted" if known is not None else "false"
    conditions = [
        "WHEN rejected THEN 'rejected'",
        "WHEN outcome IN ('unknown', 'old') THEN outcome",
        *(_after_tombstones(kinds, latest) if tombstones is not None else ["WHEN op = 'truncate' THEN 'truncate'"]),
        *(_after_row(kinds, latest, waits) if known is not None else []),
        "WHEN op = 'delete' THEN 'delete'",
        f"WHEN partial AND inherits AND NOT coalesce({is_live}, false) THEN 'unknown'",
    ]
    found = found.withColumn("outcome", expr(f"CASE {' '.join(conditions)} ELSE 'row' END"))
    unordered = _unordered(latest, has_rows=known is not None) if tombstones is not None else Sql("false")
    return found.withColumns({"unordered": expr(unordered), "order": expr(latest)}).drop(*_HELP)


_HELP = ("known", "is_known", "is_deleted", "gone", "truncates")


def _unordered(latest: Sql, *, has_rows: bool) -> Sql:
    """Return a condition for rows that may be older than a truncate and are written, or were in an earlier attempt."""
    is_stored = sql("is_known AND known <=> {latest}", latest=latest) if has_rows else Sql("false")
    template = (
        "op NOT IN ('delete', 'truncate') AND (outcome = 'row' OR coalesce({is_stored}, false)) "
        "AND exists(truncates, x -> NOT {ordered})"
    )
    return sql(template, is_stored=is_stored, ordered=is_ordered(Sql("x"), _ORDER))


def _after_row(kinds: Kinds, latest: Sql, waits: Sql | None) -> list[Sql]:
    is_old = sql("is_known AND NOT {newer}", newer=is_newer(_ORDER, Sql("known"), kinds))
    template = "WHEN {is_old} AND {waits} AND NOT is_deleted AND NOT known <=> {latest} THEN 'unknown'"
    lost = [sql(template, is_old=is_old, waits=waits, latest=latest)] if waits else []
    return [*lost, sql("WHEN {is_old} THEN 'old'", is_old=is_old)]


def _after_tombstones(kinds: Kinds, latest: Sql) -> list[str]:
    after_truncate = is_newer(_ORDER, Sql("x"), kinds)
    before_truncate = is_before(_ORDER, Sql("x"))
    # A delete equal to its tombstone is applied if its row exists: its batch failed before the merge.
    after_delete = sql(
        "NOT {newer} AND NOT (op = 'delete' AND gone <=> {latest} AND is_known)",
        newer=is_newer(_ORDER, Sql("gone"), kinds),
        latest=latest,
    )
    return [
        sql(
            "WHEN op = 'truncate' THEN IF(exists(truncates, x -> NOT {newer}), 'old', 'truncate')", newer=after_truncate
        ),
        # Keep a row whose order is unknown: a user can see a surplus row, but not a lost one.
        sql("WHEN exists(truncates, x -> {before}) THEN 'old'", before=before_truncate),
        sql("WHEN {old} THEN 'old'", old=after_delete),
    ]


def _with_known(newest: DataFrame, keys: Sequence[str], known: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    expr = expressions(newest.sparkSession)
    joined = newest.join(known.withColumn("found", f.lit(True)), expr(_same_key(keys)), "left")
    return joined.withColumn("is_known", expr("found IS NOT NULL")).drop("found", *key_names(keys))


def _with_tombstones(changes: DataFrame, keys: Sequence[str], tombstones: DataFrame, kinds: Kinds) -> DataFrame:
    from pyspark.sql import functions as f

    expr = expressions(changes.sparkSession)
    gone = newest_deletes(tombstones, keys, kinds)
    truncates = tombstones.filter("truncated").agg(expr("collect_list(`order`)").alias("truncates"))
    joined = changes.join(gone, expr(_same_key(keys)), "left").drop(*key_names(keys))
    if "is_known" not in joined.columns:
        joined = joined.withColumn("is_known", f.lit(False))
    return joined.crossJoin(f.broadcast(truncates))


def newest_deletes(tombstones: DataFrame, keys: Sequence[str], kinds: Kinds) -> DataFrame:
    """Return the newest order value of each key's tombstones as `gone`."""
    newest = expressions(tombstones.sparkSession)(newest_order(kinds))
    return tombstones.filter("NOT truncated").groupBy(*key_names(keys)).agg(newest.alias("gone"))


def relevant(stored: DataFrame, newest: DataFrame, keys: Sequence[str], *, are_few: bool) -> DataFrame:
    """Return stored rows or tombstones with the keys of changes, and the tombstones of truncates, whose key is null.

    `are_few` says whether each task may hold the keys of all changes.
    """
    from pyspark.sql import functions as f

    spark = newest.sparkSession
    wanted = {name: f"wanted_{name}" for name in key_names(keys)}
    named = zip(key_columns(keys), wanted.values(), strict=True)
    of_changes = [sql("{key} AS {name}", key=key, name=Sql(name)) for key, name in named]
    of_truncates = [sql("NULL AS {name}", name=Sql(name)) for name in wanted.values()]
    found = newest.selectExpr(*of_changes).union(spark.range(1).selectExpr(*of_truncates))
    # Compare each column by equality, so that Spark can use a hash join.
    same = " AND ".join(f"{one} <=> {name}" for name, one in wanted.items())
    return stored.join(f.broadcast(found) if are_few else found, expressions(spark)(same), "left_semi")


def _same_key(keys: Sequence[str]) -> Sql:
    pairs = zip(key_columns(keys), key_names(keys), strict=True)
    return Sql(" AND ".join(sql("{ours} <=> {theirs}", ours=ours, theirs=column(theirs)) for ours, theirs in pairs))
