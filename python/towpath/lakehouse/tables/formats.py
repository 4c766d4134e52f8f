"""The formats of tables, and in what they differ: Delta, and Iceberg for the names of an Iceberg catalog."""

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
"""For how many columns Delta collects statistics by default."""


class Format:
    """What is not the same SQL for all formats, as Delta has it."""

    name = "delta"
    """Its name behind `USING`."""

    # For every type, and for columns of any name that may be renamed.
    required: ClassVar[Mapping[str, str]] = {
        "delta.feature.timestampNtz": "supported",
        "delta.columnMapping.mode": "name",
    }
    """Properties that an existing table needs before its schema is changed."""

    # delta-rs does not write tables with it.
    for_wider_types: ClassVar[Mapping[str, str]] = {"delta.enableTypeWidening": "true"}
    """More properties that it needs before a type is changed."""

    # Auto compaction looks at all files after each write, which takes as long as a small merge: OPTIMIZE is rarer.
    of_new_tables: ClassVar[Mapping[str, str]] = {"delta.enableDeletionVectors": "true"}
    """More properties of tables that are created; of those that tasks merge, when they are large."""

    def check_name(self, target: str) -> None:
        """Refuse a name with which a table must not be created."""

    def with_statistics(self, columns: int) -> Mapping[str, str]:
        """Properties of a new table that keeps statistics for its first columns only."""
        # Collecting them for the 13 fields of each order value, which no query filters by, is a quarter of a merge.
        return {"delta.dataSkippingNumIndexedCols": str(min(columns, _INDEXED))}

    def clustering(self, columns: Sequence[str]) -> Sql:
        """The clause of CREATE TABLE with the columns by which the rows are clustered."""
        return _clause("CLUSTER BY", map(column, columns))

    def layout(self, spark: SparkSession, target: str) -> Sql:
        """The clause of CREATE TABLE with the clustering or partitioning of a table that exists."""
        detail = delta_detail(spark, target)
        clustered, partitioned = detail["clusteringColumns"] or (), detail["partitionColumns"] or ()
        return self.clustering(clustered) if clustered else _clause("PARTITIONED BY", map(column, partitioned))

    def is_setting(self, property_name: str) -> bool:
        """Whether a property may be given to another table."""
        internal = ("columnMapping.maxColumnId", "minReaderVersion", "minWriterVersion", "feature.", "rowTracking")
        return property_name.startswith("delta.") and not property_name[len("delta.") :].startswith(internal)

    def can_change(self, old: DataType, new: DataType) -> bool:
        """Whether the type of a column can be changed, to one that stores all of its values."""
        return True

    def stored(self, kind: str) -> str:
        """The type that a table stores a type of Spark as."""
        return kind

    def may_be_overwritten(self, properties: Mapping[str, str]) -> bool:
        """Whether it makes no difference to readers if all rows of a table with these properties are written again."""
        # A feed would have each row as deleted and inserted, and rows would lose their identity.
        kept = ("delta.enableChangeDataFeed", "delta.enableRowTracking", "delta.appendOnly")
        return not any(properties.get(name, "false").lower() == "true" for name in kept)

    def compact(self, spark: SparkSession, target: str) -> None:
        """Merge a table's small files."""
        execute(spark, sql("OPTIMIZE {table}", table=table(target)))

    def drop(self, spark: SparkSession, target: str) -> None:
        """Remove a table with its files, if it exists."""
        execute(spark, sql("DROP TABLE IF EXISTS {table}", table=table(target)))


def delta_detail(spark: SparkSession, target: str) -> Row:
    """What Delta says of a table."""
    [detail] = execute(spark, sql("DESCRIBE DETAIL {table}", table=table(target))).collect()
    return detail


class _Iceberg(Format):
    name = "iceberg"
    required: ClassVar[Mapping[str, str]] = {}
    for_wider_types: ClassVar[Mapping[str, str]] = {}
    # Small batches mark rows as deleted. Each commit writes a file of metadata, and removes the oldest one.
    of_new_tables: ClassVar[Mapping[str, str]] = {
        "format-version": "2",
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.merge.mode": "merge-on-read",
        "write.metadata.delete-after-commit.enabled": "true",
    }

    def check_name(self, target: str) -> None:
        # A catalog makes the folder of the table of its name.
        if any("/" in part or part in (".", "..") for part in catalog_parts(target)):
            raise ValueError(
                f"target: {target} has a part that is not a valid folder name; map the table to another target"
            )

    def with_statistics(self, columns: int) -> Mapping[str, str]:
        return {}

    def clustering(self, columns: Sequence[str]) -> Sql:
        if columns:
            raise ValueError("cluster_by: Iceberg has no clustering; create the table with partitions before")
        return Sql("")

    def layout(self, spark: SparkSession, target: str) -> Sql:
        described = execute(spark, sql("DESCRIBE TABLE {table}", table=table(target))).collect()
        # Spark has two forms of it, the second for columns alone, and quotes names where they need it.
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
        # Version 3 keeps the identity of rows. With write-audit-publish a write goes to another branch than it reads.
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
    """The format of a table: Delta, unless its catalog is one of Iceberg."""
    if is_path(target):
        return DELTA
    implementation = spark.conf.get(f"spark.sql.catalog.{_catalog(spark, target)}", None) or ""
    return ICEBERG if implementation.startswith("org.apache.iceberg.") else DELTA


def _catalog(spark: SparkSession, target: str) -> str:
    """The catalog of a table, as Spark resolves its name."""
    first, *rest = catalog_parts(target)
    is_catalog = bool(rest) and spark.conf.get(f"spark.sql.catalog.{first}", None) is not None
    return first if is_catalog else spark.catalog.currentCatalog()


def _clause(keywords: str, items: Iterable[Sql]) -> Sql:
    """A clause of CREATE TABLE; empty without items."""
    listed = comma_separated(items)
    return sql("{keywords} ({listed}) ", keywords=Sql(keywords), listed=listed) if listed else Sql("")


def _section(described: Iterable[Row], heading: str) -> list[Row]:
    """The rows of DESCRIBE TABLE between a heading and an empty row, or the end."""
    rows = dropwhile(lambda row: row["col_name"] != heading, described)
    return list(takewhile(lambda row: row["col_name"], islice(rows, 1, None)))
