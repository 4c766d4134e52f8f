"""Which tables share a target. Its rows do not say which of them they belong to, so none can be emptied alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from towpath.lakehouse.source_tables import SourceTable
from towpath.lakehouse.target_properties import SHARDS, SOURCE, dropped_tables
from towpath.lakehouse.targets import Targets, source_name


@dataclass(frozen=True)
class Sharing:
    """What a table shares its target with."""

    others: tuple[str, ...] = ()
    """The other tables that have rows in it: not those that were dropped."""
    is_new: bool = False
    """Whether nothing is known of rows of the table itself."""

    def __bool__(self) -> bool:
        return bool(self.others)

    def __str__(self) -> str:
        """Why a target is stale of which a statement empties one table."""
        return (
            f"its rows stay: {', '.join(self.others)} share the target, whose rows do not say which table they are of"
        )


class Shards:
    """The tables of each target, as far as a query has seen them, or the target's properties name them."""

    def __init__(self, targets: Targets) -> None:
        """Know no table."""
        self._targets = targets
        self.may_share = targets.may_share
        """Whether tables can have the same target."""
        self._found: dict[str, set[str]] = {}
        self.changed: set[str] = set()
        """The targets of tables that were seen since their properties were written."""

    def meet(self, tables: Iterable[SourceTable]) -> None:
        """See the tables of a batch."""
        for one in tables if self.may_share else ():
            try:
                target = self._targets(one.database, one.name)
            except Exception:  # it is raised again where the table is applied
                continue
            name, found = source_name(one.database, one.name), self._found.setdefault(target or "", set())
            if target is not None and name not in found:
                found.add(name)
                self.changed.add(target)

    def sharing(self, name: tuple[str, str], target: str, properties: Mapping[str, str]) -> Sharing:
        """The other tables in the target of a table. `properties`: the target's."""
        if not self.may_share:
            return Sharing()
        own, known = source_name(*name).lower(), self._known(target, properties)
        others = (one for one in known - dropped_tables(properties).keys() if one.lower() != own)
        return Sharing(tuple(sorted(others)), is_new=own not in map(str.lower, known))

    def unwritten(self, target: str, properties: Mapping[str, str]) -> dict[str, str]:
        """The property of a target that names its tables, if there are several, and it does not name them all."""
        found, written = self._known(target, properties), set(_written(properties))
        if len(found) < 2 or found == written:
            return {}
        return {SHARDS: json.dumps(sorted(found), ensure_ascii=False)}

    def _known(self, target: str, properties: Mapping[str, str]) -> set[str]:
        source = properties.get(SOURCE)
        return {*self._found.get(target, ()), *_written(properties), *([source] if source else [])}


def _written(properties: Mapping[str, str]) -> list[str]:
    found: list[str] = json.loads(properties.get(SHARDS, "[]"))
    return found
