"""Follows RENAME TABLE: gives a target the rows of another one, or says why it is stale."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.lakehouse.followed_targets import FollowedTargets
from towpath.lakehouse.order import is_before
from towpath.lakehouse.ordered_statements import Place, Statement
from towpath.lakehouse.protection import RULES, Protection, RuleState
from towpath.lakehouse.sql import Sql, column, sql
from towpath.lakehouse.statements import RenameTable
from towpath.lakehouse.status import GONE, OK, RENAMED, Unsound
from towpath.lakehouse.tables import (
    TableSettings,
    create_or_evolve,
    order_column,
    replace_with,
    schema_of,
    set_properties,
    settings_of,
)
from towpath.lakehouse.target_properties import KEY, MOVED, SHARDS, SOURCE, dropped_at
from towpath.lakehouse.target_rows import has_row, order_of_rows
from towpath.lakehouse.targets import companion, source_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class TableRenames:
    """Gives targets the rows of others. The fields are those of `Follower`."""

    spark: SparkSession
    targets: FollowedTargets
    follows: bool
    protection: Protection
    unsound: Unsound
    say: Callable[..., None]
    """Says that a table is gone, or that there is one again: name, state, reason, and the states that this ends."""
    has_followed: Callable[[tuple[str, str], Place], bool]
    """Whether the target of a table has followed a statement already."""

    def follow(self, action: RenameTable, statement: Statement, followed: set[str]) -> dict[tuple[str, str], str]:
        """Each table gets the rows of the one that has its name now, as gh-ost's and pt-osc's copies do.

        Args:
            action: The tables.
            statement: The statement.
            followed: Gets the targets that were changed.

        Returns:
            Why the targets of tables are stale.
        """
        former: dict[tuple[str, str], tuple[str, str]] = {}
        for pair in action.pairs:
            old, new = map(statement.full_name, pair)
            former[new] = former.pop(old, old)
        # All of them first, since each is what the table has before the statement.
        states = {new: self.protection.of_renamed(old, new) for new, old in former.items()}
        put_away = {new: old for new, old in former.items() if old in former}
        reasons = {
            new: self._put_away(old, new, states[new], is_source=new in former.values())
            for new, old in put_away.items()
        }
        for new, old in former.items():
            if new not in put_away:
                reasons[new] = self._rename_table(old, new, statement.place, states[new], followed)
        return {new: reason for new, reason in reasons.items() if reason}

    def _put_away(self, old: tuple[str, str], new: tuple[str, str], state: RuleState, *, is_source: bool) -> str | None:
        """Why a target is stale whose table was renamed from one whose name another table got in the same statement.

        It is not, if the new name was not known before: such a table is what a migration puts away.
        """
        target = self.targets.of(*new)
        if old == new or target is None or target == self.targets.of(*old):
            return None
        is_known = is_source or schema_of(self.spark, target) is not None
        if not is_known and state.former and self.follows:
            is_known = self._create_empty(old, target)
        self.protection.remember(*new, state)
        return f"renamed from {'.'.join(old)}, whose target has the rows of another table now" if is_known else None

    def _create_empty(self, old: tuple[str, str], target: str) -> bool:
        """Create a target that remembers the rules of its table's former name. Returns whether that was possible."""
        source = self.targets.of(*old)
        schema = schema_of(self.spark, source) if source is not None else None
        if source is None or schema is None:
            return False
        properties = {**settings_of(self.spark, source, target), **dropped_at(None, {})}
        create_or_evolve(self.spark, target, schema, settings=TableSettings(properties))
        self.targets.changed(target)
        return True

    def _rename_table(
        self, old: tuple[str, str], new: tuple[str, str], place: Place, state: RuleState, followed: set[str]
    ) -> str | None:
        source, target = self.targets.of(*old), self.targets.of(*new)
        if target is None:
            return None
        if source is None or schema_of(self.spark, source) is None:
            self.protection.remember(*new, state)
            return f"renamed from {'.'.join(old)}, which has no target"
        if self.has_followed(new, place):
            return None
        if source == target:  # of shards of a table
            self.protection.remember(*new, state)
            self.targets.rename_shard(old, new, target)
            self._say_renamed(old, new)
            return self._unlike(old, new, state)
        for one in (old, new):
            if sharing := self.targets.sharing(one):
                return f"renamed from {'.'.join(old)}: {'.'.join(one)} shares its target with {sharing.names}"
        if not self.follows:
            self.protection.remember(*new, state)
            return f"ddl_policy is ignore: renamed from {'.'.join(old)}"
        reason = self._unlike(old, new, state) or self._is_late(target, place)
        self._copy(old, new, state)
        followed.add(target)
        self._say_renamed(old, new)
        # The old name has no table now: one that is created under it has none of these rows.
        gone = dropped_at(place, {source_name(*old): str(place)})
        set_properties(self.spark, source, {**gone, MOVED: json.dumps(new, ensure_ascii=False)})
        self.targets.changed(source)
        self.targets.changed(target)
        return reason

    def _say_renamed(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        # A change that a stale target lacks may be newer than this.
        self.say(new, OK, ends=GONE)
        self.say(old, RENAMED, f"the table was renamed to {'.'.join(new)}")

    def _is_late(self, target: str, place: Place) -> str | None:
        """Why a target is stale that has changes of after its table got the rows of another one."""
        of_rows = order_of_rows(self.spark, target)
        if of_rows is None:
            return None
        tombstones = companion(target, "tombstones")
        has_tombstones = schema_of(self.spark, tombstones) is not None
        for one, order in [(target, of_rows), (tombstones, column("t", "order"))][: 1 + has_tombstones]:
            older = is_before(order, Sql("s.place"))
            if has_row(self.spark, one, sql("{order} IS NOT NULL AND NOT {older}", order=order, older=older), place):
                return "changes that may be newer than the statement were read before it: they may be lost"
        return None

    def _unlike(self, old: tuple[str, str], new: tuple[str, str], state: RuleState) -> str | None:
        """Why a target is stale that gets the rows of another one: they are not what its own messages would give."""
        former, rules = self.protection.rules(*old), self.protection.rules_with(new, state)
        differ = sorted(name for name in former.mask if rules.mask.get(name) != former.mask[name] and rules.keeps(name))
        if differ:
            return f"older rows have {', '.join(differ)} masked as in {'.'.join(old)}"
        reason = self.unsound.reason(old)
        return f"renamed from {'.'.join(old)}: {reason}" if reason else None

    def _copy(self, old: tuple[str, str], new: tuple[str, str], state: RuleState) -> None:
        """Give a target the rows of another one, as far as the rules of its table allow it."""
        source, target = self.targets.of(*old), self.targets.of(*new)
        schema = schema_of(self.spark, source) if source is not None else None
        if source is None or target is None or schema is None:
            return
        former, rules = self.protection.rules(*old), self.protection.rules_with(new, state)
        kept = settings_of(self.spark, source, target)
        rules.check_key(source_name(*new), json.loads(kept.get(KEY, "[]")))
        order = order_column(schema)
        own = {name for name in schema.names if name == order or name.lower() in self.protection.own}
        columns = rules.of_copy(schema.names, former, own)
        of_new = {SOURCE: source_name(*new), **dropped_at(None, {}), MOVED: "", SHARDS: "[]", RULES: str(state)}
        replace_with(self.spark, target, source, {**kept, **of_new}, columns)
