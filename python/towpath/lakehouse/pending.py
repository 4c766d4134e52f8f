"""What statements did to tables that have no target yet, for rows that are older and are read later.

A statement that is read before the first row of its table has no target to change. Rows of other partitions may be
older than it nevertheless. So it is remembered until the target is created: in a table beside `status`, if there is
one, else in the driver's memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from towpath.lakehouse.additions import ADDED, Addition, additions_property, read_additions
from towpath.lakehouse.ordered_statements import Place
from towpath.lakehouse.sql import Sql, merge
from towpath.lakehouse.sql import table as sql_table
from towpath.lakehouse.tables import create_or_evolve, schema_of, temporary_view
from towpath.lakehouse.target_properties import MODIFIED, RENAMED, with_renamed, without_added
from towpath.lakehouse.targets import suffixed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

Name = tuple[str, str]

_MOST_TABLES, _MOST_PLACES = 10_000, 16

_COLUMNS = "database string, `table` string, changes string"


@dataclass
class PendingChanges:
    """What statements did to one table."""

    emptied: list[Place] = field(default_factory=list)
    """Where the table was truncated or dropped, the last places."""
    additions: list[Addition] = field(default_factory=list)
    """Columns that were added with a value."""
    fields: list[StructField] = field(default_factory=list)
    """These columns with their types."""
    renamed: dict[str, str] = field(default_factory=dict)
    """The names that columns got, by their former names in lower case."""
    modified: dict[str, str] = field(default_factory=dict)
    """The types that columns got, by their names in lower case."""
    lacks: str = ""
    """Why a target that is created does not have all rows of the table."""

    @property
    def places(self) -> list[Place]:
        """Of the statements that matter to older rows."""
        return [*self.emptied, *(one.place for one in self.additions)]

    def __str__(self) -> str:
        values = {
            "emptied": [dict(one.fields) for one in self.emptied],
            "fields": [one.jsonValue() for one in self.fields],
            "names": self.renamed,
            "modified": self.modified,
            "lacks": self.lacks,
            **additions_property(self.additions),
        }
        return json.dumps(values, ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> PendingChanges:
        """From the text of the table."""
        from pyspark.sql.types import StructField

        found = json.loads(text)
        fields = [StructField.fromJson(one) for one in found["fields"]]
        additions = read_additions({ADDED: found[ADDED]})
        emptied = [Place(one) for one in found["emptied"]]
        # Former versions remembered only the former names.
        renamed = found.get("names", dict.fromkeys(found.get("renamed", ()), ""))
        return cls(emptied, additions, fields, renamed, found.get("modified", {}), found.get("lacks", ""))

    def properties(self) -> dict[str, str]:
        """What the target remembers of them from its creation on."""
        values = {RENAMED: self.renamed, MODIFIED: self.modified}
        texts = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items() if value}
        return texts | (additions_property(self.additions) if self.additions else {})


class Pending:
    """The changes by table, those of the tables that were named last."""

    def __init__(self, status: str | None = None) -> None:
        """`status`: the table of states, if there is one."""
        self.table: str | None = suffixed(status, "_pending") if status else None
        """Where they are remembered."""
        self._changes: dict[Name, PendingChanges] = {}
        self._changed: set[Name] = set()
        self._is_read = self.table is None

    def read(self, spark: SparkSession) -> None:
        """Read what earlier runs have remembered, once."""
        if self._is_read or self.table is None:
            return
        if schema_of(spark, self.table) is not None:
            rows = spark.read.table(sql_table(self.table)).collect()
            self._changes |= {(row["database"], row["table"]): PendingChanges.parse(row["changes"]) for row in rows}
        self._is_read = True

    def write(self, spark: SparkSession) -> None:
        """Write what has changed since the last time."""
        if self.table is None or not self._changed:
            return
        rows = [(*name, str(self._changes[name]) if name in self._changes else None) for name in self._changed]
        frame = spark.createDataFrame(rows, _COLUMNS)
        create_or_evolve(spark, self.table, frame.schema)
        with temporary_view(frame) as view:
            merge(
                spark,
                self.table,
                view,
                Sql("t.database = s.database AND t.`table` = s.`table`"),
                Sql("WHEN MATCHED AND s.changes IS NULL THEN DELETE"),
                Sql("WHEN MATCHED THEN UPDATE SET t.changes = s.changes"),
                Sql("WHEN NOT MATCHED AND s.changes IS NOT NULL THEN INSERT *"),
            )
        self._changed.clear()

    def of(self, name: Name) -> PendingChanges:
        """The changes of a table."""
        return self._changes.get(name, PendingChanges())

    def forget(self, name: Name) -> None:
        """A table has a target now, which remembers what is done to it."""
        if self._changes.pop(name, None):
            self._changed.add(name)

    def empty(self, name: Name, place: Place) -> None:
        """Remember that a table was truncated or dropped. Its former columns are of older rows only."""
        known = [one for one in self.of(name).emptied if not one.repeats(place)]
        self._keep(name, PendingChanges([*known, place][-_MOST_PLACES:]))

    def put_away(self, spark: SparkSession, name: Name, former: Name) -> None:
        """Remember that a table was renamed whose rows are in no target: another table got its former name."""
        self.read(spark)
        lacks = f"renamed from {'.'.join(former)}, whose target has the rows of another table now"
        self._keep(name, replace(self.of(name), lacks=lacks))

    def add(self, name: Name, names: Iterable[str], added: Iterable[tuple[Addition, StructField]]) -> None:
        """Remember columns that were added.

        Args:
            name: The table.
            names: The columns.
            added: Those of them that older rows get a value in.
        """
        changes = self.of(name)
        changes = replace(changes, renamed=without_added(changes.renamed, names))
        for addition, column in added:
            lower = addition.name.lower()
            others = [one for one in changes.additions if one.name.lower() != lower]
            fields = [one for one in changes.fields if one.name.lower() != lower]
            changes = replace(
                changes,
                additions=[*others, addition],
                fields=[*fields, column],
                modified=_without(changes.modified, lower),
            )
        self._keep(name, changes)

    def rename(self, name: Name, old: str, new: str) -> None:
        """Remember that a column has another name."""
        known = self.of(name)
        # A column that had the new name was dropped before.
        additions = [one for one in known.additions if one.name.lower() != new.lower()]
        fields = [one for one in known.fields if one.name.lower() != new.lower()]
        changes = replace(
            known,
            renamed=with_renamed(known.renamed, old, new),
            additions=[one.renamed(old, new) for one in additions],
            fields=[_with_name(one, new) if one.name.lower() == old.lower() else one for one in fields],
            modified={new.lower() if one == old.lower() else one: kind for one, kind in known.modified.items()},
        )
        self._keep(name, changes)

    def modify(self, name: Name, column: str, kind: str) -> None:
        """Remember that a column has another type."""
        known = self.of(name)
        self._keep(name, replace(known, modified={**known.modified, column.lower(): kind}))

    def _keep(self, name: Name, changes: PendingChanges) -> None:
        self._changes.pop(name, None)
        self._changes[name] = changes
        self._changed.add(name)
        if len(self._changes) > _MOST_TABLES:
            first = next(iter(self._changes))
            del self._changes[first]
            self._changed.add(first)


def _with_name(column: StructField, name: str) -> StructField:
    from pyspark.sql.types import StructField

    return StructField(name, column.dataType, column.nullable, column.metadata)


def _without(values: dict[str, str], name: str) -> dict[str, str]:
    return {one: value for one, value in values.items() if one != name}
