"""Finds the rules for a table's columns by all names of the table and of each column in the log.

A rule names a table and a column, but both names may change. An online migration writes the rows of `users` to
`_users_gho` and renames this table; a statement renames the column. All rules of all these names apply together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import TYPE_CHECKING

from towpath.lakehouse.log.statement_log import StatementLog
from towpath.lakehouse.log.timeline import Identity, Name
from towpath.lakehouse.reading.source_tables import SourceTable
from towpath.lakehouse.rules.column_rules import ColumnRules, Rule, TableRules
from towpath.lakehouse.rules.rule_names import is_copy, is_cut, originals, rules_of
from towpath.lakehouse.tables.targets import split_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Protection:
    """Rules for the columns of all tables, from the argument `columns` of `replicate` and the log."""

    spark: SparkSession
    columns: Mapping[str, ColumnRules]
    log: StatementLog
    is_followed: bool = True
    """Whether rows are carried through later statements. Otherwise their columns may be from any time."""

    def of(self, name: Name, cut: int | None = None) -> TableRules:
        """Return the rules of a table at a cut. None means after all statements."""
        return self._found([(name, cut)], lambda column: self._rule(name, column, cut))

    def of_rows(self, table: SourceTable) -> TableRules:
        """Return the rules for rows of a batch, by the current names of their columns.

        They combine the rules for each column at the time of its row with the current rules.
        """
        if not self.columns:
            return TableRules()
        written = self.as_written(table)

        def find(column: str) -> Rule:
            now, source = self._rule(table.key, column, None), table.columns.source(column)
            then = Rule() if source is None else written(source)
            return now.and_that(then)._replace(is_known=then.is_known if table.cuts else now.is_known)

        return self._found([(table.key, None), *self._cuts(table)], find)

    def as_written(self, table: SourceTable) -> Callable[[str], Rule]:
        """Return a function that finds the rule for a column of a batch's rows by its name in the messages."""
        cuts = self._cuts(table) if self.columns else []
        return lambda name: reduce(Rule.and_that, (self._rule(of, name, cut) for of, cut in cuts), Rule())

    def _cuts(self, table: SourceTable) -> list[tuple[Name, int]]:
        """Return the name of a table in its messages with each cut at which the rows may have been written."""
        origin = table.name_key[0] or "", table.name_key[1]
        if table.cuts or self.is_followed:
            return [(origin, cut) for cut in sorted(table.cuts)]
        return [(origin, cut) for cut in range(len(self.log.timeline(self.spark, origin).steps) + 1)]

    def tables(self, name: Name, cut: int | None = None) -> list[Name]:
        """Return the names that a table had, newest first, and the names of tables that it may be a copy of."""
        return list(dict.fromkeys(table for table, _ in self._identity(name, "", cut).names))

    def _found(self, starts: Sequence[tuple[Name, int | None]], find: Callable[[str], Rule]) -> TableRules:
        tables = {table for one in starts for table in self.tables(*one)} if self.columns else ()
        of_rules = [rules.hidden for table in tables for rules in rules_of(self.columns, *table)]
        if not of_rules:
            return TableRules()
        hidden = frozenset().union(*of_rules)
        stated = frozenset(one for one in hidden if self._identity(starts[0][0], one, starts[0][1]).is_added)
        timeline = self.log.timeline(self.spark, starts[0][0])
        columns = timeline.columns(starts[0][0], len(timeline.steps))
        dropped = {name for name, now in columns.names.items() if now is None} - columns.added.keys()
        return TableRules(cache(find), hidden, frozenset(dropped), stated)

    def _rule(self, name: Name, column: str, cut: int | None) -> Rule:
        identity = self._identity(name, column, cut)
        found = [rules.rule(one) for table, one in identity.names for rules in rules_of(self.columns, *table)]
        timeline = self.log.timeline(self.spark, name)
        is_lost = column in timeline.lost(name, len(timeline.steps) if cut is None else cut)
        names = () if is_lost else (one for _, one in identity.names)
        rule = reduce(Rule.and_that, found, Rule(names=frozenset(names)))
        return rule._replace(is_known=identity.is_added or any(one.is_known for one in found))

    def _identity(self, name: Name, column: str, cut: int | None) -> Identity:
        """Return the names of a column, including its names in tables of which its table may be a copy."""
        timeline = self.log.timeline(self.spark, name)
        found = timeline.identity(name, column, len(timeline.steps) if cut is None else cut)
        (database, table), first = found.names[-1]
        for one in self._originals(database, table):
            is_beside = self.log.timeline(self.spark, one) is timeline
            original = self._identity(one, first, found.cut if is_beside else None)
            found = Identity([*found.names, *original.names], found.cut, found.is_added or original.is_added)
        return found

    def _originals(self, database: str, table: str) -> list[Name]:
        """Return the tables that may be copied under a name, even if their names were shortened for it."""
        names = originals(table)
        if names and is_cut(table):
            known = [*self.log.names(self.spark), *map(split_name, self.columns)]
            names += [one for of, one in known if of == database and is_copy(table, one)]
        return [(database, one) for one in dict.fromkeys(names)]
