"""What the properties of a target say of its source table: what statements did to it, and its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from towpath.lakehouse.additions import additions_property
from towpath.lakehouse.ordered_statements import Place
from towpath.lakehouse.tables import schema_of, table_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = "towpath.source"
"""The table that a target was created for."""

KEY = "towpath.key"
"""The columns of the key."""

FOLLOWED = "towpath.ddl"
"""The place of the last statement of each partition that was followed."""

DROPPED_AT = "towpath.dropped"
"""The place of the statement that dropped the source's table, or `NOT_DROPPED`, or `DROPPED_SOMEWHERE`."""

DROPPED_TABLE = "towpath.dropped_table"
"""The `source_name` of that table: shards of a table share a target."""

NOT_DROPPED, DROPPED_SOMEWHERE = "false", "true"
"""The table is not dropped; it is, as former versions said it."""

DROPPED_COLUMNS = "towpath.dropped_columns"
"""Columns that the source dropped, in lower case."""

RENAMED = "towpath.renamed"
"""Former names of columns that were renamed, in lower case."""

MODIFIED = "towpath.modified"
"""The types that statements gave to columns, by their names in lower case."""

MOVED = "towpath.moved"
"""The table that has the rows since a RENAME TABLE."""

NOTHING_FOLLOWED = {
    FOLLOWED: "[]",
    DROPPED_AT: NOT_DROPPED,
    DROPPED_TABLE: "",
    DROPPED_COLUMNS: "[]",
    RENAMED: "[]",
    MODIFIED: "{}",
    MOVED: "",
    **additions_property([]),
}
"""What a target says that has followed no statement."""


def stored_source(spark: SparkSession, target: str) -> str | None:
    """The table that a target was created for; None if there is no target, or if towpath did not create it."""
    return table_properties(spark, target).get(SOURCE) if schema_of(spark, target) is not None else None


def modifications(properties: Mapping[str, str]) -> dict[str, str]:
    """The types that statements gave to columns, by their names in lower case."""
    found: dict[str, str] = json.loads(properties.get(MODIFIED, "{}"))
    return found


def moved_to(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """The table that has the rows of a target's table since a RENAME TABLE, until one is created under the old name."""
    found = properties.get(MOVED)
    return tuple(json.loads(found)) if found else None


def gone_at(properties: Mapping[str, str]) -> Place | None:
    """The place of the statement that dropped or renamed the table of a target, if it is gone."""
    found = properties.get(DROPPED_AT, NOT_DROPPED)
    return None if found in (NOT_DROPPED, DROPPED_SOMEWHERE) else Place.parse(found)


def renamed_columns(properties: Mapping[str, str]) -> set[str]:
    """Former names of columns that were renamed, in lower case."""
    return set(json.loads(properties.get(RENAMED, "[]")))


def dropped_columns(properties: Mapping[str, str]) -> list[str]:
    """Columns that the source dropped, in lower case."""
    return [name.lower() for name in json.loads(properties.get(DROPPED_COLUMNS, "[]"))]
