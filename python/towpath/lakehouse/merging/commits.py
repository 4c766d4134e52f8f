"""Whether somebody else has written a table since a query has known all of its commits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from towpath.lakehouse.tables.formats import ICEBERG, delta_detail, format_of
from towpath.lakehouse.tables.sessions import jvm_of
from towpath.lakehouse.tables.sql import execute, sql, table
from towpath.lakehouse.tables.tables import may_exist
from towpath.lakehouse.tables.targets import is_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Commits(ABC):
    """The commits of a table that are known."""

    @abstractmethod
    def read(self, spark: SparkSession, *, exists: bool) -> None:
        """Know all commits of now. None has been made of a table that does not exist."""

    @abstractmethod
    def are_known(self, spark: SparkSession) -> bool:
        """Whether all commits of a table that exists are known."""

    @abstractmethod
    def add(self, spark: SparkSession, *, written: bool) -> None:
        """Know the commit of this query, or that it has made none. One of somebody else ends what is known."""


class _DeltaCommits(Commits):
    """The last version that is known. Each version of a table has a file in its log."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._log = f"{target}/_delta_log"
        self._version: int | None = None

    def read(self, spark: SparkSession, *, exists: bool) -> None:
        self._version = _NO_VERSION
        if not exists:
            return
        detail = delta_detail(spark, self._target)
        self._log = f"{detail['location']}/_delta_log"
        [last] = execute(spark, sql("DESCRIBE HISTORY {table} LIMIT 1", table=table(self._target))).collect()
        # A catalog that manages the commits of a table writes them to other files first.
        settings = (*detail["properties"], *(detail.asDict().get("tableFeatures") or ()))
        is_managed = any(name.startswith(_MANAGED) for name in settings)
        self._version = None if is_managed else last["version"]

    def are_known(self, spark: SparkSession) -> bool:
        return self._version is not None and self._is_last(spark, self._version)

    def add(self, spark: SparkSession, *, written: bool) -> None:
        if self._version == _NO_VERSION:
            # A name has a folder when its table exists: the next batch reads it.
            self._version = 0 if written and is_path(self._target) else _NO_VERSION if not written else None
        elif self._version is not None:
            self._version += written
        if self._version not in (None, _NO_VERSION) and not self._is_last(spark, self._version):
            self._version = None

    def _is_last(self, spark: SparkSession, version: int) -> bool:
        # Old files of the log are removed after some time.
        return self._has(spark, version) and not self._has(spark, version + 1)

    def _has(self, spark: SparkSession, version: int) -> bool:
        return may_exist(spark, f"{self._log}/{version:020}.json")


_NO_VERSION = -1
_MANAGED = ("delta.coordinatedCommits", "coordinatedCommits", "catalogManaged", "catalogOwned")


class _IcebergCommits(Commits):
    """The last snapshot that is known."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._is_known = False
        self._snapshot: int | None = None

    def read(self, spark: SparkSession, *, exists: bool) -> None:
        found = self._current(spark) if exists else None
        self._is_known, self._snapshot = True, found.snapshotId() if found else None

    def are_known(self, spark: SparkSession) -> bool:
        found = self._current(spark)
        return self._is_known and self._snapshot == (found.snapshotId() if found else None)

    def add(self, spark: SparkSession, *, written: bool) -> None:
        if self._snapshot is None and not written:
            return
        found = self._current(spark)
        if found is not None and found.snapshotId() != self._snapshot:
            is_ours = written and found.summary().get("spark.app.id") == spark.sparkContext.applicationId
            self._is_known = self._is_known and is_ours and found.parentId() == self._snapshot
            self._snapshot = found.snapshotId()

    def _current(self, spark: SparkSession) -> Any:
        return iceberg_table(spark, self._target).currentSnapshot()


def iceberg_table(spark: SparkSession, target: str) -> Any:
    """Iceberg's own object of a table, with its last commit. Not on Connect."""
    loaded = getattr(jvm_of(spark), "org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
        spark._jsparkSession, target
    )
    loaded.refresh()
    return loaded


def commits_of(spark: SparkSession, target: str) -> Commits | None:
    """The commits of a table, of which none is known yet. None where they cannot be: on Connect, and on Spark 3.5."""
    from pyspark.sql import DataFrame

    if jvm_of(spark) is None or not hasattr(DataFrame, "toArrow"):
        return None
    return _IcebergCommits(target) if format_of(spark, target) is ICEBERG else _DeltaCommits(target)
