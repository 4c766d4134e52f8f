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
    """Their current names, by their former names in lower case. Empty: the current name is not known."""
    existing: Collection[str] = ()
    """The columns of the table, as far as they are known, in lower case."""

    @property
    def aliases(self) -> dict[str, str]:
        """The former names that are no column now, with the current names."""
        return {former: now for former, now in self.now.items() if now and former not in self.existing}

    def aliases_of(self, columns: Iterable[str]) -> dict[str, str]:
        """The former names of some columns."""
        names = {name.lower(): name for name in columns}
        found = ((former, names.get(now.lower())) for former, now in self.aliases.items() if former not in names)
        return {former: now for former, now in found if now is not None}

    def unreadable(self, names: Iterable[str]) -> list[str]:
        """The former names in a declaration of which the current column is not known.

        One that has both names is of before the current one was free, or of after the former one was given again.
        """
        found = {name.lower() for name in names}
        former = (one for one in self.now if one in found and one not in self.existing)
        return sorted(one for one in former if not self.now[one] or self.now[one].lower() in found)

    def columns(self, target: str, declared: StructType) -> StructType:
        """The declared columns by their current names.

        Raises:
            ValueError: No type can store the values of both names.
        """
        from pyspark.sql.types import StructField, StructType

        aliases, found = self.aliases, StructType()
        if not aliases:
            return declared
        for one in declared:
            name = aliases.get(one.name.lower(), one.name)
            [wide] = widened(target, found, StructType([StructField(name, one.dataType)]))
            others = [other for other in found if other.name.lower() != name.lower()]
            found = StructType([*others, wide])
        return found

    def key(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns of a key by their current names."""
        aliases = self.aliases
        return tuple(aliases.get(name.lower(), name) for name in names)

    def declarations(self, declared: Iterable[Declaration]) -> tuple[Declaration, ...]:
        """The declarations with the key's columns by their current names."""
        return tuple(replace(one, key=self.key(one.key)) for one in declared)
