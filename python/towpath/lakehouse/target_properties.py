"""What the properties of a target say of its source table: what statements did to it, and its key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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
"""The place of the last statement of each partition that was followed, and of each table if tables share the target."""

DROPPED_AT = "towpath.dropped"
"""The place of the statement that dropped the source's table, or `NOT_DROPPED`, or `DROPPED_SOMEWHERE`."""

DROPPED_TABLES = "towpath.dropped_tables"
"""The places of such statements by `source_name`: shards of a table share a target."""

SHARDS = "towpath.shards"
"""The tables that share a target by `source_name`, if there are several."""

NOT_DROPPED, DROPPED_SOMEWHERE = "false", "true"
"""The table is not dropped; it is, as former versions said it."""

DROPPED_COLUMNS = "towpath.dropped_columns"
"""Columns that the source dropped, in lower case."""

RENAMED = "towpath.renamed"
"""The names that columns got, by their former names in lower case."""

MODIFIED = "towpath.modified"
"""The types that statements gave to columns, by their names in lower case."""

PARTIAL = "towpath.partial"
"""`true` if rows may have got updates of some of their columns only."""

MOVED = "towpath.moved"
"""The table that got the rows by the last RENAME TABLE, and the place of that statement."""

GIVEN = "towpath.given"
"""The place of the last RENAME TABLE that gave the target its rows."""

NOTHING_FOLLOWED = {
    FOLLOWED: "[]",
    DROPPED_AT: NOT_DROPPED,
    DROPPED_TABLES: "{}",
    DROPPED_COLUMNS: "[]",
    RENAMED: "{}",
    MODIFIED: "{}",
    MOVED: "",
    GIVEN: "",
    SHARDS: "[]",
    PARTIAL: "false",
    **additions_property([]),
}
"""What a target says that has followed no statement."""


def stored_properties(spark: SparkSession, target: str) -> dict[str, str]:
    """The properties of a target; none if it does not exist."""
    return table_properties(spark, target) if schema_of(spark, target) is not None else {}


def stored_source(spark: SparkSession, target: str) -> str | None:
    """The table that a target was created for; None if there is no target, or if towpath did not create it."""
    return stored_properties(spark, target).get(SOURCE)


def modifications(properties: Mapping[str, str]) -> dict[str, str]:
    """The types that statements gave to columns, by their names in lower case."""
    found: dict[str, str] = json.loads(properties.get(MODIFIED, "{}"))
    return found


def moved_to(properties: Mapping[str, str]) -> tuple[tuple[str, str], Place] | None:
    """The table that got the rows of a target's table by the last RENAME TABLE, and the place of that statement."""
    found = properties.get(MOVED)
    if not found:
        return None
    database, name, *places = json.loads(found)
    place = Place(places[0]) if places else gone_at(properties)  # former versions wrote none
    return None if place is None else ((database, name), place)


def given_at(properties: Mapping[str, str]) -> Place | None:
    """The place of the last RENAME TABLE that gave a target its rows."""
    return Place.parse(properties.get(GIVEN))


def renamed_at(properties: Mapping[str, str]) -> list[Place]:
    """The places of the last RENAME TABLE that gave a target its rows, and of the one that gave them to another one."""
    moved = moved_to(properties)
    return [one for one in (given_at(properties), moved and moved[1]) if one is not None]


def gone_at(properties: Mapping[str, str]) -> Place | None:
    """The place of the statement that dropped or renamed the table of a target, if it is gone."""
    found = properties.get(DROPPED_AT, NOT_DROPPED)
    return None if found in (NOT_DROPPED, DROPPED_SOMEWHERE) else Place.parse(found)


def dropped_tables(properties: Mapping[str, str]) -> dict[str, str]:
    """The places of the statements that dropped tables of a target, by `source_name`."""
    found: dict[str, str] = json.loads(properties.get(DROPPED_TABLES, "{}"))
    return found


def with_place(places: Iterable[Place], place: Place) -> list[Place]:
    """The places that were followed after one more, which replaces that of its partition."""
    return [*(one for one in places if not place.replaces(one)), place]


def followed_property(places: Iterable[Place]) -> dict[str, str]:
    """The property of a target that has followed the statements at these places."""
    return {FOLLOWED: json.dumps([dict(one.fields) for one in places])}


def dropped_at(place: Place | None, tables: Mapping[str, str]) -> dict[str, str]:
    """The properties of a target of which these tables are dropped, the last one at a place."""
    text = json.dumps(dict(tables), ensure_ascii=False)
    return {DROPPED_AT: NOT_DROPPED if place is None else str(place), DROPPED_TABLES: text}


def renamed_columns(properties: Mapping[str, str]) -> dict[str, str]:
    """The names that columns got, by their former names in lower case. Former versions remembered the latter only."""
    found = json.loads(properties.get(RENAMED, "{}"))
    return found if isinstance(found, dict) else dict.fromkeys(found, "")


def with_renamed(renamed: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The names that columns got, after one got another name, which is not a former name any more."""
    others = {former: new if now.lower() == old.lower() else now for former, now in renamed.items()}
    return {former: now for former, now in {**others, old.lower(): new}.items() if former != new.lower()}


def without_added(renamed: Mapping[str, str], added: Iterable[str]) -> dict[str, str]:
    """The names that columns got, after columns were added: of a name that one of them has, that is the column now."""
    lower = {name.lower() for name in added}
    return {former: "" if now.lower() in lower else now for former, now in renamed.items() if former not in lower}


def dropped_columns(properties: Mapping[str, str]) -> list[str]:
    """Columns that the source dropped, in lower case."""
    return [name.lower() for name in json.loads(properties.get(DROPPED_COLUMNS, "[]"))]
