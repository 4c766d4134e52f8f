"""Merges the changes of a table's rows into a Delta or Iceberg table.

There is one rule: a change is applied if it is newer than the last known change of its key. The order value of that
change is stored next to each row, and for deleted rows in a table of tombstones. Changes that are not newer are taken
out before the merge. So a change that is delivered again, or a range that is replayed, has no effect, with or without a
checkpoint, and a batch that is retried after a failure ends in the same state.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from towpath.lakehouse.aside import Aside, Origin, write_dead_letters
from towpath.lakehouse.batch_messages import computed, local_frame
from towpath.lakehouse.bounds import Bounds
from towpath.lakehouse.changes import COLUMNS, REQUIRED, has_offsets, structured
from towpath.lakehouse.fold import Fold
from towpath.lakehouse.jobs import UNKNOWN_SIZE, batch_settings, session_settings, settings_for
from towpath.lakehouse.known_schema import KnownSchema
from towpath.lakehouse.newest import Changes
from towpath.lakehouse.order import (
    ORDER_TYPE,
    Kinds,
    is_before,
    is_newer,
    is_ordered,
    key_columns,
)
from towpath.lakehouse.overwrite import Overwrite, may_overwrite
from towpath.lakehouse.parallel import in_parallel
from towpath.lakehouse.retries import is_being_created, is_lost, with_retries
from towpath.lakehouse.rows import (
    DELETE,
    REJECTED,
    ROW,
    TRUNCATE,
    UNKNOWN,
    Applied,
    relevant,
    tombstone_key,
    with_outcome,
)
from towpath.lakehouse.sql import (
    Sql,
    any_of,
    column,
    comma_separated,
    expressions,
    merge,
    sql,
    string,
    table,
)
from towpath.lakehouse.status import TableStatus, write_status
from towpath.lakehouse.stored import StoredBounds, Written, bounds_of, groups, highest
from towpath.lakehouse.tables import (
    TableSettings,
    create_with,
    estimated_size,
    free_name,
    has_feed,
    optimize_in_turn,
    order_column,
    rename_column,
    temporary_view,
)
from towpath.lakehouse.targets import is_path
from towpath.lakehouse.tombstones import Tombstones
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType


KEY_ONLY = (
    "missing",
    "the message has only the row's key (TiCDC's handle-key-only or claim-check), or a delete has not all columns of "
    "the target's key: the rest is not in Kafka",
)
_UNKNOWN_ROW = (
    "missing",
    "the message has only the changed columns (binlog_row_image is not FULL), and the target lacks the row",
)


@dataclass(frozen=True)
class Hints:
    """What is known of a batch before its rows are decoded. What is not known is found out, and costs a job more."""

    kinds: Kinds = field(default_factory=Kinds)
    """What the order values may have."""
    is_small: bool = False
    """Whether the driver may hold the changes, which costs less than a cache on the workers."""
    are_few: bool = False
    """Whether they are few, compared with the target."""
    are_most: bool = False
    """Whether they are more than the rows of the target, as far as is known."""


@dataclass(frozen=True)
class _Staged:
    """The changes of a batch with their outcomes."""

    changes: DataFrame
    applied: Applied
    bounds: Bounds
    """Those of what is applied."""
    uncertain: int
    """How many changes have no outcome yet, as it depends on the target."""
    partial: bool
    """Whether there are rows that lack columns."""
    null_keys: bool
    """Whether a value of a key is null."""

    @property
    def written(self) -> int:
        """How many changes are applied."""
        return self.applied.counts.get(ROW, 0) + self.applied.counts.get(DELETE, 0)

    def after_truncate(self, truncates: int, unordered: int) -> _Staged:
        """The changes that were staged again after truncates."""
        counts = {**self.applied.counts, TRUNCATE: truncates}
        applied = replace(self.applied, counts=counts, unordered=self.applied.unordered + unordered)
        return replace(self, applied=applied)


class Applier:
    """Applies the changes of one table; a function for `foreachBatch`."""

    def __init__(
        self,
        target: str,
        keys: list[str],
        dead_letters: Aside | None,
        settings: TableSettings | None = None,
        status: str | None = None,
    ) -> None:
        self._target = target
        self.tombstones = Tombstones(target)
        self._known_schema = KnownSchema(target)
        self._keys = keys
        self._dead_letters = dead_letters
        self._origin = Origin(target=target)
        self._settings = settings or TableSettings()
        self._status = status
        self._size: int | None = None
        self._may_overwrite: bool | None = None
        self._stored = StoredBounds(target, self.tombstones.name)
        self.last: Applied | None = None

    def configure(self, keys: list[str], settings: TableSettings, origin: Origin) -> None:
        """Set the key's columns, how the target is created and maintained, and whose changes it gets."""
        self._keys, self._settings, self._origin = keys, settings, origin

    def __call__(self, batch: DataFrame, batch_id: int = 0) -> None:
        """Apply a batch of decoded changes."""
        missing = [name for name in REQUIRED if name not in batch.columns]
        if missing:
            raise ValueError(f'changes lacks the columns {", ".join(missing)}: decode with layout="upsert"')
        changes = structured(batch)
        if not has_offsets(batch):
            _check_order(changes, self._target)
        spark = batch.sparkSession
        with session_settings(spark, batch_settings(spark)):
            self._apply_batch(spark, changes, batch_id)

    def _apply_batch(self, spark: SparkSession, changes: DataFrame, batch_id: int) -> None:
        changes = changes.persist()
        try:
            keys = self._keys or _declared_keys(changes, self._target)
            with session_settings(spark, settings_for(spark, UNKNOWN_SIZE)):
                self.last = self.apply(Changes(changes), keys, Hints(), batch_id)
        finally:
            changes.unpersist()
        if self._status:
            write_status(spark, self._status, [TableStatus.of(None, self._target, self._target, self.last)], batch_id)

    def apply(self, changes: Changes, keys: list[str], hints: Hints, batch_id: int) -> Applied:
        """Apply changes."""

        def attempt() -> Applied:
            try:
                return self._apply_once(changes, keys, hints, batch_id)
            except Exception:
                self.forget_schemas()  # somebody else may have changed the tables
                raise

        return with_retries(attempt, lambda error: is_lost(error) or is_being_created(error))

    def schema(self, spark: SparkSession) -> StructType | None:
        """The target's schema; None if it does not exist."""
        return self._known_schema.read(spark)

    def size(self, spark: SparkSession) -> int | None:
        """Bytes of the target's files; 0 if it does not exist, None if the session does not say."""
        if self.schema(spark) is None:
            return 0
        if self._size is None:
            self._size = estimated_size(spark.read.table(table(self._target)))
        return self._size

    def _apply_once(self, changes: Changes, keys: list[str], hints: Hints, batch_id: int) -> Applied:
        began = time.monotonic()
        self._check_columns(changes.frame, keys)
        spark = changes.frame.sparkSession
        with ExitStack() as held:
            staged = self._staged(changes, keys, hints, held, self._bounds(spark))
            if truncates := staged.applied.counts.get(TRUNCATE):
                unordered = self._truncate(staged.changes.filter("outcome = 'truncate'"), staged.changes, keys)
                staged = self._staged(changes, keys, hints, held, None).after_truncate(truncates, unordered)
            written = self._write(staged, keys, hints)
            self._stored.add(spark, staged.bounds, written, staged.changes, keys)
        self._maintain(spark, batch_id)
        return replace(staged.applied, seconds=time.monotonic() - began)

    def _check_columns(self, changes: DataFrame, keys: list[str]) -> None:
        columns = changes.select(f"{COLUMNS}.*").columns
        missing = [name for name in keys if name.lower() not in map(str.lower, columns)]
        if missing:
            raise ValueError(f"{self._target}: the key's columns {missing} are not among the columns {columns}")
        deleted = self._settings.soft_deletes
        if deleted is not None and deleted.lower() in map(str.lower, columns):
            raise ValueError(f"{self._target}: soft_deletes: the table has a column {deleted} itself")

    def _staged(
        self, changes: Changes, keys: list[str], hints: Hints, held: ExitStack, bounds: Bounds | None
    ) -> _Staged:
        """The changes of a batch with their outcomes, and what is known of them."""
        from pyspark.sql import functions as f

        newest = changes.newest(Fold(tuple(keys), bounds), in_driver=hints.is_small)
        if bounds is None:
            return _counted(self._compared(newest, keys, hints, held), keys)
        newest = computed(newest.withColumn("unordered", f.lit(False)), held, in_driver=hints.is_small)
        found = _counted(newest, keys)
        if not found.uncertain:
            return found
        if found.applied.counts.get(TRUNCATE):
            return _counted(self._compared(newest, keys, hints, held), keys)
        are_few = found.uncertain <= _FEW and not hints.is_small
        few = replace(hints, is_small=hints.is_small or are_few, are_few=are_few)
        compared = self._compared(newest.filter("outcome IS NULL"), keys, few, held, some=True)
        all_of_them = newest.filter("outcome IS NOT NULL").unionByName(compared)
        # A MERGE of many changes has to know how few they are. Those in the driver's memory are not copied.
        staged = all_of_them if hints.is_small else computed(all_of_them, held, in_driver=False)
        return _counted(staged, keys)

    def _compared(
        self, newest: DataFrame, keys: list[str], hints: Hints, held: ExitStack, *, some: bool = False
    ) -> DataFrame:
        """The newest changes with their outcomes, after a look at the target's rows and tombstones.

        Args:
            newest: The changes.
            keys: The columns of the key.
            hints: What is known of the batch.
            held: Its end frees the memory of the workers.
            some: Whether they are few, compared with the target.
        """
        known, tombstones = self._known(newest.sparkSession, keys)
        if tombstones is not None or some:  # then the newest changes are needed twice
            newest = computed(newest, held, in_driver=hints.is_small)
        if known is not None and some:
            known = relevant(known, newest, keys, are_few=hints.are_few)
        if tombstones is not None:
            wanted = relevant(tombstones, newest, keys, are_few=hints.are_few)
            tombstones = computed(wanted, held, in_driver=hints.is_small)
        return computed(with_outcome(newest, keys, known, tombstones, hints.kinds), held, in_driver=hints.is_small)

    def _bounds(self, spark: SparkSession) -> Bounds | None:
        if self._settings.soft_deletes:  # a deleted row may be live again
            return None
        target, tombstones = self.schema(spark), self.tombstones.schema.read(spark)
        order = order_column(target) if target is not None else None
        return self._stored.known(spark, order, (target is not None, tombstones is not None))

    def _known(self, spark: SparkSession, keys: list[str]) -> tuple[DataFrame | None, DataFrame | None]:
        """The keys and order values of the target, and its tombstones."""
        schema = self.schema(spark)
        known = None
        if schema is not None:
            order = order_column(schema)
            value = sql("{order} AS known", order=column(order)) if order else Sql("NULL AS known")
            names = (
                sql("{key} AS {name}", key=column(key), name=column(tombstone_key(at))) for at, key in enumerate(keys)
            )
            deleted = self._deleted(schema)
            is_deleted = (
                sql("{deleted} IS NOT NULL AS is_deleted", deleted=column(deleted))
                if deleted
                else Sql("false AS is_deleted")
            )
            known = spark.read.table(table(self._target)).selectExpr(*names, value, is_deleted)
            if order is None:
                known = known.drop("known").selectExpr("*", f"CAST(NULL AS {ORDER_TYPE}) AS known")
        return known, self.tombstones.read(spark)

    def _write(self, found: _Staged, keys: list[str], hints: Hints) -> Written:
        """Write what is applied, and what cannot be."""
        staged, counts = found.changes, found.applied.counts
        if counts.get(REJECTED):
            self._write_dead_letters(staged.filter("outcome = 'rejected'"), KEY_ONLY, counts[REJECTED])
        if counts.get(UNKNOWN):
            self._write_dead_letters(staged.filter("outcome = 'unknown'"), _UNKNOWN_ROW, counts[UNKNOWN])
        rows, deletes = counts.get(ROW, 0), counts.get(DELETE, 0)
        # If one of the two writes fails, a retry of the batch finds the same deletes again.
        writes: list[Callable[[], bool]] = []
        if rows or deletes:
            writes.append(lambda: self._write_rows(found, keys, hints, has_rows=bool(rows)))
        if deletes:
            writes.append(lambda: self.tombstones.write(staged.filter("outcome = 'delete'"), keys))
        done = in_parallel(staged.sparkSession, lambda write: write(), writes, len(writes))
        return Written(any(done[:1]), any(done[1:]), found.written)

    def _write_rows(self, found: _Staged, keys: list[str], hints: Hints, *, has_rows: bool) -> bool:
        """Write rows and deletes. Returns whether that made a commit."""
        staged = found.changes
        is_new = self.schema(staged.sparkSession) is None
        # Rows with which a table is created are not in its feed.
        is_created = is_new and has_rows and not has_feed(staged.sparkSession, self._target, self._settings.properties)
        if is_created and self._create(staged.filter("outcome = 'row'")):
            return True
        return self._merge(found, keys, self._prepare_target(staged), hints)

    def _create(self, rows: DataFrame) -> bool:
        """Create the target with rows, which costs a fraction of a merge. Returns whether it did not exist."""
        from pyspark.sql import functions as f

        order = free_name(rows.select(f"{COLUMNS}.*").schema, None)
        names = [self._settings.soft_deletes] if self._settings.soft_deletes else []
        deleted = [f.lit(None).cast("timestamp").alias(name) for name in names]
        written = rows.select(f"{COLUMNS}.*", *deleted, f.col("order").alias(order))
        self._known_schema.forget()
        return create_with(rows.sparkSession, self._target, written, self._settings)

    def _prepare_target(self, changes: DataFrame) -> str:
        """As `prepare`, for changes."""
        return self.prepare(changes.sparkSession, changes.select(f"{COLUMNS}.*").schema)

    def prepare(self, spark: SparkSession, columns: StructType) -> str:
        """Create the target, or make it fit the columns. Returns the name of the column with the order values."""
        from pyspark.sql.types import StructField, StructType, TimestampType

        existing = self.schema(spark)
        order = (order_column(existing) if existing else None) or free_name(columns, existing)
        if existing is not None and order.lower() in (name.lower() for name in columns.names):
            order = rename_column(spark, self._target, order, free_name(columns, existing))
            self._known_schema.forget()
        own: list[Any] = list(StructType.fromDDL(f"{column(order)} {ORDER_TYPE}"))  # type: ignore[call-overload]
        if self._settings.soft_deletes:
            own.append(StructField(self._settings.soft_deletes, TimestampType()))
        self._known_schema.make_fit(spark, [*columns.fields, *own], self._settings)
        return order

    def _truncate(self, truncates: DataFrame, changes: DataFrame, keys: list[str]) -> int:
        """As `truncate`, after the target was created or made to fit."""
        self._prepare_target(changes)
        return self.truncate(truncates, keys)

    def truncate(self, truncates: DataFrame, keys: list[str]) -> int:
        """Delete the rows of a target that are older than truncates, which have order values, and write tombstones.

        Returns:
            The number of rows that stay, although they may be older.
        """
        spark = truncates.sparkSession
        schema = self.schema(spark)
        order = order_column(schema) if schema is not None else None
        if schema is None or order is None:
            return 0
        self.tombstones.write_truncates(truncates, schema, keys)
        # One row, since a row of the target may be older than several truncates.
        truncates = truncates.selectExpr("collect_list(`order`) AS truncates")
        of_row = column("t", order)
        with temporary_view(truncates) as view:
            older = sql("{t} IS NULL OR {before}", t=of_row, before=is_before(of_row, Sql("x")))
            condition = sql("exists(s.truncates, x -> {older})", older=older)
            times = Sql("array_max(transform(s.truncates, x -> x.event_time))")
            merge(spark, self._target, view, condition, self._when_deleted(Sql("true"), times))
        rows = spark.read.table(table(self._target)).alias("t").crossJoin(truncates)
        unordered = sql("exists(truncates, x -> NOT {ordered})", ordered=is_ordered(Sql("x"), of_row))
        return rows.filter(expressions(spark)(unordered)).count()

    def _when_deleted(self, condition: Sql, time: Sql, *assignments: Sql) -> Sql:
        """The clause of a MERGE that deletes a row, or marks it as deleted."""
        name = self._settings.soft_deletes
        if name is None:
            return sql("WHEN MATCHED AND {condition} THEN DELETE", condition=condition)
        deleted = sql(
            "{deleted} = coalesce({deleted}, {time}, current_timestamp())", deleted=column("t", name), time=time
        )
        template = "WHEN MATCHED AND {condition} THEN UPDATE SET {assignments}"
        return sql(template, condition=condition, assignments=comma_separated([deleted, *assignments]))

    def _deleted(self, schema: StructType) -> str | None:
        """The column of a target with the time of a row's deletion, if it has one."""
        name = self._settings.soft_deletes
        return name if name is not None and name in schema.names else None

    def forget_schemas(self) -> None:
        """Read the schemas again, since somebody else changed the tables."""
        self._known_schema.forget()
        self._may_overwrite = None
        self.tombstones.schema.forget()
        self._stored.forget()

    def _merge(self, found: _Staged, keys: list[str], order: str, hints: Hints) -> bool:
        """Merge rows and deletes. Returns whether it may have changed a row."""
        rows = found.changes.filter("outcome IN ('row', 'delete')")
        names = rows.select(f"{COLUMNS}.*").columns
        newer = is_newer(Sql("s.`order`"), column("t", order), hints.kinds)
        targets = [*map(column, names), column(order)]
        values = [*(column("s", COLUMNS, name) for name in names), Sql("s.`order`")]
        deleted = self._settings.soft_deletes
        restored = [sql("{t} = NULL", t=column("t", deleted))] if deleted else []
        ordered = sql("{t} = s.`order`", t=column("t", order))
        updates = [*(_assignment(name, partial=found.partial) for name in names), *restored, ordered]
        is_delete = sql("s.op = 'delete' AND {newer}", newer=newer)
        # Spark compares faster with `=`, which is the same unless a value of the batch is null.
        same = "{t} <=> {s}" if found.null_keys else "{t} = {s}"
        same_key = Sql(" AND ".join(sql(same, t=column("t", key), s=column("s", COLUMNS, key)) for key in keys))
        with temporary_view(rows) as view:
            new = Overwrite(view, found.written, same_key, newer, dict(zip(targets, values, strict=True)))
            if hints.are_most and self._is_overwritten(rows.sparkSession, found, new):
                return True
            changed = merge(
                rows.sparkSession,
                self._target,
                view,
                same_key,
                self._when_deleted(is_delete, Sql("s.event_time"), ordered),
                sql(
                    "WHEN MATCHED AND {newer} THEN UPDATE SET {updates}", newer=newer, updates=comma_separated(updates)
                ),
                sql(
                    "WHEN NOT MATCHED AND s.op <> 'delete' THEN INSERT ({names}) VALUES ({values})",
                    names=comma_separated(targets),
                    values=comma_separated(values),
                ),
            )
        return changed != 0

    def _is_overwritten(self, spark: SparkSession, found: _Staged, new: Overwrite) -> bool:
        """Overwrite the target if the new rows are all that MERGE would make. Returns whether it was done."""
        schema = self.schema(spark)
        own = {column(name).lower() for name in schema.names} if schema is not None else set()
        if found.partial or self._settings.soft_deletes or own != {name.lower() for name in new.values}:
            return False
        if self._may_overwrite is None:
            self._may_overwrite = may_overwrite(spark, self._target)
        return self._may_overwrite and new.write(spark, self._target)

    def forget_before(self, spark: SparkSession) -> datetime | None:
        """The time of before which a task forgets tombstones, if it is due."""
        return self.tombstones.forget_before(spark, self._settings.forget_after)

    def prepare_tombstones(self, spark: SparkSession, columns: StructType) -> str:
        """The table of tombstones, for a task. That of a path is created by the task that has the first one."""
        if not is_path(self._target):
            self.tombstones.prepare(spark, columns, self._keys)
        return self.tombstones.name

    def finish(self, spark: SparkSession, rejected: pa.Table | None, files: int, batch_id: int) -> None:
        """What is left to do after a task has merged changes into a target, which now has this number of files."""
        if rejected is not None:
            frame = local_frame(spark, rejected, struct_type(rejected.schema))
            self._write_dead_letters(frame, KEY_ONLY, rejected.num_rows)
        self.tombstones.was_forgotten()
        if files > 1:
            optimize_in_turn(spark, self._target, batch_id, self._settings.optimize_every)
        if not is_path(self._target):  # a task compacts the tombstones of a path
            optimize_in_turn(spark, self.tombstones.name, batch_id, self._settings.optimize_every)

    def _maintain(self, spark: SparkSession, batch_id: int) -> None:
        """Forget old tombstones, and optimize."""
        if batch_id % _SIZE_EVERY == 0:
            self._size = None
        optimize_in_turn(spark, self._target, batch_id, self._settings.optimize_every)
        self.tombstones.forget(spark, self._settings.forget_after)

    def _write_dead_letters(self, rejected: DataFrame, default: tuple[str, str], count: int) -> None:
        problem = f"{self._target}: {count} rows cannot be applied"
        write_dead_letters(rejected, self._dead_letters, self._origin, default, problem)


_FEW = 20_000
"""How many changes the driver may hold."""

_SIZE_EVERY = 20
"""After how many batches the size of a target is read again."""


def _assignment(name: str, *, partial: bool) -> Sql:
    """Assigns the new value to a column. A column that a partial update does not have keeps its value."""
    template = "{t} = IF(s.inherits AND array_contains(s.missing, {name}), {t}, {s})" if partial else "{t} = {s}"
    return sql(template, t=column("t", name), s=column("s", COLUMNS, name), name=string(name))


def _counted(staged: DataFrame, keys: Sequence[str]) -> _Staged:
    found = staged.groupBy("outcome", *groups()).agg(*_statistics(keys)).collect()
    counts = Counter({row["outcome"]: 0 for row in found})
    for row in found:
        counts[row["outcome"]] += row["count"]
    last = max(found, key=_last_of, default=None)
    applied = Applied(
        counts,
        max((row["event_time"] for row in found if row["event_time"]), default=None),
        f"{last['of_topic']}/{last['of_partition']}/{last['highest_offset']}" if last else None,
        unordered=sum(row["unordered"] for row in found if row["outcome"] == ROW),
    )
    return _Staged(
        staged,
        applied,
        bounds_of(row for row in found if row["outcome"] in (ROW, DELETE)),
        uncertain=counts.pop(None, 0),
        partial=any(row["partial"] for row in found),
        null_keys=any(row["null_keys"] for row in found),
    )


def _statistics(keys: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as f

    null_key = any_of(sql("{key} IS NULL", key=key) for key in key_columns(keys))
    return [
        f.count("*").alias("count"),
        f.max("event_time").alias("event_time"),
        f.max(f.expr("op = 'update' AND coalesce(size(missing), 0) > 0")).alias("partial"),
        f.count_if("unordered").alias("unordered"),
        f.max(f.expr(null_key)).alias("null_keys"),
        *highest(),
    ]


def _last_of(group: Row) -> tuple[Any, ...]:
    """Sorts groups by when their last change came to Kafka."""
    names = ("highest_timestamp", "of_topic", "of_partition", "highest_offset")
    return tuple((group[name] is not None, group[name]) for name in names)


def _check_order(changes: DataFrame, target: str) -> None:
    unordered = changes.filter("source.commit_ts IS NULL AND source.position IS NULL").limit(1).collect()
    if unordered:
        raise ValueError(
            f"{target}: nothing orders these changes across batches; decode with "
            'keep=["topic", "partition", "offset", "timestamp"]'
        )


def _declared_keys(changes: DataFrame, target: str) -> list[str]:
    if "primary_key" not in changes.columns:
        raise ValueError(f"{target}: keys: name the primary key's columns, or decode the field _primary_key too")
    rows = changes.filter("op <> 'truncate' AND primary_key IS NOT NULL")
    found = [row[0] for row in rows.select("primary_key").distinct().collect()]
    if len(found) == 1 and found[0]:
        return list(found[0])
    raise ValueError(f"{target}: the messages' primary keys are {found}, not one; name its columns with keys")
