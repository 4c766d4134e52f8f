"""The schema of a table that only this query changes, which is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.lakehouse.tables.tables import TableSettings, create_or_evolve, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField, StructType


class KnownSchema:
    """The schema of a table, as long as it is not forgotten."""

    def __init__(self, name: str) -> None:
        """`name`: the name or the path of the table."""
        self._name = name
        self._schema: StructType | None = None

    def read(self, spark: SparkSession) -> StructType | None:
        """The schema; None if the table does not exist."""
        if self._schema is None:
            self._schema = schema_of(spark, self._name)
        return self._schema

    def forget(self) -> None:
        """Read it again, since somebody else may have changed the table."""
        self._schema = None

    def make_fit(
        self, spark: SparkSession, fields: Sequence[StructField], settings: TableSettings | None = None
    ) -> None:
        """Create the table, or add columns to it, unless it has all of them with their types."""
        from pyspark.sql.types import StructType

        known = {one.name.lower(): one.dataType for one in self.read(spark) or ()}
        if all(known.get(one.name.lower()) == one.dataType for one in fields):
            return
        columns = StructType(list(fields))
        self.forget()
        create_or_evolve(spark, self._name, columns, settings=settings)
        if not known:  # it is new
            self._schema = columns
