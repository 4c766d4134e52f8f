"""A replica that has only the log of statements ends with the rows of the source, whatever arrives when."""

import random
from functools import cache

import pytest

from migrating_source import MigratingSource
from towpath.lakehouse.ordered_statements import Statement
from towpath.lakehouse.statements import read_statements
from towpath.lakehouse.timeline import Columns, Timeline

SEEDS = 600


@cache
def statement(text):
    return Statement(None, text, "shop", None, tuple(read_statements(text, "shop", None)))


def timeline(*texts):
    return Timeline([statement(text) for text in texts])


class Replica:
    """Targets in memory. Each commit may be the last one of the process: what it leaves is all that a new one knows."""

    def __init__(self):
        self.log = {}
        """The texts of statements by place."""
        self.targets = {}
        """By table: the places of the statements that its rows have seen, rows and deletes by key."""
        self.doubts = set()
        """Statements and the tables before them whose rows others may have overwritten."""

    def apply(self, batch):
        texts = {one.place: one.statement for one in batch if one.statement}
        self.log |= texts
        self._catch_up()
        now = sorted(self.log)
        of_now = self._timeline(now)
        for one in batch:
            if one.statement is None:
                cut = _cut(now, one.place)
                route = of_now.route(("shop", one.table), cut)
                if route.table:
                    self._put(route.table, one.key, one.place, one.cells and route.columns.carry(one.cells))

    def tables_in_doubt(self):
        now = sorted(self.log)
        return {self._timeline(now).route(name, now.index(place)).table for place, name in self.doubts}

    def rows(self, name):
        _, rows = self.targets.get(("shop", name), ((), {}))
        return {key: cells for key, (_, cells) in rows.items() if cells is not None}

    def _timeline(self, places):
        return timeline(*(self.log[place] for place in places))

    def _put(self, name, key, place, cells):
        _, rows = self.targets.setdefault(name, (tuple(sorted(self.log)), {}))
        if key not in rows or rows[key][0] < place:
            rows[key] = place, cells

    def _catch_up(self):
        """Lead the stored rows through the statements that are new."""
        now = tuple(sorted(self.log))
        moved = []
        for name, (seen, rows) in list(self.targets.items()):
            if seen == now:
                continue
            old, new, stay = self._timeline(seen), self._timeline(now), {}
            self._doubt(name, seen, [place for place, _ in rows.values()])
            for key, (place, cells) in rows.items():
                origin = old.origin(name, _cut(seen, place))
                before = old.route(origin, _cut(seen, place))
                after = new.route(origin, _cut(now, place))
                assert before.table == name
                changed = cells and before.columns.change_to(after.columns, cells)
                if after.table == name:
                    stay[key] = place, changed
                elif after.table:
                    moved.append((after.table, key, place, changed))
            self.targets[name] = now, stay
        for one in moved:
            self._put(*one)

    def _doubt(self, name, seen, places):
        """Rows that were read before the statement which gave them their table overwrite rows of its former one."""
        for place in self.log.keys() - set(seen):
            origin = self._timeline(seen).origin(name, _cut(seen, place))
            after = origin and timeline(self.log[place]).route(origin, 0).table
            if after and after != origin and any(one > place for one in places):
                self.doubts.add((place, origin))


def _cut(places, place):
    """The number of statements before a place."""
    return sum(one < place for one in places)


def replicated(seed, *, is_copied):
    """The tables of a random source, and the replica of its events."""
    rng = random.Random(seed)
    source = MigratingSource(rng, is_copied=is_copied)
    for _ in range(60):
        source.step()
    replica = Replica()
    for batch in source.batches(rng, 5):
        replica.apply(batch)
    return source.tables, replica


def test_statements_that_each_partition_has_leave_no_doubt():
    """TiCDC sends each statement to each partition: a row is never read before the statements before it."""
    for seed in range(SEEDS):
        tables, replica = replicated(seed, is_copied=True)
        assert replica.doubts == set(), seed
        assert {name: replica.rows(name) for name in tables} == tables, seed


def test_rows_that_are_read_before_statements_are_right_or_in_doubt():
    found = doubted = 0
    for seed in range(SEEDS):
        tables, replica = replicated(seed, is_copied=False)
        in_doubt = replica.tables_in_doubt()
        for name, rows in tables.items():
            found += 1
            doubted += ("shop", name) in in_doubt
            assert ("shop", name) in in_doubt or replica.rows(name) == rows, (seed, name)
    assert doubted < 0.25 * found


def test_a_table_that_is_renamed_there_and_back_keeps_its_late_rows():
    log = timeline("CREATE TABLE b (id int)", "RENAME TABLE b TO b_n", "RENAME TABLE b_n TO b")
    assert [log.route(("shop", "b"), cut).table for cut in range(4)] == [None, ("shop", "b"), None, ("shop", "b")]
    assert log.route(("shop", "b_n"), 2).table == ("shop", "b")
    assert [log.origin(("shop", "b"), cut) for cut in range(4)] == [None, ("shop", "b"), ("shop", "b_n"), ("shop", "b")]


def test_names_are_exchanged():
    log = timeline("RENAME TABLE a TO x, b TO a, x TO b")
    assert log.route(("shop", "a"), 0).table == ("shop", "b")
    assert log.route(("shop", "b"), 0).table == ("shop", "a")
    assert log.route(("shop", "x"), 0).table is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ALTER TABLE a ADD COLUMN t datetime DEFAULT now()", "t: DEFAULT is an expression"),
        ("ALTER TABLE a TRUNCATE PARTITION p", "PARTITION"),
    ],
)
def test_what_the_log_does_not_say_is_named(text, reason):
    [found] = timeline(text).route(("shop", "a"), 0).unknown
    assert reason in found
    assert timeline(text).route(("shop", "a"), 1).unknown == ()


def test_columns_ignore_case_and_follow_their_own_name():
    columns = Columns()
    columns.rename("A", "b")
    columns.add("a", 5)
    columns.rename("B", "C")
    columns.rename("a", "D")
    columns.drop("X")
    assert columns.carry({"a": 1, "x": 2, "y": 3}) == {"C": 1, "y": 3, "D": 5}
    longer = Columns(dict(columns.names), dict(columns.added))
    longer.drop("c")
    longer.rename("d", "e")
    assert columns.change_to(longer, {"C": 1, "y": 3, "D": 7}) == {"y": 3, "e": 5}


def test_a_row_keeps_its_own_value_of_a_column_that_is_added_unless_it_exists():
    columns = Columns()
    columns.add("y", 9)
    assert columns.carry({"Y": 3}) == {"Y": 3}


def test_a_former_name_is_not_the_column():
    columns = Columns()
    columns.rename("a", "b")
    columns.drop("a")
    assert columns.carry({"a": 1}) == {"b": 1}
