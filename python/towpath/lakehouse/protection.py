"""Keeps columns that are excluded or masked out of the targets of renamed tables and columns, and of copies.

A rule names a table and a column, and both names change: an online migration writes the rows of `users` to `_users_gho`
and renames this table, and a statement renames the column. So a table has the rules of its name, of the table that it
is a copy of, and of its former names. If a column has lost its rule by a statement, no row is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import TypeVar

from towpath.lakehouse.column_rules import ColumnRules
from towpath.lakehouse.schemas import without_schema
from towpath.lakehouse.statements import Action, ChangeColumn, CreateTable, DropColumn, RenameColumn
from towpath.lakehouse.targets import joined_name, split_name

Name = tuple[str, str]
"""Database and table."""

RULES = "towpath.rules"
"""The property of a target with its `RuleState`."""

_ALL_COLUMNS = ColumnRules()

# gh-ost: _x_gho, _x_ghc, _x_del, _x_20240131235959_del. pt-online-schema-change: _x_new, _x_old, with more underscores
# if these exist. A name that would be too long is that of a shortened x.
_SUFFIX = "(?:gho|ghc|del|new|old)"
_COPY = re.compile(rf"(_+)(.+?)(_\d{{14}})?_{_SUFFIX}")
_LONGEST = 64


def originals(table: str) -> list[str]:
    """The names of tables that an online migration copies under this name."""
    found = _COPY.fullmatch(table)
    if found is None:
        return []
    underscores, name, time = found.groups()
    names = [f"{name}{time}", name] if time else [name]
    return ["_" * count + one for count in range(len(underscores)) for one in names]


def is_cut(table: str) -> bool:
    """Whether a name may have been shortened. Servers count characters, and gh-ost bytes."""
    return _LONGEST in (len(table), len(table.encode()))


def is_copy(table: str, original: str) -> bool:
    """Whether a name is that of a copy of a table."""
    found = originals(table)
    return original in found or (is_cut(table) and any(original.startswith(one) for one in found))


_Rule = TypeVar("_Rule")


def rule_of(rules: Mapping[str, _Rule], database: str | None, table: str) -> _Rule | None:
    """What an argument such as `keys` says about a table: of its name, or else of the table that it is a copy of.

    Or else of its name without a schema.
    """
    name = f"{database or None}.{table}"
    if name in rules:
        return rules[name]
    return next((rules[key] for key in _of_other_names(tuple(rules), database, table)), None)


@lru_cache(4096)
def _of_other_names(keys: tuple[str, ...], database: str | None, table: str) -> list[str]:
    """The keys that are names of originals, and of the table without its schema: a mask holds in each schema."""
    plain = (f"{database or None}.{name}" for name in without_schema(table))
    return [*_of_original(keys, database, table), *(key for key in plain if key in keys)]


@lru_cache(4096)
def _of_original(keys: tuple[str, ...], database: str | None, table: str) -> list[str]:
    """The keys that are names of tables of which this one is a copy, the longest first."""
    prefix = f"{database or None}."
    found = [key for key in keys if key.startswith(prefix) and is_copy(table, key[len(prefix) :])]
    return sorted(found, key=len, reverse=True)


def rules_of(columns: Mapping[str, ColumnRules], database: str | None, table: str) -> ColumnRules:
    """All rules for the columns of a table that its name says."""
    return reduce(ColumnRules.and_those, _all_of(columns, database, table), _ALL_COLUMNS)


def _all_of(columns: Mapping[str, ColumnRules], database: str | None, table: str) -> Iterator[ColumnRules]:
    exact = f"{database or None}.{table}"
    keys = ([exact] if exact in columns else []) + _of_other_names(tuple(columns), database, table)
    return (columns[key] for key in keys)


@dataclass(frozen=True)
class RuleState:
    """What is remembered of a table for its rules. Names of columns are in lower case."""

    former: tuple[str, ...] = ()
    """Names "database.table" that the table had before."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The former name of each column that was renamed."""
    seen: frozenset[str] = frozenset()
    """Columns with a rule that messages declared."""

    @classmethod
    def parse(cls, text: str | None) -> RuleState:
        """From the text of a table's property."""
        found = json.loads(text or "{}")
        return cls(tuple(found.get("former", ())), found.get("renamed", {}), frozenset(found.get("seen", ())))

    def __str__(self) -> str:
        values = {"former": list(self.former), "renamed": dict(self.renamed), "seen": sorted(self.seen)}
        return json.dumps({name: value for name, value in values.items() if value}, ensure_ascii=False)

    def with_renamed(self, old: str, new: str) -> RuleState:
        """After a column was renamed."""
        old, new = old.lower(), new.lower()
        first = self.renamed.get(old, old)
        others = {now: former for now, former in self.renamed.items() if now not in (old, new)}
        renamed = others if first == new else {**others, new: first}
        return replace(self, renamed=renamed, seen=self.seen - {old})

    def without(self, name: str) -> RuleState:
        """After a column was dropped."""
        renamed = {now: former for now, former in self.renamed.items() if now != name.lower()}
        return replace(self, renamed=renamed, seen=self.seen - {name.lower()})


_NOTHING = RuleState()


@dataclass(frozen=True)
class Protection:
    """The rules for the columns of all tables.

    Args:
        columns: The argument `columns` of `replicate`.
        target: The target of a table; None if it has none.
        properties: The properties of a target; None if it does not exist.
        write: Sets a property of a target that exists.
        memory: What is remembered of tables without a target, until they have one.
        columns_of: The columns of a target; None if it does not exist.
        tables: The tables that are known.
        own: Columns of targets that are not columns of their tables, in lower case.
        of_log: Returns the former names and renamed columns of a table, from the log.
    """

    columns: Mapping[str, ColumnRules]
    target: Callable[[str, str], str | None]
    properties: Callable[[str], Mapping[str, str] | None]
    write: Callable[[str, Mapping[str, str]], None]
    memory: dict[Name, RuleState]
    columns_of: Callable[[str], Collection[str] | None]
    tables: Callable[[], Collection[Name]] = tuple
    own: frozenset[str] = frozenset()
    of_log: Callable[[Name], RuleState] = lambda _: RuleState()

    def rules(self, database: str | None, table: str) -> ColumnRules:
        """The rules for the columns of a table."""
        return self.rules_with((database or "", table), self.state(database, table)) if self.columns else _ALL_COLUMNS

    def rules_with(self, name: Name, state: RuleState) -> ColumnRules:
        """The rules for the columns of a table of which this is remembered."""
        names = (name, *map(split_name, state.former))
        return reduce(ColumnRules.and_those, (rules_of(self.columns, *one) for one in names), _ALL_COLUMNS)

    def _of_name(self, database: str, table: str) -> Iterator[ColumnRules]:
        return _all_of(self.columns, database, table)

    def state(self, database: str | None, table: str) -> RuleState:
        """What is remembered of a table, or of the table that it is a copy of."""
        if not self.columns:
            return _NOTHING
        states = map(self._own_state, self._with_originals(database, table))
        return next((one for one in states if one != _NOTHING), _NOTHING)

    def _with_originals(self, database: str | None, table: str) -> list[Name]:
        """A table, and those that may be copied under its name, also if their names were shortened for it."""
        prefix = f"{database or None}."
        ruled = (key[len(prefix) :] for key in _of_original(tuple(self.columns), database, table))
        known = self.tables() if is_cut(table) and originals(table) else ()
        copied = (one for of, one in known if of == (database or "") and is_copy(table, one))
        return [(database or "", one) for one in dict.fromkeys([table, *originals(table), *ruled, *copied])]

    def _own_state(self, name: Name) -> RuleState:
        """Return the stored state of a table, with the names in the log."""
        stored, known = self._stored_state(name), self.of_log(name)
        former = tuple(dict.fromkeys([*stored.former, *self._former(known.former, name)]))
        return RuleState(former, {**known.renamed, **stored.renamed}, stored.seen)

    def _stored_state(self, name: Name) -> RuleState:
        properties = self._properties(name)
        return self.memory.get(name, _NOTHING) if properties is None else RuleState.parse(properties.get(RULES))

    def _target(self, name: Name) -> str | None:
        try:
            return self.target(*name)
        except ValueError:  # the template needs something that a statement does not say
            return None

    def _properties(self, name: Name) -> Mapping[str, str] | None:
        target = self._target(name)
        return self.properties(target) if target is not None else None

    def remember(self, database: str | None, table: str, state: RuleState) -> None:
        """Remember something of a table."""
        name = (database or "", table)
        if not self.columns or state == self._stored_state(name):
            return
        target = self._target(name)
        if target is None or self.properties(target) is None:
            self.memory[name] = state
        else:
            self.write(target, {RULES: str(state)})

    def follow(self, action: Action, name: Name) -> None:
        """Remember what a statement does to the names of a table's columns."""
        if not self.columns:
            return
        if isinstance(action, CreateTable):
            if not action.if_not_exists and self._properties(name) is None:
                self.memory.pop(name, None)
        elif isinstance(action, RenameColumn):
            self.remember(*name, self.state(*name).with_renamed(action.old, action.new))
        elif isinstance(action, ChangeColumn) and action.old.lower() != action.column.name.lower():
            self.remember(*name, self.state(*name).with_renamed(action.old, action.column.name))
        elif isinstance(action, DropColumn):
            self.remember(*name, self.state(*name).without(action.name))

    def of_renamed(self, old: Name, new: Name) -> RuleState:
        """What is to be remembered of a table that gets a name."""
        if not self.columns:
            return _NOTHING
        state = self.state(*old)
        lineage = dict.fromkeys([*state.former, joined_name(*old)])
        return replace(state, former=tuple(self._former(lineage, new)))

    def _former(self, names: Iterable[str], name: Name) -> list[str]:
        """Return the former names of a table whose rules its current name lacks."""
        own = set(map(id, self._of_name(*name)))
        return [one for one in names if any(id(rules) not in own for rules in self._of_text(one))]

    def _of_text(self, name: str) -> Iterator[ColumnRules]:
        return self._of_name(*split_name(name))

    def check_renamed(self, database: str | None, table: str) -> None:
        """Refuse the rows of a table with a column that a statement gave a name without its rule.

        Raises:
            ValueError: It has such a column.
        """
        rules = self.rules(database, table)
        for now, former in self.state(database, table).renamed.items():
            if rules.exposes(former, now):
                raise exposed(database, table, former, now)

    def check_declared(self, database: str | None, table: str, declared: Sequence[Collection[str]]) -> None:
        """Refuse messages that declare a new column where they declared one with a rule: it may be that one, renamed.

        Args:
            database: The table's database.
            table: The table's name.
            declared: The columns of each declaration.

        Raises:
            ValueError: They do.
        """
        rules = self.rules(database, table)
        if rules == _ALL_COLUMNS:
            return
        state = self.state(database, table)
        names = [{name.lower() for name in one} for one in declared]
        ruled = frozenset(name for one in names for name in one if not rules.is_plain(name))
        seen = frozenset(name for name in state.seen | ruled if not rules.is_plain(name))
        plain = self._known(database, table) or _complete(names, seen)
        for one in names:
            lost, new = sorted(seen - one), sorted(name for name in one - plain if rules.is_plain(name))
            if lost and new:
                raise ValueError(
                    f"{database}.{table}: the messages declare {', '.join(new)}, and no longer {', '.join(lost)}, "
                    "excluded or masked, of which no DROP COLUMN was read: if it was renamed, give both names the same "
                    "rule in the argument columns, or take the rule away if the values may be read; then apply the "
                    "rows with towpath.spark.reprocess"
                )
        if not ruled <= state.seen:
            self.remember(database, table, replace(state, seen=state.seen | ruled))

    def _known(self, database: str | None, table: str) -> set[str]:
        """The columns of the target, or of that of the table which is copied."""
        targets = map(self._target, self._with_originals(database, table))
        found = (self.columns_of(target) for target in targets if target is not None)
        return {name.lower() for name in next(filter(None, found), ())}


def exposed(database: str | None, table: str, former: str, now: str) -> ValueError:
    """The error of a column that a statement gave a name without its rule."""
    return ValueError(
        f"{database}.{table}: the column {former}, which is excluded or masked, is {now} now: give both names the same "
        "rule in the argument columns, or take the rule away if the values may be read; then apply the rows with "
        "towpath.spark.reprocess"
    )


def _complete(declared: Iterable[set[str]], seen: Collection[str]) -> set[str]:
    """The columns of the declarations that have all columns with a rule."""
    return {name for one in declared if one.issuperset(seen) for name in one}
