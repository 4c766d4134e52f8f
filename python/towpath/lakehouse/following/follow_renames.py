"""Follows RENAME TABLE: gives a target the rows of another one, or says why it is stale."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.lakehouse.log.ordered_statements import Place, Statement
from towpath.lakehouse.log.timeline import Name
from towpath.lakehouse.merging.rows import key_names
from towpath.lakehouse.order.order import is_after, is_before, is_ordered
from towpath.lakehouse.rules.column_rules import TableRules
from towpath.lakehouse.seen.status import GONE, OK, RENAMED, STALE, TableStatus, unordered
from towpath.lakehouse.statements import RenameTable
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import Sql, column, expressions, merge, sql, string, table
from towpath.lakehouse.tables.tables import (
    order_column,
    replace_with,
    schema_of,
    temporary_view,
)
from towpath.lakehouse.tables.target_properties import KEY, SOURCE, settings_of
from towpath.lakehouse.tables.target_rows import ALL_ROWS, has_row, one_row, other_rows
from towpath.lakehouse.tables.targets import companion, source_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IGNORED = "ddl_policy is ignore"
_UNORDERED = "changes that may be older or newer than the statement were read before it: some rows may be wrong"
_OVERWRITTEN = "changes that are newer than the statement were read before it: older rows of their keys are lost"


@dataclass(frozen=True)
class _Stored:
    """The rows of a table in its target, or their tombstones."""

    spark: SparkSession
    target: str
    order: str | None
    """The column of the order values, if there is one."""
    own: Sql
    """A condition for the rows `t` of the table, if others share the target."""

    def newer(self, place: Place) -> Sql:
        """A condition for the rows of the table that are known to be newer than a statement."""
        if self.order is None:
            return Sql("false")
        after = is_after(column("t", self.order), place.literal())
        return sql("({own} AND coalesce({after}, false))", own=self.own, after=after)

    def others(self, place: Place) -> Sql:
        """A condition for all other rows of the table."""
        return sql("({own} AND NOT {newer})", own=self.own, newer=self.newer(place))

    def rows(self, condition: Sql) -> DataFrame:
        """The rows `t` that meet a condition."""
        rows = self.spark.read.table(table(self.target)).alias("t")
        return rows.filter(expressions(self.spark)(condition))

    def moved(self, new: Name, place: Place) -> DataFrame:
        """The rows of the table but the newer ones, which say its new name."""
        rows = self.rows(self.others(place))
        if self.order is None or self.own == ALL_ROWS:
            return rows
        label = rows[column(self.order)].withField("table", expressions(self.spark)(string(source_name(*new))))
        return rows.withColumn(self.order, label)


@dataclass(frozen=True)
class TableRenames:
    """Gives targets the rows of others. The fields are those of `Follower`."""

    spark: SparkSession
    known: KnownTargets

    def follow(self, action: RenameTable, statement: Statement) -> Iterator[TableStatus]:
        """Each table gets the rows of the one that has its name now, as gh-ost's and pt-osc's copies do.

        Args:
            action: The tables.
            statement: The statement.

        Yields:
            The states of tables.
        """
        former: dict[Name, Name] = {}
        for pair in action.pairs:
            old, new = map(statement.full_name, pair)
            former[new] = former.pop(old, old)
        for new, old in former.items():
            if old in former:
                yield from self._put_away(old, new, is_source=new in former.values())
            else:
                yield from self._rename(old, new, action, statement)

    def _put_away(self, old: Name, new: Name, *, is_source: bool) -> Iterator[TableStatus]:
        """A table is renamed whose name another table gets in the same statement.

        If the new name was not known before, such a table is what a migration puts away.
        """
        target = self.known.of_names(*new)
        if old == new or target is None or target == self.known.of_names(*old):
            return
        if is_source or self._stored(new):
            yield self._stale(new, f"renamed from {'.'.join(old)}, whose target has the rows of another table now")

    def _rename(self, old: Name, new: Name, action: RenameTable, statement: Statement) -> Iterator[TableStatus]:
        source, target = self.known.of_names(*old), self.known.of_names(*new)
        if target is None:
            if source is not None and self._stored(old):
                yield from self._leave(old, new, statement.place)
        elif source is None:
            yield self._stale(new, f"renamed from {'.'.join(old)}, which has no target")
        elif not self._stored(old):
            yield from self._rename_empty(old, new, target, statement.place)
        elif not self.known.follows:
            yield self._stale(old, f"renamed to {'.'.join(new)}: {_IGNORED}")
            yield self._stale(new, f"renamed from {'.'.join(old)}: {_IGNORED}")
        else:
            yield from self._move(old, new, action, statement)
            self.known.forget(target)
            if source != target:
                self._take_away(old, statement.place)
            # A change that a stale target lacks may be newer than this.
            yield TableStatus(*new, None, OK, ends=GONE)
            yield self._left(old, new)

    def _rename_empty(self, old: Name, new: Name, target: str, place: Place) -> Iterator[TableStatus]:
        """A table of which no row was read gets another name. The older rows of that name are of a former table."""
        if self.known.follows and self._stored(new):
            if kept := self.known.truncate(self.spark, target, new, place):
                yield self._stale(new, unordered(kept))
            yield TableStatus(*new, None, OK, ends=GONE)
        if reason := self.known.status.reason(self.spark, old):
            yield self._stale(new, f"renamed from {'.'.join(old)}: {reason}")

    def _leave(self, old: Name, new: Name, place: Place) -> Iterator[TableStatus]:
        """A table gets a name that is not replicated."""
        if self.known.follows:
            self._take_away(old, place)
            yield self._left(old, new)
        else:
            yield self._stale(old, f"renamed to {'.'.join(new)}: {_IGNORED}")

    def _stale(self, name: Name, reason: str) -> TableStatus:
        return TableStatus(*name, None, STALE, reason)

    def _left(self, old: Name, new: Name) -> TableStatus:
        return TableStatus(*old, None, RENAMED, f"the table was renamed to {'.'.join(new)}")

    def _stored(self, name: Name) -> list[_Stored]:
        """The rows of a table, and their tombstones, if there are such tables."""
        target, found = self.known.of_names(*name), []
        if target is None:
            return []
        for one in (target, companion(target, "tombstones")):
            if (schema := schema_of(self.spark, one)) is None:
                break
            order = order_column(schema) if one == target else "order"
            own = ALL_ROWS if order is None else self.known.labelled(self.spark, name, target, column("t", order))
            found.append(_Stored(self.spark, one, order, own))
        return found

    def _move(self, old: Name, new: Name, action: RenameTable, statement: Statement) -> Iterator[TableStatus]:
        """Give a target the rows of another one, once: later statements may give that one other rows."""
        log, place, mark = self.known.log, statement.place, f"{source_name(*new)} {statement.identity}"
        if log.has_followed(mark):
            return
        cut, protection = log.timeline(self.spark, new).cut(statement, action), self.known.protection(self.spark)
        rules = protection.of(old, cut), protection.of(new, cut + 1)
        if reason := self._unlike(old, new, *rules) or self._why_lost(old, new, place):
            yield self._stale(new, reason)
            # The rows that say it are replaced.
            self.known.status.write(self.spark, [TableStatus.stale(new, self.known.find(new), reason, statement.text)])
        if self.known.of_names(*old) == self.known.of_names(*new):
            self._relabel(old, new, place)
        else:
            self._copy_deletes(old, new, place)
            self._copy(old, new, place, *rules)
        log.add_followed(self.spark, [mark])

    def _unlike(self, old: Name, new: Name, former: TableRules, now: TableRules) -> str | None:
        """Why a target is stale that gets the rows of another one: they are not what its own messages would give."""
        source = self.known.of_names(*old)
        schema = schema_of(self.spark, source) if source is not None else None
        names = [name for name in (schema.names if schema is not None else ()) if former.keeps(name)]
        if source == self.known.of_names(*new):  # the rows stay as they are
            differ = [name for name in names if not now.keeps(name) or now.mask(name) != former.mask(name)]
        else:
            differ = [name for name in names if now.keeps(name) and former.mask(name) not in (None, now.mask(name))]
        if differ:
            return f"older rows have {', '.join(differ)} by the rules of {'.'.join(old)}"
        reason = self.known.status.reason(self.spark, old)
        return f"renamed from {'.'.join(old)}: {reason}" if reason else None

    def _why_lost(self, old: Name, new: Name, place: Place) -> str | None:
        """Why a target is stale that gets rows after changes that may be newer were applied, to it or to the others."""
        for one in self._stored(new):
            if one.order is not None:
                order = column("t", one.order)
                known = is_ordered(Sql("s.place"), order)
                condition = sql("{own} AND {order} IS NOT NULL AND NOT {known}", own=one.own, order=order, known=known)
                if has_row(self.spark, one.target, condition, place):
                    return _UNORDERED
        if any(has_row(self.spark, one.target, one.newer(place)) for one in self._stored(old)):
            return _OVERWRITTEN
        return None

    def _relabel(self, old: Name, new: Name, place: Place) -> None:
        """Let the older rows of a table say its new name, and the tombstones of their keys."""
        stored = self._stored(old)
        for one in stored:
            if one.order is not None:
                order = column("t", one.order)
                older = sql("{own} AND {before}", own=one.own, before=is_before(order, Sql("s.place")))
                label = sql("WHEN MATCHED THEN UPDATE SET {o}.`table` = {new}", o=order, new=string(source_name(*new)))
                with ExitStack() as held, temporary_view(one_row(self.spark, place, [], held)) as view:
                    merge(self.spark, one.target, view, older, label)
        target = self.known.table(stored[0].target)
        if target.properties(self.spark).get(SOURCE) == source_name(*old):
            target.set_properties(self.spark, {SOURCE: source_name(*new)})

    def _take_away(self, name: Name, place: Place) -> None:
        """Delete the rows of a table from a target that has rows of others."""
        if (target := self.known.of_names(*name)) is not None and self._has_others(name, target):
            self.known.truncate(self.spark, target, name, place)

    def _has_others(self, name: Name, target: str) -> bool:
        """Whether the target of a table has rows of other tables."""
        return other_rows(self.spark, self.known.rows_of(self.spark, name, target), target) is not None

    def _copy_deletes(self, old: Name, new: Name, place: Place) -> None:
        """A table that has the rows of another one remembers the deletes of that one, and its own newer ones."""
        formers, owns = self._stored(old)[1:], self._stored(new)[1:]
        moved = [one.moved(new, place) for one in formers]
        rows = [one.rows(sql("NOT {others}", others=one.others(place))) for one in owns] + moved
        target = self.known.of_names(*new)
        if target is not None and rows:
            name = companion(target, "tombstones")
            both = rows[0] if len(rows) == 1 else rows[0].unionByName(rows[1], allowMissingColumns=True)
            replace_with(self.spark, name, both, settings_of(self.spark, [*owns, *formers][0].target, name))

    def _copy(self, old: Name, new: Name, place: Place, former: TableRules, rules: TableRules) -> None:
        """Give a target the rows of another one, as far as the rules of its table allow it."""
        target, [source, *_] = self.known.of_names(*new), self._stored(old)
        if target is None:
            return
        kept = settings_of(self.spark, source.target, target)
        keys = json.loads(kept.get(KEY, "[]"))
        rules.check_key(source_name(*new), keys)
        rows = source.moved(new, place)
        deleted = (self.known.options.soft_deletes or "").lower()
        own = {name for name in rows.columns if name == source.order or name.lower() == deleted}
        rows = rows.selectExpr(*rules.of_copy(rows.columns, former, own))
        of_new = {SOURCE: source_name(*new)}
        if source.order is not None and self._stored(new):
            rows = self._beside(rows, source.order, keys, new, place)
            if self._has_others(new, target):
                kept = settings_of(self.spark, target, target)
                of_new = {SOURCE: kept.get(SOURCE, "")}
        replace_with(self.spark, target, rows, {**kept, **of_new})

    def _beside(self, rows: DataFrame, order: str, keys: list[str], new: Name, place: Place) -> DataFrame:
        """Append the rows that the target keeps: rows of other tables, and newer rows, which replace moved rows by key.

        Args:
            rows: The rows that the target gets.
            order: Their column of order values.
            keys: The columns of the key.
            new: The table.
            place: The place of the statement.
        """
        own, *tombstones = self._stored(new)
        if own.order is None:
            return rows
        newer = [own.rows(own.newer(place)).select(*map(column, keys))]
        pairs = zip(key_names(keys), keys, strict=True)
        names = [sql("{k} AS {name}", k=column(name), name=column(key)) for name, key in pairs]
        newer += [
            one.rows(sql("NOT truncated AND {newer}", newer=one.newer(place))).selectExpr(*names) for one in tombstones
        ]
        for one in newer if keys else ():
            rows = rows.join(one, keys, "left_anti")
        staying = own.rows(sql("NOT {others}", others=own.others(place))).withColumnRenamed(own.order, order)
        return staying.unionByName(rows, allowMissingColumns=True)
