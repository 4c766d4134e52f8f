"""Which tables share a target. Its rows do not say which of them they belong to, so none can be emptied alone."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from towpath.lakehouse.target_properties import SHARDS, SOURCE
from towpath.lakehouse.targets import source_name

_SHOWN = 3


@dataclass(frozen=True)
class Sharing:
    """What a table shares its target with."""

    others: tuple[str, ...] = ()
    """The other tables that have, or had, rows in it."""
    is_new: bool = False
    """Whether the target is known to be of other tables only."""

    def __bool__(self) -> bool:
        return bool(self.others)

    def __str__(self) -> str:
        """Why a target is stale of which a statement empties one table."""
        return f"its rows stay, since they do not say which table they are of: the target is shared with {self.names}"

    def without(self, names: Collection[str]) -> Sharing:
        """The same without some of the other tables."""
        return replace(self, others=tuple(one for one in self.others if one not in names))

    @property
    def names(self) -> str:
        """The first of the other tables, and how many more there are."""
        more = len(self.others) - _SHOWN
        return ", ".join(self.others[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


class Shards:
    """The tables of each target, as far as a query has seen them, or the target's properties name them."""

    def __init__(self) -> None:
        """Know no table."""
        self._known: dict[str, set[str]] = {}
        self._of_batch: dict[str, dict[str, tuple[str, str]]] = {}

    def begin(self, tables: Iterable[tuple[str, str, str]]) -> None:
        """See the tables of a batch: databases, names, targets."""
        self._of_batch = {}
        for database, name, target in tables:
            self._of_batch.setdefault(target, {})[source_name(database, name)] = (database, name)

    def sharing(
        self, name: tuple[str, str], target: str, properties: Mapping[str, str], also: Iterable[tuple[str, str]] = ()
    ) -> Sharing:
        """What a table shares its target with.

        Args:
            name: The table's database and name.
            target: The target.
            properties: The target's.
            also: Tables of the target as `status` says, in case that the target does not: former versions named none.
        """
        # The second one is of former versions.
        own = {source_name(*name).lower(), f"{name[0] or None}.{name[1]}".lower()}
        known = self._before(target, properties, also)
        others = {one for one in known | set(self._of_batch.get(target, ())) if one.lower() not in own}
        return Sharing(tuple(sorted(others)), is_new=bool(known) and own.isdisjoint(map(str.lower, known)))

    def _before(self, target: str, properties: Mapping[str, str], also: Iterable[tuple[str, str]]) -> set[str]:
        """The tables of a target that were known before the batch."""
        named = () if SHARDS in properties else also
        return self._known.get(target, set()) | shards_of(properties) | {source_name(*one) for one in named}

    def rename(self, old: str, new: str, target: str, properties: Mapping[str, str]) -> dict[str, str]:
        """A table has another name. Returns the properties of its target that change."""
        self._known[target] = {new if one == old else one for one in self._known.get(target, ())}
        named = {new, *_listed(properties)} - {old}
        return {SHARDS: _text(named), SOURCE: new if properties.get(SOURCE) == old else properties.get(SOURCE, new)}

    def of_batch(self, target: str) -> list[tuple[str, str]]:
        """The tables of the batch with this target."""
        return list(self._of_batch.get(target, {}).values())

    def unlisted(self) -> list[str]:
        """The targets of the batch with tables that were not known before it."""
        return [
            target for target, names in self._of_batch.items() if not names.keys() <= self._known.get(target, set())
        ]

    def joining(
        self, target: str, properties: Mapping[str, str], also: Iterable[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """The tables of the batch that a target does not have yet, if it has others. Arguments as of `sharing`."""
        of_batch = self._of_batch.get(target, {}).values()
        return [one for one in of_batch if self.sharing(one, target, properties, also).is_new]

    def remember(self, target: str, properties: Mapping[str, str]) -> dict[str, str]:
        """The tables of the batch are known from now on. Returns the property that names them, if it has to change."""
        known = self._known[target] = self._known.get(target, set()) | set(self._of_batch.get(target, ()))
        found = known | shards_of(properties)
        return {SHARDS: _text(found)} if len(found) > 1 and found != set(_listed(properties)) else {}


def shards_of(properties: Mapping[str, str]) -> set[str]:
    """The tables that the properties of a target name, by `source_name`."""
    source = properties.get(SOURCE)
    return {*_listed(properties), *([source] if source else [])}


def _listed(properties: Mapping[str, str]) -> list[str]:
    found: list[str] = json.loads(properties.get(SHARDS, "[]"))
    return found


def _text(names: Iterable[str]) -> str:
    return json.dumps(sorted(names), ensure_ascii=False)
