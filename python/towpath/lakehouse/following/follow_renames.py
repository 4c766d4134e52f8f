"""Follows RENAME TABLE: gives a target the rows of another one, or says why it is stale."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.lakehouse.following.followed_targets import FollowedTargets
from towpath.lakehouse.log.ordered_statements import Place, Statement
from towpath.lakehouse.log.statement_log import StatementLog
from towpath.lakehouse.log.timeline import Name
from towpath.lakehouse.merging.rows import tombstone_key
from towpath.lakehouse.order.order import is_after, is_before
from towpath.lakehouse.rules.column_rules import TableRules
from towpath.lakehouse.rules.protection import Protection
from towpath.lakehouse.seen.status import GONE, OK, RENAMED, STALE, TableStatus, unordered
from towpath.lakehouse.seen.status_table import StatusTable
from towpath.lakehouse.statements import RenameTable
from towpath.lakehouse.tables.sql import Sql, column, expressions, merge, sql, string, table
from towpath.lakehouse.tables.tables import (
    order_column,
    replace_with,
    schema_of,
    set_properties,
    settings_of,
    temporary_view,
)
from towpath.lakehouse.tables.target_properties import (
    GIVEN,
    KEY,
    SOURCE,
    places_text,
    with_place,
)
from towpath.lakehouse.tables.target_rows import ALL_ROWS, has_row, one_row, order_of_rows
from towpath.lakehouse.tables.targets import companion, source_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IGNORED = "ddl_policy is ignore"


@dataclass(frozen=True)
class TableRenames:
    """Gives targets the rows of others. The fields are those of `Follower`."""

    spark: SparkSession
    targets: FollowedTargets
    follows: bool
    protection: Protection
    log: StatementLog
    status: StatusTable
    say: Callable[..., None]
    """Says that a table is gone, or that there is one again: name, state, reason, and the states that this ends."""

    def follow(self, action: RenameTable, statement: Statement) -> dict[tuple[str, str], str]:
        """Each table gets the rows of the one that has its name now, as gh-ost's and pt-osc's copies do.

        Args:
            action: The tables.
            statement: The statement.

        Returns:
            Why the targets of tables are stale.
        """
        former: dict[tuple[str, str], tuple[str, str]] = {}
        for pair in action.pairs:
            old, new = map(statement.full_name, pair)
            former[new] = former.pop(old, old)
        put_away = {new: old for new, old in former.items() if old in former}
        reasons = {new: self._put_away(old, new, is_source=new in former.values()) for new, old in put_away.items()}
        for new, old in former.items():
            if new not in put_away:
                reasons[new] = self._rename_table(old, new, statement, self._rules(old, new, statement, action))
        return {new: reason for new, reason in reasons.items() if reason}

    def _rules(self, old: Name, new: Name, statement: Statement, action: RenameTable) -> tuple[TableRules, TableRules]:
        """Return the rules of a table before it is renamed, and after it."""
        cut = self.log.timeline(self.spark, new).cut(statement, action)
        return self.protection.of(old, cut), self.protection.of(new, cut + 1)

    def _put_away(self, old: tuple[str, str], new: tuple[str, str], *, is_source: bool) -> str | None:
        """Why a target is stale whose table was renamed from one whose name another table got in the same statement.

        It is not, if the new name was not known before: such a table is what a migration puts away.
        """
        target = self.targets.of(*new)
        if old == new or target is None or target == self.targets.of(*old):
            return None
        is_known = self._has_target(new) or is_source
        return f"renamed from {'.'.join(old)}, whose target has the rows of another table now" if is_known else None

    def _has_target(self, name: tuple[str, str]) -> bool:
        target = self.targets.of(*name)
        return target is not None and schema_of(self.spark, target) is not None

    def _rename_table(
        self,
        old: tuple[str, str],
        new: tuple[str, str],
        statement: Statement,
        rules: tuple[TableRules, TableRules],
    ) -> str | None:
        source, target, place = self.targets.of(*old), self.targets.of(*new), statement.place
        if target is None:
            self._leave(old, new, place)
            return None
        if source is None:
            return f"renamed from {'.'.join(old)}, which has no target"
        if schema_of(self.spark, source) is None:
            return self._rename_empty(old, new, target, place)
        if not self.follows:
            self.say(old, STALE, f"renamed to {'.'.join(new)}: {_IGNORED}")
            return f"renamed from {'.'.join(old)}: {_IGNORED}"
        reason = self._unlike(old, new, rules) or self._is_unordered(new, place) or self._is_overwritten(old, place)
        if source == target:
            self._relabel(old, new, target, place)
            self.targets.changed(target)
            self._say_renamed(old, new)
            return reason
        if reason:  # the rows that say it are replaced
            self.status.write(self.spark, [TableStatus.stale(new, target, reason, statement.text)])
        self._copy(old, new, place, *rules)
        self.targets.changed(target)
        self.targets.copy_deletes(old, new, place)
        self._take_away(old, place)
        self._say_renamed(old, new)
        return reason

    def _rename_empty(self, old: tuple[str, str], new: tuple[str, str], target: str, place: Place) -> str | None:
        """A table of which no row was read gets another name. The older rows of that name are of a former table."""
        kept = 0
        if self._has_target(new) and self.follows:
            kept = self.targets.truncate(target, new, place)
            self.say(new, OK, ends=GONE)
        reason = self.status.reason(self.spark, old)
        if reason:
            return f"renamed from {'.'.join(old)}: {reason}"
        return unordered(kept) if kept else None

    def _leave(self, old: tuple[str, str], new: tuple[str, str], place: Place) -> None:
        """A table gets a name that is not replicated."""
        source = self.targets.of(*old)
        if source is None or not self._has_target(old):
            return
        if not self.follows:
            self.say(old, STALE, f"renamed to {'.'.join(new)}: {_IGNORED}")
            return
        self._take_away(old, place)
        self._say_left(old, new)

    def _say_renamed(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        # A change that a stale target lacks may be newer than this.
        self.say(new, OK, ends=GONE)
        self._say_left(old, new)

    def _say_left(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        self.say(old, RENAMED, f"the table was renamed to {'.'.join(new)}")

    def _is_unordered(self, new: Name, place: Place) -> str | None:
        """Why a target is stale with changes from before its table got the rows of another one, or after it."""
        if self._has_change(new, "NOT {before} AND NOT {after}", place):
            return "changes that may be older or newer than the statement were read before it: some rows may be wrong"
        return None

    def _is_overwritten(self, old: Name, place: Place) -> str | None:
        """Why a target is stale that gets rows, of which a later table of their name may have overwritten some."""
        if self._has_change(old, "{after}", place):
            return "changes that are newer than the statement were read before it: older rows of their keys are lost"
        return None

    def _has_change(self, name: Name, template: str, place: Place) -> bool:
        """Whether a row or a tombstone of a table is on one side of a statement."""
        target = self.targets.of(*name)
        order = order_of_rows(self.spark, target) if target is not None else None
        if target is None or order is None:
            return False
        found = [(target, order, self.targets.rows_of(name, target))]
        tombstones = companion(target, "tombstones")
        if schema_of(self.spark, tombstones) is not None:
            found.append((tombstones, column("t", "order"), self.targets.labelled(name, target, column("t", "order"))))
        for of_table, value, rows in found:
            sides = {"before": is_before(value, Sql("s.place")), "after": is_after(value, Sql("s.place"))}
            condition = sql(f"{{rows}} AND {{order}} IS NOT NULL AND {template}", rows=rows, order=value, **sides)
            if has_row(self.spark, of_table, condition, place):
                return True
        return False

    def _relabel(self, old: Name, new: Name, target: str, place: Place) -> None:
        """Let the older rows of a table say its new name, and the tombstones of their keys."""
        properties = self.targets.known.table(target).properties(self.spark)
        own = order_column(schema) if (schema := schema_of(self.spark, target)) is not None else None
        tombstones = companion(target, "tombstones")
        names = [(target, own)] if own is not None else []
        names += [(tombstones, "order")] if schema_of(self.spark, tombstones) is not None else []
        for name, order in names:
            of_row = column("t", order)
            rows = self.targets.rows_of(old, target) if name == target else self.targets.labelled(old, target, of_row)
            older = sql("{rows} AND {before}", rows=rows, before=is_before(of_row, Sql("s.place")))
            label = sql("WHEN MATCHED THEN UPDATE SET {o}.`table` = {new}", o=of_row, new=string(source_name(*new)))
            with ExitStack() as held, temporary_view(one_row(self.spark, place, [], held)) as view:
                merge(self.spark, name, view, older, label)
        if properties.get(SOURCE) == source_name(*old):
            set_properties(self.spark, target, {SOURCE: source_name(*new)})

    def _take_away(self, name: Name, place: Place) -> None:
        """Delete the rows of a table from a target that has rows of others."""
        if (target := self.targets.of(*name)) is not None and self._has_others(name, target):
            self.targets.truncate(target, name, place)

    def _has_others(self, name: Name, target: str) -> bool:
        """Whether a target has rows of other tables."""
        rows = self.targets.rows_of(name, target)
        return rows != ALL_ROWS and has_row(self.spark, target, sql("NOT coalesce({rows}, false)", rows=rows))

    def _unlike(self, old: Name, new: Name, rules: tuple[TableRules, TableRules]) -> str | None:
        """Why a target is stale that gets the rows of another one: they are not what its own messages would give."""
        former, now = rules
        source = self.targets.of(*old)
        schema = schema_of(self.spark, source) if source is not None else None
        names = [name for name in (schema.names if schema is not None else ()) if former.keeps(name)]
        if source == self.targets.of(*new):  # the rows stay as they are
            differ = [name for name in names if not now.keeps(name) or now.mask(name) != former.mask(name)]
        else:
            differ = [name for name in names if now.keeps(name) and former.mask(name) not in (None, now.mask(name))]
        if differ:
            return f"older rows have {', '.join(differ)} by the rules of {'.'.join(old)}"
        reason = self.status.reason(self.spark, old)
        return f"renamed from {'.'.join(old)}: {reason}" if reason else None

    def _copy(self, old: Name, new: Name, place: Place, former: TableRules, rules: TableRules) -> None:
        """Give a target the rows of another one, as far as the rules of its table allow it."""
        source, target = self.targets.of(*old), self.targets.of(*new)
        schema = schema_of(self.spark, source) if source is not None else None
        if source is None or target is None or schema is None:
            return
        kept = settings_of(self.spark, source, target)
        rules.check_key(source_name(*new), json.loads(kept.get(KEY, "[]")))
        order = order_column(schema)
        deleted = (self.targets.known.options.soft_deletes or "").lower()
        own = {name for name in schema.names if name == order or name.lower() == deleted}
        columns = rules.of_copy(schema.names, former, own)
        of_target = self.targets.known.table(target).properties(self.spark)
        given, own_place = Place.parse_all(of_target.get(GIVEN)), self.targets.place(place, new)
        if own_place in given:  # the driver ended before the target remembered the statement
            return
        of_new = {SOURCE: source_name(*new), GIVEN: places_text(with_place(given, own_place))}
        expr = expressions(self.spark)
        rows = self.spark.read.table(table(source)).alias("t").filter(expr(self.targets.rows_of(old, source)))
        if order is not None:  # a later table of the old name has the rows that are newer
            newer = is_after(column(order), place.literal())
            rows = rows.filter(expr(sql("NOT coalesce({newer}, false)", newer=newer)))
        rows = rows.selectExpr(*columns)
        if order is not None and self.targets.rows_of(new, source) != ALL_ROWS:
            label = rows[column(order)].withField("table", expr(string(source_name(*new))))
            rows = rows.withColumn(order, label)
        if order is not None and self._has_target(new):
            rows = self._beside(rows, order, json.loads(kept.get(KEY, "[]")), new, place)
            if self._has_others(new, target):
                kept = settings_of(self.spark, target, target)
                of_new[SOURCE] = kept.get(SOURCE, "")
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
        target = self.targets.of(*new)
        schema = schema_of(self.spark, target) if target is not None else None
        own = order_column(schema) if schema is not None else None
        if target is None or schema is None or own is None:
            return rows
        expr, of_row = expressions(self.spark), column("t", own)
        newer = {"rows": self.targets.rows_of(new, target), "newer": is_after(of_row, place.literal())}
        stored = self.spark.read.table(table(target)).alias("t")
        others = stored.filter(expr(sql("NOT coalesce({rows}, false)", rows=newer["rows"])))
        later = stored.filter(expr(sql("{rows} AND coalesce({newer}, false)", **newer)))
        tombstones = companion(target, "tombstones")
        if keys and schema_of(self.spark, tombstones) is not None:
            of_delete = column("t", "order")
            gone = {
                "rows": self.targets.labelled(new, target, of_delete),
                "newer": is_after(of_delete, place.literal()),
            }
            names = [sql("{k} AS {name}", k=column(tombstone_key(at)), name=column(key)) for at, key in enumerate(keys)]
            deletes = self.spark.read.table(table(tombstones)).alias("t")
            deletes = deletes.filter(expr(sql("NOT truncated AND {rows} AND {newer}", **gone))).selectExpr(*names)
            rows = rows.join(deletes, keys, "left_anti")
        if keys:
            rows = rows.join(later.select(*map(column, keys)), keys, "left_anti")
        staying = others.unionByName(later).withColumnRenamed(own, order)
        return staying.unionByName(rows, allowMissingColumns=True)
