"""Follows RENAME TABLE: gives a target the rows of another target, or explains why it is stale."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from towpath.lakehouse.following.stored_rows import StoredRows, stored_rows
from towpath.lakehouse.log.ordered_statements import Statement
from towpath.lakehouse.log.timeline import Name
from towpath.lakehouse.merging.rows import key_names
from towpath.lakehouse.rules.column_rules import TableRules
from towpath.lakehouse.seen.status import GONE, OK, RENAMED, STALE, TableStatus, unordered
from towpath.lakehouse.statements import RenameTable
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import column, expressions, sql, string
from towpath.lakehouse.tables.tables import replace_with, schema_of
from towpath.lakehouse.tables.target_properties import KEY, SOURCE, settings_of
from towpath.lakehouse.tables.target_rows import ALL_ROWS, other_rows
from towpath.lakehouse.tables.targets import companion, source_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IGNORED = "ddl_policy is ignore"
UNORDERED = "changes of unknown order relative to the statement were read before it: some rows may be wrong"
_OVERWRITTEN = "changes newer than the statement were read before it: older rows of their keys are lost"


def follow_renames(
    spark: SparkSession, known: KnownTargets, action: RenameTable, statement: Statement
) -> Iterator[TableStatus]:
    """Move rows to the target of their table's new name, as after a migration with gh-ost or pt-osc.

    Args:
        spark: The session.
        known: The targets.
        action: The tables.
        statement: The statement.

    Yields:
        The states of tables.
    """
    origins: dict[Name, Name] = {}
    for pair in action.pairs:
        old, new = map(statement.full_name, pair)
        origins[new] = origins.pop(old, old)
        if old != new:
            yield from _Rename(spark, known, action, statement, old, new, origins[new]).follow()


@dataclass(frozen=True)
class _Rename:
    """Rename of one table to the name of another."""

    spark: SparkSession
    known: KnownTargets
    action: RenameTable
    statement: Statement
    old: Name
    new: Name
    origin: Name
    """Name of the table before the statement."""

    @cached_property
    def source(self) -> str | None:
        """Target of the old name."""
        return self.known.of_names(*self.old)

    @cached_property
    def target(self) -> str | None:
        """Target of the new name."""
        return self.known.of_names(*self.new)

    @cached_property
    def moved(self) -> list[StoredRows]:
        """Rows of the old name, and their tombstones."""
        return list(stored_rows(self.spark, self.known, self.old, self.statement.place))

    @cached_property
    def own(self) -> list[StoredRows]:
        """Existing rows of the new name, and their tombstones."""
        return list(stored_rows(self.spark, self.known, self.new, self.statement.place))

    def follow(self) -> Iterator[TableStatus]:
        """Rename the table."""
        if self.target is None:
            if self.moved:  # its new name is not replicated
                yield from self._leave()
        elif self.source is None:
            yield self._stale(f"{self._from}, which has no target")
        elif self.moved and not self.known.follows:
            yield self._kept()
            yield self._stale(f"{self._from}: {_IGNORED}")
        else:
            yield from self._move(self.target)
            self.known.forget(self.target)
            if self.moved:
                yield from self._leave()
            if self.moved or (self.own and self.known.follows):
                # A change that a stale target lacks may be newer than the rename.
                yield TableStatus(*self.new, None, OK, ends=GONE)

    def _leave(self) -> Iterator[TableStatus]:
        """Delete the rows of a table from a target that other tables share."""
        if not self.known.follows:
            yield self._kept()
            return
        if self.source is not None and self.source != self.target and self._are_others(self.old, self.source):
            self._truncate_once(self.source, self.old)
        yield TableStatus(*self.old, None, RENAMED, f"the table was {self._to}")

    def _truncate_once(self, target: str, name: Name) -> None:
        """Delete the older rows of a table. A repeat would delete rows that the statement has given to its name."""
        log, mark = self.known.log, f"{self._mark} without {source_name(*name)}"
        if not log.has_followed(mark):
            self.known.truncate(self.spark, target, name, self.statement.place)
            log.add_followed(self.spark, [mark])

    @property
    def _mark(self) -> str:
        return f"{source_name(*self.new)} {self.statement.identity}"

    @property
    def _from(self) -> str:
        return f"renamed from {'.'.join(self.old)}"

    @property
    def _to(self) -> str:
        return f"renamed to {'.'.join(self.new)}"

    def _kept(self) -> TableStatus:
        return TableStatus(*self.old, None, STALE, f"{self._to}: {_IGNORED}")

    def _stale(self, reason: str) -> TableStatus:
        return TableStatus(*self.new, None, STALE, reason)

    def _inherited(self) -> str | None:
        """Return why the former target of the rows is stale."""
        reason = self.known.status.reason(self.spark, self.old)
        return reason and f"{self._from}: {reason}"

    def _are_others(self, name: Name, target: str) -> bool:
        """Return whether the target of a table has rows of other tables."""
        own = self.known.rows_of(self.spark, name, target)
        return other_rows(self.spark, own, target, self.known.in_tasks) is not None

    def _move(self, target: str) -> Iterator[TableStatus]:
        """Give a target the rows of another target, once: later statements may give the other one new rows."""
        if not self.known.log.has_followed(self._mark):
            yield from self._give(target) if self.moved else self._empty(target)
            self.known.log.add_followed(self.spark, [self._mark])

    def _empty(self, target: str) -> Iterator[TableStatus]:
        """Rename a table without rows. The older rows of the new name belong to a former table."""
        may_lose = self.own and self.known.follows
        kept = self.known.truncate(self.spark, target, self.new, self.statement.place) if may_lose else 0
        if reason := unordered(kept) if kept else self._inherited():
            yield self._written(reason, target)

    def _give(self, target: str) -> Iterator[TableStatus]:
        """Move the rows."""
        cut = self.known.log.timeline(self.spark, self.new).cut(self.statement, self.action)
        protection = self.known.protection(self.spark)
        former, rules = protection.of(self.origin, cut), protection.of(self.new, cut + 1)
        if reason := self._unlike(former, rules) or self._inherited() or self._why_lost():
            yield self._written(reason, target)
        if self.source == target:
            self._truncate_once(target, self.new)  # rows of a former table
            self._relabel(target)
        else:
            self._copy(target, former, rules)

    def _written(self, reason: str, target: str) -> TableStatus:
        """Write and return the state of a stale target. A repeat does not find the rows that record the reason."""
        self.known.status.write(self.spark, [TableStatus.stale(self.new, target, reason, self.statement.text)])
        return self._stale(reason)

    def _unlike(self, former: TableRules, now: TableRules) -> str | None:
        """Return why a target is stale if the moved rows differ from the rows that its own messages would give."""
        schema = schema_of(self.spark, self.moved[0].target, self.known.in_tasks)
        names = [name for name in schema.names if former.keeps(name)] if schema is not None else []
        if self.source == self.target:  # the rows stay unchanged
            differ = [name for name in names if not now.keeps(name) or now.mask(name) != former.mask(name)]
        else:
            differ = [name for name in names if now.keeps(name) and former.mask(name) not in (None, now.mask(name))]
        return f"older rows follow the rules of {'.'.join(self.old)} for {', '.join(differ)}" if differ else None

    def _why_lost(self) -> str | None:
        """Return why a target is stale if changes that may be newer were applied before the move."""
        # If the statement gives the old name to another table, rows of unknown order may be of that one.
        is_given = any(self.statement.full_name(new) == self.old for _, new in self.action.pairs)
        if any(one.has_unordered() for one in (*self.own, *(self.moved if is_given else ()))):
            return UNORDERED
        return _OVERWRITTEN if any(one.has(one.after) for one in self.moved) else None

    def _relabel(self, target: str) -> None:
        """Give the older rows of a table, and the tombstones of their keys, the new table name."""
        label = source_name(*self.new)
        for one in self.moved:
            if one.order is not None:
                one.update({column("t", one.order, "table"): string(label)}, one.before)
        table = self.known.table(target)
        if table.properties(self.spark).get(SOURCE) == source_name(*self.old):
            table.set_properties(self.spark, {SOURCE: label})

    def _copy(self, target: str, former: TableRules, rules: TableRules) -> None:
        """Copy the rows of another target and their tombstones to a target, as far as the rules of its table allow."""
        [source, *_], label = self.moved, source_name(*self.new)
        kept = settings_of(self.spark, source.target, target)
        keys = json.loads(kept.get(KEY, "[]"))
        rules.check_key(label, keys)
        self._copy_deletes(companion(target, "tombstones"))
        rows = self._labelled(source)
        deleted = (self.known.options.soft_deletes or "").lower()
        own = {name for name in rows.columns if name == source.order or name.lower() == deleted}
        rows = rows.selectExpr(*rules.of_copy(rows.columns, former, own))
        if source.order is not None and self.own and self.own[0].order is not None:
            rows = self._beside(rows, source.order, keys)
            if self._are_others(self.new, target):
                kept = settings_of(self.spark, target, target)
                label = kept.get(SOURCE, "")
        replace_with(self.spark, target, rows, {**kept, SOURCE: label})

    def _copy_deletes(self, target: str) -> None:
        """Keep the deletes of the table whose rows are moved, and the newer deletes of the new name."""
        own, moved = self.own[1:], self.moved[1:]
        if own or moved:
            rows = [*(one.staying() for one in own), *map(self._labelled, moved)]
            settings = settings_of(self.spark, [*own, *moved][0].target, target)
            replace_with(self.spark, target, reduce(_both, rows), settings)

    def _labelled(self, stored: StoredRows) -> DataFrame:
        """Return the rows of the old name except newer ones, labelled with the new name."""
        rows = stored.moving()
        if stored.order is None or stored.own == ALL_ROWS:
            return rows
        label = expressions(self.spark)(string(source_name(*self.new)))
        return rows.withColumn(stored.order, rows[column(stored.order)].withField("table", label))

    def _beside(self, rows: DataFrame, order: str, keys: list[str]) -> DataFrame:
        """Append the rows that the target keeps: rows of other tables, and newer rows. These replace moved rows by key.

        Args:
            rows: Rows that the target gets.
            order: Their column of order values.
            keys: The columns of the key.
        """
        own, *tombstones = self.own
        newer = [own.rows(own.after).select(*map(column, keys))]
        pairs = zip(key_names(keys), keys, strict=True)
        names = [sql("{k} AS {name}", k=column(name), name=column(key)) for name, key in pairs]
        newer += [one.rows(sql("NOT truncated AND {after}", after=one.after)).selectExpr(*names) for one in tombstones]
        for one in newer if keys else ():
            rows = rows.join(one, keys, "left_anti")
        return _both(own.staying().withColumnRenamed(own.order or order, order), rows)


def _both(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)
