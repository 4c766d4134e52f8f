"""Follows RENAME TABLE: gives a target the rows of another one, or says why it is stale."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.lakehouse.followed_targets import FollowedTargets
from towpath.lakehouse.order import is_after, is_before
from towpath.lakehouse.ordered_statements import Place, Statement
from towpath.lakehouse.protection import RULES, Protection, RuleState
from towpath.lakehouse.sql import Sql, column, expressions, sql, table
from towpath.lakehouse.statements import RenameTable
from towpath.lakehouse.status import GONE, OK, RENAMED, STALE, TableStatus, Unsound, unordered
from towpath.lakehouse.tables import (
    TableSettings,
    create_or_evolve,
    order_column,
    replace_with,
    schema_of,
    settings_of,
)
from towpath.lakehouse.target_properties import (
    FOLLOWED,
    GIVEN,
    KEY,
    SHARDS,
    SOURCE,
    followed_property,
    given_at,
    stored_properties,
    with_place,
)
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
                reasons[new] = self._rename_table(old, new, statement, states[new], followed)
        return {new: reason for new, reason in reasons.items() if reason}

    def _put_away(self, old: tuple[str, str], new: tuple[str, str], state: RuleState, *, is_source: bool) -> str | None:
        """Why a target is stale whose table was renamed from one whose name another table got in the same statement.

        It is not, if the new name was not known before: such a table is what a migration puts away.
        """
        target = self.targets.of(*new)
        if old == new or target is None or target == self.targets.of(*old):
            return None
        is_known = self._has_target(new) or is_source
        if not is_known and state.former and self.follows:
            is_known = self._create_empty(old, target)
        self.protection.remember(*new, state)
        return f"renamed from {'.'.join(old)}, whose target has the rows of another table now" if is_known else None

    def _has_target(self, name: tuple[str, str]) -> bool:
        target = self.targets.of(*name)
        return target is not None and schema_of(self.spark, target) is not None

    def _create_empty(self, old: tuple[str, str], target: str) -> bool:
        """Create a target that remembers the rules of its table's former name. Returns whether that was possible."""
        source = self.targets.of(*old)
        schema = schema_of(self.spark, source) if source is not None else None
        if source is None or schema is None:
            return False
        properties = {**settings_of(self.spark, source, target), GIVEN: ""}
        create_or_evolve(self.spark, target, schema, settings=TableSettings(properties))
        self.targets.changed(target)
        return True

    def _rename_table(
        self, old: tuple[str, str], new: tuple[str, str], statement: Statement, state: RuleState, followed: set[str]
    ) -> str | None:
        source, target, place = self.targets.of(*old), self.targets.of(*new), statement.place
        if target is None:
            self._leave(old, new, place)
            return None
        if source is None:
            self.protection.remember(*new, state)
            return f"renamed from {'.'.join(old)}, which has no target"
        if self.has_followed(new, place) or self.has_followed(old, place):  # or the rows came after it
            return None
        if schema_of(self.spark, source) is None:
            return self._rename_empty(old, new, target, place, state, followed)
        if source == target:  # of shards of a table
            self.protection.remember(*new, state)
            self.targets.rename_shard(old, new, target)
            self._say_renamed(old, new)
            return self._unlike(old, new, state)
        if reason := self._why_kept(old, new):
            self.say(old, STALE, f"renamed to {'.'.join(new)}: {reason}")
            if not self.follows:
                self.protection.remember(*new, state)
            return f"renamed from {'.'.join(old)}: {reason}"
        reason = self._unlike(old, new, state) or self._is_late(target, place) or self._is_overwritten(source, place)
        if reason:  # the rows that say it are replaced
            self.unsound.write_ahead([TableStatus.stale(new, target, reason, statement.text)])
        self._copy(old, new, place, state)
        self.targets.changed(target)
        self.targets.copy_deletes(source, target, place)
        followed.add(target)
        self._say_renamed(old, new)
        return reason

    def _rename_empty(
        self,
        old: tuple[str, str],
        new: tuple[str, str],
        target: str,
        place: Place,
        state: RuleState,
        followed: set[str],
    ) -> str | None:
        """A table of which no row was read gets another name. The older rows of that name are of a former table."""
        self.protection.remember(*new, state)
        kept = 0
        if self._has_target(new) and self._why_kept(new) is None:
            kept = self.targets.truncate(target, place)
            self.say(new, OK, ends=GONE)
            followed.add(target)
        reason = self.unsound.reason(old)
        if reason:
            return f"renamed from {'.'.join(old)}: {reason}"
        return unordered(kept) if kept else None

    def _why_kept(self, *names: tuple[str, str]) -> str | None:
        """Why the targets of tables keep the rows that they have."""
        if not self.follows:
            return "ddl_policy is ignore"
        shared = ((name, self.targets.sharing(name)) for name in names)
        return next(
            (f"{'.'.join(one)} shares its target with {others.names}" for one, others in shared if others), None
        )

    def _leave(self, old: tuple[str, str], new: tuple[str, str], place: Place) -> None:
        """A table gets a name that is not replicated."""
        source = self.targets.of(*old)
        if source is None or not self._has_target(old) or self.has_followed(old, place):
            return
        if reason := self._why_kept(old):
            self.say(old, STALE, f"renamed to {'.'.join(new)}: {reason}")
            return
        self._say_left(old, new)

    def _say_renamed(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        # A change that a stale target lacks may be newer than this.
        self.say(new, OK, ends=GONE)
        self._say_left(old, new)

    def _say_left(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        self.say(old, RENAMED, f"the table was renamed to {'.'.join(new)}")

    def _is_late(self, target: str, place: Place) -> str | None:
        """Why a target is stale that has changes of after its table got the rows of another one."""
        # If the driver ended before it remembered the statement, the rows are those of the other one.
        if given_at(stored_properties(self.spark, target)) == place:
            return None
        if self._has_change(target, "NOT {before}", place):
            return "changes that may be newer than the statement were read before it: they may be lost"
        return None

    def _is_overwritten(self, source: str, place: Place) -> str | None:
        """Why a target is stale that gets rows, of which a later table of their name may have overwritten some."""
        if self._has_change(source, "{after}", place):
            return "changes that are newer than the statement were read before it: older rows of their keys are lost"
        return None

    def _has_change(self, target: str, template: str, place: Place) -> bool:
        """Whether a row or a tombstone of a target is on one side of a statement."""
        orders = [(target, order_of_rows(self.spark, target))]
        tombstones = companion(target, "tombstones")
        if orders[0][1] is not None and schema_of(self.spark, tombstones) is not None:
            orders.append((tombstones, column("t", "order")))
        for name, order in orders:
            if order is None:
                continue
            sides = {"before": is_before(order, Sql("s.place")), "after": is_after(order, Sql("s.place"))}
            condition = sql(f"{{order}} IS NOT NULL AND {template}", order=order, **sides)
            if has_row(self.spark, name, condition, place):
                return True
        return False

    def _unlike(self, old: tuple[str, str], new: tuple[str, str], state: RuleState) -> str | None:
        """Why a target is stale that gets the rows of another one: they are not what its own messages would give."""
        former, rules = self.protection.rules(*old), self.protection.rules_with(new, state)
        differ = sorted(name for name in former.mask if rules.mask.get(name) != former.mask[name] and rules.keeps(name))
        if differ:
            return f"older rows have {', '.join(differ)} masked as in {'.'.join(old)}"
        reason = self.unsound.reason(old)
        return f"renamed from {'.'.join(old)}: {reason}" if reason else None

    def _copy(self, old: tuple[str, str], new: tuple[str, str], place: Place, state: RuleState) -> None:
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
        of_new = {SOURCE: source_name(*new), SHARDS: "[]", RULES: str(state), GIVEN: str(place)}
        of_new |= _followed_by_both(stored_properties(self.spark, target), kept)
        rows = self.spark.read.table(table(source))
        if order is not None:  # a later table of the old name has the rows that are newer
            newer = is_after(column(order), place.literal())
            rows = rows.filter(expressions(self.spark)(sql("NOT coalesce({newer}, false)", newer=newer)))
        rows = rows.selectExpr(*columns)
        replace_with(self.spark, target, rows, {**kept, **of_new})


def _followed_by_both(former: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
    """What a target has followed that gets the rows of another one: no statement of either is followed again."""
    places = Place.parse_all(kept.get(FOLLOWED))
    for place in Place.parse_all(former.get(FOLLOWED)):
        if not any(place.repeats(one) for one in places):
            places = with_place(places, place)
    return followed_property(places)
