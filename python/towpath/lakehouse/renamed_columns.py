"""Columns that statements renamed: messages of before the statement have their former names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from towpath.lakehouse.declarations import Declaration
from towpath.lakehouse.tables import widened

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class RenamedColumns:
    """The columns of a table that have other names now."""

    now: Mapping[str, str] = field(default_factory=dict)
    """Their names of now, by their former names in lower case. Empty: the name of now is not known."""
    existing: Collection[str] = ()
    """The columns of the target in lower case; none if there is no target."""
    dropped: Collection[str] = ()
    """The columns that the source dropped, in lower case."""

    @property
    def aliases(self) -> dict[str, str]:
        """The former names by which a decoder may read columns, with their names of now."""
        return {former: now for former, now in self.now.items() if now and former not in self.existing}

    def aliases_of(self, columns: Iterable[str]) -> dict[str, str]:
        """The former names of some columns."""
        names = {name.lower(): name for name in columns}
        found = ((former, names.get(now.lower())) for former, now in self.aliases.items() if former not in names)
        return {former: now for former, now in found if now is not None}

    def unreadable(self, names: Iterable[str]) -> list[str]:
        """The former names in a declaration whose values could not be attributed to the right column.

        A name that another column got since then is read as that column, unless its row lacks the renamed one.
        """
        found, aliases = {name.lower() for name in names}, self.aliases
        former = (one for one in self.now if one in found and one not in aliases)
        return sorted(one for one in former if not self._is_of_now(one, found))

    def _is_of_now(self, former: str, declared: Collection[str]) -> bool:
        """Whether a name is that of a column of now: the driver may also have ended before that was renamed."""
        now = self.now[former].lower()
        return former in self.existing and (now not in self.existing or now in declared or now in self.dropped)

    def columns(self, target: str, declared: StructType) -> StructType:
        """The declared columns by their names of now.

        Raises:
            ValueError: No type can store the values of both names.
        """
        from pyspark.sql.types import StructField, StructType

        aliases = self.aliases
        of_now = [one for one in declared if one.name.lower() not in aliases]
        former = (one for one in declared if one.name.lower() in aliases)
        found = StructType([StructField(aliases[one.name.lower()], one.dataType) for one in former])
        by_name = {one.name.lower(): one for one in widened(target, StructType(of_now), found)}
        same = [by_name.pop(one.name.lower(), one) for one in of_now]
        return StructType([*same, *by_name.values()])

    def declarations(self, declared: Iterable[Declaration]) -> tuple[Declaration, ...]:
        """The declarations with the key's columns by their names of now."""
        aliases = self.aliases
        return tuple(
            replace(one, key=tuple(aliases.get(name.lower(), name) for name in one.key)) if aliases else one
            for one in declared
        )
