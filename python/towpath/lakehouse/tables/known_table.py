"""Cached schema and properties of a table. They are read once, until they are forgotten."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from towpath.lakehouse.tables.driver_tables import DriverTable
from towpath.lakehouse.tables.tables import (
    TableSettings,
    create_or_evolve,
    order_column,
    schema_of,
)
from towpath.lakehouse.tables.target_properties import KEY, read, set_properties, table_properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField, StructType

    from towpath.lakehouse.merging.tasks import TaskMerges


class KnownTable:
    """Table with cached schema and properties."""

    def __init__(self, name: str, in_tasks: TaskMerges | None = None) -> None:
        """Create a table from its name or path. `in_tasks` says which tables delta-rs may write."""
        self.name, self._in_tasks = name, in_tasks
        self._schema: StructType | None = None
        self._properties: Mapping[str, str] | None = None

    def schema(self, spark: SparkSession) -> StructType | None:
        """Return the schema; None if the table does not exist."""
        if self._schema is None and not self._read(spark):
            self._schema = schema_of(spark, self.name)
        return self._schema

    def order(self, spark: SparkSession) -> str | None:
        """Return the column of order values, if the table exists and has it."""
        schema = self.schema(spark)
        return order_column(schema) if schema is not None else None

    def properties(self, spark: SparkSession) -> Mapping[str, str]:
        """Return the properties; empty if the table does not exist."""
        if self._properties is None and not self._read(spark) and self.schema(spark) is not None:
            self._properties = table_properties(spark, self.name)
        return self._properties or {}

    def _read(self, spark: SparkSession) -> bool:
        """Read the schema and the properties with delta-rs. Return whether this succeeded."""
        if found := DriverTable(spark, self.name, self._in_tasks).read():
            self._schema, self._properties = found
        return found is not None

    def key(self, spark: SparkSession) -> list[str] | None:
        """Return the columns of the key; None if no table with this property exists."""
        found: list[str] | None = json.loads(self.properties(spark).get(KEY, "null"))
        return found

    def set_properties(self, spark: SparkSession, values: Mapping[str, str]) -> None:
        """Set properties."""
        set_properties(spark, self.name, values)
        self._properties = None

    def learn(self, properties: Mapping[str, str]) -> None:
        """Cache properties that were written."""
        self._properties = self._properties or read(properties)

    def forget(self) -> None:
        """Read everything again, since another writer may have changed the table."""
        self._schema = self._properties = None

    def make_fit(
        self, spark: SparkSession, fields: Sequence[StructField], settings: TableSettings | None = None
    ) -> None:
        """Create the table, or add missing columns and widen types."""
        from pyspark.sql.types import StructType

        known = {one.name.lower(): one.dataType for one in self.schema(spark) or ()}
        if all(known.get(one.name.lower()) == one.dataType for one in fields):
            return
        columns = StructType(list(fields))
        self._schema = None
        create_or_evolve(spark, self.name, columns, settings=settings, in_tasks=self._in_tasks)
        if not known:  # the table is new
            self._schema = columns
