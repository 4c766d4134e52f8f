"""The differences between table formats: Delta, and Iceberg for tables in an Iceberg catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING, ClassVar

from towpath.lakehouse.tables.sql import Sql, column, comma_separated, execute, sql, string, table
from towpath.lakehouse.tables.targets import catalog_parts, is_path

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.types import DataType


_INDEXED = 32
"""Number of columns for which Delta collects statistics by default."""


class Format:
    """SQL that differs between formats, in Delta's form."""

    name = "delta"
    """Name after `USING`."""

    # For all types, and for columns of any name that may be renamed.
    required: ClassVar[Mapping[str, str]] = {
        "delta.feature.timestampNtz": "supported",
        "delta.columnMapping.mode": "name",
    }
    """Properties that an existing table needs before its schema changes."""

    # delta-rs does not write tables with type widening.
    for_wider_types: ClassVar[Mapping[str, str]] = {"delta.enableTypeWidening": "true"}
    """Further properties that the table needs before a type changes."""

    # Do not enable auto compaction: it looks at all files after each write, as long as a small merge. OPTIMIZE is
    # rarer.
    of_new_tables: ClassVar[Mapping[str, str]] = {"delta.enableDeletionVectors": "true"}
    """Further properties of new tables. Tables that tasks merge get them when they are large."""

    def check_name(self, target: str) -> None:
        """Refuse a name that a new table must not have."""

    def with_statistics(self, columns: int) -> Mapping[str, str]:
        """Return the properties of a new table with statistics for only its first columns."""
        # Statistics of an order value's 13 fields cost a quarter of a merge, and no query filters by these fields.
        return {"delta.dataSkippingNumIndexedCols": str(min(columns, _INDEXED))}

    def clustering(self, columns: Sequence[str]) -> Sql:
        """Return the clause of CREATE TABLE with the clustering columns."""
        return _clause("CLUSTER BY", map(column, columns))

    def layout(self, spark: SparkSession, target: str) -> Sql:
        """Return the clause of CREATE TABLE with the clustering or partitioning of an existing table."""
        detail = delta_detail(spark, target)
        clustered, partitioned = detail["clusteringColumns"] or (), detail["partitionColumns"] or ()
        return self.clustering(clustered) if clustered else _clause("PARTITIONED BY", map(column, partitioned))

    def is_setting(self, property_name: str) -> bool:
        """Return whether a property may be copied to another table."""
        internal = ("columnMapping.maxColumnId", "minReaderVersion", "minWriterVersion", "feature.", "rowTracking")
        return property_name.startswith("delta.") and not property_name[len("delta.") :].startswith(internal)

    def can_change(self, old: DataType, new: DataType) -> bool:
        """Return whether a column's type can change to a type that stores all of its values."""
        return True

    def stored(self, kind: str) -> str:
        """Return the type in which a table stores a type of Spark."""
        return kind

    def may_be_overwritten(self, properties: Mapping[str, str]) -> bool:
        """Return whether readers see no difference after all rows of a table with these properties are rewritten."""
        # A change data feed would list each row as deleted and inserted, and rows would lose their identity.
        kept = ("delta.enableChangeDataFeed", "delta.enableRowTracking", "delta.appendOnly")
        return not any(properties.get(name, "false").lower() == "true" for name in kept)

    def compact(self, spark: SparkSession, target: str) -> None:
        """Merge a table's small files."""
        execute(spark, sql("OPTIMIZE {table}", table=table(target)))

    def drop(self, spark: SparkSession, target: str) -> None:
        """Drop a table with its files, if it exists."""
        execute(spark, sql("DROP TABLE IF EXISTS {table}", table=table(target)))


def delta_detail(spark: SparkSession, target: str) -> Row:
    """Return Delta's details of a table."""
    [detail] = execute(spark, sql("DESCRIBE DETAIL {table}", table=table(target))).collect()
    return detail


class _Iceberg(Format):
    name = "iceberg"
    required: ClassVar[Mapping[str, str]] = {}
    for_wider_types: ClassVar[Mapping[str, str]] = {}
    # Small batches mark rows as deleted. Each commit writes a metadata file, and removes the oldest one.
    of_new_tables: ClassVar[Mapping[str, str]] = {
        "format-version": "2",
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.merge.mode": "merge-on-read",
        "write.metadata.delete-after-commit.enabled": "true",
    }

    def check_name(self, target: str) -> None:
        # A catalog makes the table's folder from its name.
        if any("/" in part or part in (".", "..") for part in catalog_parts(target)):
            raise ValueError(
                f"target: {target} has a part that is not a valid folder name; map the table to another target"
            )

    def with_statistics(self, columns: int) -> Mapping[str, str]:
        return {}

    def clustering(self, columns: Sequence[str]) -> Sql:
        if columns:
            raise ValueError("cluster_by: Iceberg has no clustering; create the table with partitions first")
        return Sql("")

    def layout(self, spark: SparkSession, target: str) -> Sql:
        described = execute(spark, sql("DESCRIBE TABLE {table}", table=table(target))).collect()
        # Spark has two forms of it, the second for columns alone. Spark quotes names only where they need it.
        transforms = [row["data_type"] for row in _section(described, "# Partitioning")]
        columns = [row["col_name"] for row in _section(described, "# Partition Information")[1:]]
        return _clause("PARTITIONED BY", map(Sql, transforms or columns))

    def is_setting(self, property_name: str) -> bool:
        return property_name.startswith(("write.", "read.", "commit.", "history.", "format-version"))

    def can_change(self, old: DataType, new: DataType) -> bool:
        from pyspark.sql.types import DecimalType

        if isinstance(old, DecimalType) and isinstance(new, DecimalType):
            return old.scale == new.scale
        return (old.simpleString(), new.simpleString()) in (("int", "bigint"), ("float", "double"))

    def stored(self, kind: str) -> str:
        return "int" if kind in ("tinyint", "smallint") else kind

    def may_be_overwritten(self, properties: Mapping[str, str]) -> bool:
        # Version 3 keeps the identity of rows. With write-audit-publish a write goes to another branch than a read.
        is_staged = properties.get("write.wap.enabled", "false").lower() == "true"
        return properties.get("format-version") in ("1", "2") and not is_staged

    def compact(self, spark: SparkSession, target: str) -> None:
        template = "CALL {catalog}.system.rewrite_data_files(table => {table}, options => map({options}))"
        statement = sql(
            template,
            catalog=column(_catalog(spark, target)),
            table=string(target),
            options=Sql("'remove-dangling-deletes', 'true'"),
        )
        execute(spark, statement)

    def drop(self, spark: SparkSession, target: str) -> None:
        execute(spark, sql("DROP TABLE IF EXISTS {table} PURGE", table=table(target)))


DELTA, ICEBERG = Format(), _Iceberg()


def format_of(spark: SparkSession, target: str) -> Format:
    """Return the format of a table: Iceberg if its catalog is an Iceberg catalog, otherwise Delta."""
    if is_path(target):
        return DELTA
    implementation = spark.conf.get(f"spark.sql.catalog.{_catalog(spark, target)}", None) or ""
    return ICEBERG if implementation.startswith("org.apache.iceberg.") else DELTA


def _catalog(spark: SparkSession, target: str) -> str:
    """Return the catalog of a table as Spark resolves its name."""
    first, *rest = catalog_parts(target)
    is_catalog = bool(rest) and spark.conf.get(f"spark.sql.catalog.{first}", None) is not None
    return first if is_catalog else spark.catalog.currentCatalog()


def _clause(keywords: str, items: Iterable[Sql]) -> Sql:
    """Return a clause of CREATE TABLE; empty without items."""
    listed = comma_separated(items)
    return sql("{keywords} ({listed}) ", keywords=Sql(keywords), listed=listed) if listed else Sql("")


def _section(described: Iterable[Row], heading: str) -> list[Row]:
    """Return the rows of DESCRIBE TABLE between a heading and an empty row, or the end."""
    rows = dropwhile(lambda row: row["col_name"] != heading, described)
    return list(takewhile(lambda row: row["col_name"], islice(rows, 1, None)))
