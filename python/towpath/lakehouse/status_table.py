"""The table of states of a query: merged with delta-rs, where tasks merge targets with it, else by Spark.

Spark's MERGE of its few rows takes as long as all the rest of a small batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from towpath.lakehouse.delta_rs import check_target, next_version, open_if_exists, quoted, retried
from towpath.lakehouse.formats import DELTA, format_of
from towpath.lakehouse.sessions import jvm_of
from towpath.lakehouse.status import ASSIGNMENTS, COLUMNS, SAME_TABLE, TableStatus, status_rows, write_status
from towpath.lakehouse.tables import create_or_evolve
from towpath.lakehouse.tasks import TaskMerges
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StatusTable:
    """The table of states of a query."""

    def __init__(self, target: str, in_tasks: TaskMerges) -> None:
        """Know nothing of the table.

        Args:
            target: Its name or path.
            in_tasks: Which tables may be merged with delta-rs.
        """
        self._target, self._in_tasks = target, in_tasks
        self._is_prepared = False

    def write(self, spark: SparkSession, found: Sequence[TableStatus], batch_id: int) -> None:
        """Merge what a batch did."""
        if found and not self._is_merged(spark, found, batch_id):
            write_status(spark, self._target, found, batch_id)

    def _is_merged(self, spark: SparkSession, found: Sequence[TableStatus], batch_id: int) -> bool:
        """Merge with delta-rs, if that is possible. Returns whether it was."""
        is_classic = jvm_of(spark) is not None  # A client of Connect may be on another machine.
        if not is_classic or not self._in_tasks.may(spark, self._target):
            return False
        try:
            self._is_prepared = self._is_prepared or self._prepare(spark)
            self._is_prepared = self._is_prepared and retried(lambda: self._merge(spark, found, batch_id))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of delta-rs is not an Exception
            self._in_tasks.refuse(self._target, str(error), is_lasting=getattr(error, "is_lasting", True))
            return False
        return self._is_prepared

    def _prepare(self, spark: SparkSession) -> bool:
        """Create the table or make it fit. Returns whether delta-rs may write it."""
        create_or_evolve(spark, self._target, struct_type(COLUMNS))
        is_delta = format_of(spark, self._target) is DELTA
        reason = self._in_tasks.why_elsewhere(spark, self._target) if is_delta else "it is an Iceberg table"
        if reason is not None:
            self._in_tasks.refuse(self._target, reason)
        return reason is None

    def _merge(self, spark: SparkSession, found: Sequence[TableStatus], batch_id: int) -> bool:
        """Merge rows. Returns whether there is a table."""
        table = open_if_exists(self._in_tasks.location(spark, self._target), self._in_tasks.storage)
        if table is None:
            return False
        check_target(table, self._in_tasks.limits)
        merge = table.merge(
            status_rows(found, batch_id),
            predicate=SAME_TABLE.format(table=quoted("table")),
            source_alias="s",
            target_alias="t",
            commit_properties=next_version(),
        )
        merge = merge.when_matched_update({quoted(name): value for name, value in ASSIGNMENTS.items()})
        merge.when_not_matched_insert({quoted(name): f"s.{quoted(name)}" for name in COLUMNS.names}).execute()
        return True
