"""A replica that has only the log of statements ends with the rows of the source, whatever arrives when."""

import random
from functools import cache
from itertools import permutations

from migrating_source import MigratingSource, converted
from towpath.lakehouse.log.ordered_statements import Place, Statement, completed, in_order
from towpath.lakehouse.log.timeline import Timeline
from towpath.lakehouse.order.order import ORDER_FIELDS
from towpath.lakehouse.statements import NotFollowed, TableName, read_statements

SEEDS = 600
NOWHERE = dict.fromkeys(ORDER_FIELDS)


def statement(text, place=None):
    return Statement(Place({**NOWHERE, "commit_ts": place}), text, "shop", None, tuple(_actions(text)))


@cache
def _actions(text):
    return read_statements(text, "shop", None)


def timeline(*texts):
    return Timeline([statement(text, at) for at, text in enumerate(texts)])


def carried(columns, cells):
    """The cells of a row with the columns that statements gave it."""
    found = {now: value for name, value in cells.items() if (now := columns.now(name)) is not None}
    known = {name.lower() for name in found}
    found |= {one.name: one.initial for lower, one in columns.added.items() if lower not in known}
    kinds = {name: columns.types[name.lower()].type for name in found if name.lower() in columns.types}
    return found | {name: found[name] and converted(found[name], kind) for name, kind in kinds.items()}


def in_lower_case(rows):
    """Rows with the names of their columns, whose case may differ between statements and messages."""
    return {key: {name.lower(): value for name, value in cells.items()} for key, cells in rows.items()}


class Replica:
    """Targets in memory. A statement changes the stored rows before it; statements after a row lead it."""

    def __init__(self):
        self.log = {}
        """The texts of statements by place."""
        self.targets = {}
        """By table: the place and the cells of each key; the cells of a deleted row are None."""
        self.doubts = set()
        """Statements and the tables before them whose rows others may have overwritten."""

    def apply(self, batch):
        for place, text in sorted((one.place, one.statement) for one in batch if one.statement):
            if place not in self.log:
                self.log[place] = text
                self._follow(place, text)
        log = self.timeline()
        for one in batch:
            if one.statement is None:
                route = log.route(("shop", one.table), _cut(log, one.place))
                if route.table:
                    self._put(route.table, one.key, one.place, one.cells and carried(route.columns, one.cells))
                if route.table and one.old and "id" in one.old:
                    self._put(route.table, one.old["id"], one.place, None)

    def tables_in_doubt(self):
        log = self.timeline()
        return {log.route(name, _cut(log, place)).table for place, name in self.doubts}

    def rows(self, name):
        rows = self.targets.get(("shop", name), {})
        return in_lower_case({key: cells for key, (_, cells) in rows.items() if cells is not None})

    def timeline(self):
        return Timeline([statement(text, place) for place, text in sorted(self.log.items())])

    def _put(self, name, key, place, cells):
        rows = self.targets.setdefault(name, {})
        if key not in rows or rows[key][0] < place:
            rows[key] = place, cells

    def _follow(self, place, text):
        """Change the rows that are older than a statement."""
        of_statement, moved = timeline(text), []
        for name, rows in self.targets.items():
            route = of_statement.route(name, 0)
            older = {key: row for key, row in rows.items() if row[0] < place}
            if route.table not in (None, name) and len(older) < len(rows):
                self.doubts.add((place, name))
            for key, (at, cells) in older.items():
                del rows[key]
                if route.table:
                    moved.append((route.table, key, at, cells and carried(route.columns, cells)))
        for one in moved:
            self._put(*one)


def _cut(log, place):
    """The number of actions before a place."""
    return sum(one.place.fields["commit_ts"] < place for one, _ in log.steps)


def replicated(seed, *, is_copied):
    """The tables of a random source, and the replica of its events."""
    rng = random.Random(seed)
    source = MigratingSource(rng, is_copied=is_copied)
    for _ in range(60):
        source.step()
    replica = Replica()
    for batch in source.batches(rng, 5):
        replica.apply(batch)
    return {name: in_lower_case(rows) for name, rows in source.tables.items()}, replica


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
    assert [name for (_, name), _ in log.lineage(("shop", "b"), 3)] == ["b", "b_n", "b"]
    assert [log.exists(("shop", "b"), cut) for cut in range(4)] == [False, True, False, True]


def test_names_are_exchanged():
    log = timeline("RENAME TABLE a TO x, b TO a, x TO b")
    assert log.route(("shop", "a"), 0).table == ("shop", "b")
    assert log.route(("shop", "b"), 0).table == ("shop", "a")
    assert log.route(("shop", "x"), 0).table is None
    assert [[name for (_, name), _ in log.lineage(("shop", one), 1)] for one in "ab"] == [["a", "b"], ["b", "a"]]


def test_the_rows_of_a_dropped_table_stay_until_there_is_another_one():
    texts = ["DROP TABLE a", "CREATE TABLE IF NOT EXISTS a (id int)"]
    assert timeline(*texts[:1]).route(("shop", "a"), 0).table == ("shop", "a")
    assert timeline(*texts).route(("shop", "a"), 0).table is None
    assert timeline(*texts[1:]).route(("shop", "a"), 0).table == ("shop", "a")
    assert timeline(*texts).ended(("shop", "a"), 1).fields["commit_ts"] == 0


def test_a_database_in_another_case_may_be_dropped():
    known = [("shop", "t"), ("other", "t")]
    [action] = completed(statement("DROP DATABASE Shop"), lambda: known, lambda *_: []).actions
    assert isinstance(action, NotFollowed)
    assert action.tables == (TableName("shop", "t"),)
    assert action.reason.startswith("the statement changes this table if the server ignores the case")


def test_columns_ignore_case_and_follow_their_own_name():
    [log] = [timeline(*(f"ALTER TABLE t {one}" for one in CHANGES))]
    columns = log.route(("shop", "t"), 0).columns
    assert carried(columns, {"a": 1, "x": 2, "y": 3}) == {"C": 1, "y": 3, "D": "5"}
    assert columns.origin("c") == "a"
    assert columns.origin("d") is None


CHANGES = [
    "RENAME COLUMN A TO b",
    "ADD COLUMN a int DEFAULT 5",
    "CHANGE B C int",
    "RENAME COLUMN a TO D",
    "DROP COLUMN X",
]


def test_a_row_keeps_its_own_value_of_a_column_that_is_added_unless_it_exists():
    columns = timeline("ALTER TABLE t ADD COLUMN IF NOT EXISTS y int DEFAULT 9").route(("shop", "t"), 0).columns
    assert carried(columns, {"Y": 3}) == {"Y": 3}


def test_a_former_name_is_not_the_column():
    log = timeline("ALTER TABLE t RENAME COLUMN a TO b", "ALTER TABLE t DROP COLUMN a")
    assert carried(log.route(("shop", "t"), 0).columns, {"a": 1}) == {"b": 1}


def test_types_follow_the_names_of_columns():
    texts = [
        "MODIFY a bigint",
        "RENAME COLUMN a TO b",
        "CHANGE c d int",
        "DROP COLUMN d",
        "ADD x int",
        "CHANGE x y text",
    ]
    columns = timeline(*(f"ALTER TABLE t {one}" for one in texts)).route(("shop", "t"), 0).columns
    assert {name: (one.name, one.type) for name, one in columns.types.items()} == {
        "b": ("b", "bigint"),
        "y": ("y", "text"),
    }


def some_statement(rng, offset):
    fields = {
        "event_time": rng.choice([None, 1, 2]),
        "produced_time": rng.choice([None, 1, 2]),
        "batch": rng.choice([None, 1, 2]),
        "timestamp": rng.choice([None, 1, 2]),
        "offset": offset,
        "step": 0,
        "commit_ts": None,
        "is_row": True,
        "log": rng.choice([None, "1/bin", "2/bin"]),
        "file": 1,
        "at": rng.randrange(3),
        "topic": "t",
        "partition": rng.randrange(3),
        "table": None,
    }
    return Statement(Place(fields), "", "d", "t", ())


def test_the_order_of_statements_does_not_depend_on_their_arrival():
    rng = random.Random(5)
    for _ in range(300):
        statements = [some_statement(rng, offset) for offset in rng.sample(range(9), 4)]
        found = [[statement.place.fields for statement in in_order(arrived)] for arrived in permutations(statements)]
        assert all(one == found[0] for one in found)
        for partition in range(3):
            offsets = [one["offset"] for one in found[0] if one["partition"] == partition]
            assert offsets == sorted(offsets)


def test_the_table_that_has_the_rows_of_the_former_table_of_a_name():
    log = timeline("RENAME TABLE b TO c", "RENAME TABLE c TO d", "DROP TABLE IF EXISTS b", "CREATE TABLE b (id int)")
    assert log.renamed(("shop", "b"), 3) == (("shop", "d"), log.steps[0][0].place)
    assert [log.renamed(("shop", "b"), cut) for cut in (0, 4)] == [None, None]
    dropped = timeline("RENAME TABLE b TO c", "TRUNCATE TABLE c", "CREATE TABLE b (id int)")
    assert dropped.renamed(("shop", "b"), 2) is None
