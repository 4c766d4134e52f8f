"""Overwrites a target of which most rows change. The kept rows are read once; MERGE would join and read them again.

Concurrent commits are not lost. Delta reads the target within its transaction and compares each replaced row with its
change, as in a MERGE. Iceberg refuses the commit if the target has changed since the read. In both cases nothing is
written, and a MERGE has to do it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.lakehouse.merging.retries import is_conflict
from towpath.lakehouse.reading.batch_messages import in_few_tasks
from towpath.lakehouse.tables.formats import ICEBERG, format_of
from towpath.lakehouse.tables.sessions import iceberg_table, jvm_of
from towpath.lakehouse.tables.sql import Sql, comma_separated, execute, sql, string, table
from towpath.lakehouse.tables.target_properties import table_properties
from towpath.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("towpath.spark")

_MOST_BROADCAST = 200_000
"""Maximum number of changes that each task may hold."""

_NOT_NEWER = "towpath: another writer has changed a row meanwhile"


@dataclass(frozen=True)
class Overwrite:
    """Content of a target after changes with distinct keys."""

    changes: Sql
    """View of the changes, `s`."""
    count: int
    same_key: Sql
    """Condition that a row `t` of the target has the key of a change."""
    newer: Sql
    """Condition that a change is newer than the row."""
    values: Mapping[Sql, Sql]
    """Value of a change for each column of the target."""

    def write(self, spark: SparkSession, target: str) -> bool:
        """Overwrite the target. Return False if it was not possible, for example after another writer's commit."""
        from pyspark.sql import functions as f

        found = _read(spark, target)
        if found is None:
            return False
        read, options = found
        rows = self._kept(spark, read).unionByName(self._new(spark))
        # Each task writes a file.
        writer = in_few_tasks(rows, per_core=1).writeTo(table(target)).options(**options)
        try:
            writer.overwrite(f.lit(True))
        except Exception as error:
            if not is_conflict(error) and _NOT_NEWER not in str(error):
                raise
            _log.info("%s: merged, not overwritten: %s", target, printable(str(error).partition("\n")[0]))
            return False
        return True

    def _kept(self, spark: SparkSession, target: Sql) -> DataFrame:
        """Return the rows that no change replaces."""
        template = (
            "SELECT {hint} {columns} FROM {target} t LEFT JOIN {changes} s ON {same_key} WHERE CASE "
            "WHEN s.`order` IS NULL THEN true WHEN {newer} THEN false ELSE raise_error({message}) END"
        )
        query = sql(
            template,
            hint=Sql("/*+ BROADCAST(s) */" if self.count <= _MOST_BROADCAST else ""),
            columns=comma_separated(sql("t.{name}", name=name) for name in self.values),
            target=target,
            changes=self.changes,
            same_key=self.same_key,
            newer=self.newer,
            message=string(_NOT_NEWER),
        )
        return execute(spark, query)

    def _new(self, spark: SparkSession) -> DataFrame:
        """Return the rows of the changes."""
        named = (sql("{value} AS {name}", value=value, name=name) for name, value in self.values.items())
        query = sql("SELECT {values} FROM {s} s WHERE s.op <> 'delete'", values=comma_separated(named), s=self.changes)
        return execute(spark, query)


def may_overwrite(spark: SparkSession, target: str) -> bool:
    """Return whether readers of a target see the same after an overwrite as after a MERGE."""
    of_target = format_of(spark, target)
    if of_target is ICEBERG and jvm_of(spark) is None:  # a Connect client cannot read the snapshot
        return False
    is_plain = not of_target.layout(spark, target)
    return is_plain and of_target.may_be_overwritten(table_properties(spark, target))


def _read(spark: SparkSession, target: str) -> tuple[Sql, Mapping[str, str]] | None:
    """Return the target as it is read, and options that fail the write if its snapshot has changed.

    Return None if the snapshot has other columns than the table. Delta needs no options.
    """
    if format_of(spark, target) is not ICEBERG:
        return table(target), {}
    loaded = iceberg_table(spark, target)
    found = loaded.currentSnapshot()
    if found is None or found.schemaId() != loaded.schema().schemaId():
        return None
    snapshot = str(found.snapshotId())
    version = sql("{target} VERSION AS OF {snapshot}", target=table(target), snapshot=Sql(snapshot))
    return version, {"validate-from-snapshot-id": snapshot, "isolation-level": "serializable"}
