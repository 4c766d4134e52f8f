"""Statements and rows of different partitions, case by case. `test_migrations` has random ones."""

from itertools import product

from lake_cases import in_soak, together
from lake_topic import Topic, canal, row


def states_of(topic, tables=None):
    """The state of each table, or of these."""
    return {name: status["state"] for name, status in topic.states().items() if tables is None or name in tables}


@together
def test_a_dropped_database_and_a_table_that_is_renamed_away(topic):
    def statement(at, table, sql, second, **more):
        return canal(at, "QUERY", table, sql=sql, second=second, **more)

    yield [canal(at, "INSERT", name, row(at, "old")) for at, name in enumerate(["a", "b", "c"])]
    yield [
        statement(3, "", "DROP DATABASE `shop`", 10),
        statement(4, "", "CREATE DATABASE `shop`", 10),
        statement(5, "a", "CREATE TABLE IF NOT EXISTS a (id int PRIMARY KEY, name varchar(20))", 11),
        canal(6, "INSERT", "a", row(7, "new"), second=12),
        statement(7, "b", "CREATE TABLE b (id int PRIMARY KEY, name varchar(20))", 12),
        # Its table is created with the same name, and its rows are in another partition, in a later batch.
        statement(8, "c", "CREATE TABLE c (id int PRIMARY KEY, name varchar(20))", 12),
    ]
    yield [canal(0, "INSERT", "c", row(9, "new"), second=12, partition=1)]
    assert {name: topic.names(name) for name in "abc"} == {"a": {7: "new"}, "b": {}, "c": {9: "new"}}
    assert {status["state"] for status in topic.states().values()} == {"ok"}
    yield [
        statement(9, "a", "RENAME TABLE a TO b2", 20),
        statement(10, "a", "CREATE TABLE a (id int PRIMARY KEY, name varchar(20))", 21),
        canal(11, "INSERT", "a", row(8, "newer"), second=22),
    ]
    assert (topic.names("a"), topic.names("b2")) == ({8: "newer"}, {7: "new"})


@together
def test_what_waits_in_quarantine_when_its_table_is_created_again(topic):
    """A row of the new table may be read before the statements, and it does not fit the former one."""
    text = {"id": "int", "n": "varchar(9)"}
    yield [canal(at, "INSERT", name, {"id": "1", "n": "1"}, {"id": "int", "n": "int"}) for at, name in enumerate("ab")]
    yield [
        canal(0, "INSERT", "a", {"id": "2", "n": "new"}, text, second=30, partition=1),
        canal(2, "INSERT", "b", {"id": "2", "n": "old"}, text, second=5),
    ]
    assert states_of(topic) == {"a": "quarantined", "b": "quarantined"}
    columns = "(id int PRIMARY KEY, n varchar(9))"
    yield [
        canal(3, "ERASE", "a", sql="DROP TABLE a", second=20),
        canal(4, "CREATE", "a", sql=f"CREATE TABLE a {columns}", second=20),
        canal(5, "QUERY", "b", sql=f"DROP TABLE b; CREATE TABLE b {columns}", second=20),
    ]
    assert states_of(topic) == {"a": "quarantined", "b": "ok"}
    assert topic.states()["a"]["reason"].startswith("messages that may be of the table which was created again wait")


@together
def test_late_rows_get_the_value_of_an_added_column(topic):
    yield [canal(0, "INSERT", "a", row(1, "x"))]
    yield [canal(1, "ALTER", "a", sql="ALTER TABLE a ADD COLUMN n int DEFAULT 5", second=9)]
    types = {"id": "int", "name": "varchar(20)", "n": "int"}
    yield [
        canal(0, "INSERT", "a", row(2, "late"), second=8, partition=1),
        # An online ALTER has the time of its start, so a row before its end seems to be newer.
        canal(1, "INSERT", "a", row(3, "during"), second=10, partition=1),
        canal(2, "INSERT", "a", row(4, "after") | {"n": None}, types, second=11, partition=1),
    ]
    assert {one["id"]: one["n"] for one in topic.rows("a")} == {1: 5, 2: 5, 3: 5, 4: None}
    # The statement is sent again: values that were null since then stay null.
    yield [canal(2, "ALTER", "a", sql="ALTER TABLE a ADD COLUMN n int DEFAULT 5", second=9)]
    assert {one["id"]: one["n"] for one in topic.rows("a")} == {1: 5, 2: 5, 3: 5, 4: None}


@together
def test_a_truncate_before_the_target_of_its_table(topic):
    """Such a message of canal has neither columns nor a key."""
    yield [canal(0, "TRUNCATE", "a", types=None, sql="TRUNCATE TABLE a", second=20, pkNames=None)]
    yield [canal(1, "INSERT", "a", row(2, "new"), second=30)]
    yield [canal(0, "INSERT", "a", row(1, "old"), second=10, partition=1)]
    assert topic.names("a") == {2: "new"}
    assert topic.states()["a"]["state"] == "ok"


@together
def test_a_truncate_after_all_rows_of_its_table(topic):
    """The target exists, as the table does."""
    yield [
        canal(0, "INSERT", "a", row(1, "x"), second=5, id=1),
        canal(0, "INSERT", "a", row(7, "x"), second=5, id=2, partition=1),
        canal(1, "TRUNCATE", "a", types=None, sql="TRUNCATE TABLE a", second=5, id=3),
    ]
    assert topic.names("a") == {}
    assert topic.states()["a"]["state"] == "ok"


def test_a_truncate_of_a_table_with_masked_columns(spark, tmp_path):
    topic, masked = Topic(spark, tmp_path), {"shop.a": {"mask": {"name": "sha2(value, 256)"}}}
    topic.replicate(canal(0, "INSERT", "a", row(1, "old"), second=10), columns=masked)
    topic.replicate(canal(1, "TRUNCATE", "a", types=None, sql="TRUNCATE TABLE a", second=20), columns=masked)
    assert topic.rows("a") == []
    assert topic.states()["a"]["state"] == "ok"


NEW = {2: {"id": 2, "name": "new"}}
BEFORE_ITS_TARGET = {
    "truncated": ("TRUNCATE TABLE truncated", NEW),
    "dropped": ("DROP TABLE dropped; CREATE TABLE dropped (id int PRIMARY KEY, name varchar(20))", NEW),
    "added": (
        "ALTER TABLE added ADD COLUMN c int DEFAULT 5",
        {1: {"id": 1, "name": "old", "c": 5}, 2: {"id": 2, "name": "new", "c": 7}},
    ),
    "renamed": (
        "ALTER TABLE renamed RENAME COLUMN name TO title",
        {1: {"id": 1, "title": "old"}, 2: {"id": 2, "title": "new"}},
    ),
}
"""For each table, a statement and the rows at the end."""


def before_its_target():
    """For each table a statement, then a newer row, and then one of another partition that is older than it."""
    first, second, late = [], [], []
    for at, (table, (sql, rows)) in enumerate(BEFORE_ITS_TARGET.items()):
        types = {name: "int" if name in ("id", "c") else "varchar(20)" for name in rows[2]}
        new = {name: str(value) for name, value in rows[2].items()}
        first.append(canal(at, "QUERY", table, sql=sql, second=20))
        second.append(canal(10 + at, "INSERT", table, new, types, second=30))
        late.append(canal(at, "INSERT", table, row(1, "old"), second=10, partition=1))
    return first, second, late


def check_before_its_target(topic):
    for table, (_, rows) in BEFORE_ITS_TARGET.items():
        assert {one["id"]: one for one in topic.rows(table)} == rows
    assert states_of(topic) == dict.fromkeys(BEFORE_ITS_TARGET, "ok")


@together
def test_a_statement_before_the_target_of_its_table(topic):
    yield from before_its_target()
    check_before_its_target(topic)


@in_soak
def test_a_statement_before_the_target_of_its_table_in_a_batch(topic):
    first, second, late = before_its_target()
    yield first + second
    yield late
    check_before_its_target(topic)


@in_soak
def test_a_row_from_before_its_column_got_another_type(topic):
    """MySQL has rounded its value without a message."""
    batches, late = ([], []), []
    wanted, rows = {}, {}
    types = {"decimal(6,2)": ("decimal(6,0)", "1.55", "stale"), "int": ("bigint", "1", "ok")}
    for at, (first, old) in enumerate(product(["statement", "row", "both"], types)):
        (new, value, state), table = types[old], f"{first}_{old[:3]}"
        changed = canal(at, "ALTER", table, sql=f"ALTER TABLE {table} MODIFY COLUMN v {new}", second=20)
        newer = canal(at, "INSERT", table, {"id": "2", "v": "7"}, {"id": "int", "v": new}, second=30, partition=2)
        batches[first == "row"].append(changed)
        batches[first == "statement"].append(newer)
        late.append(
            canal(at, "INSERT", table, {"id": "1", "v": value}, {"id": "int", "v": old}, second=10, partition=1)
        )
        wanted[table], rows[table] = state, {1: float(value), 2: 7}
    yield from batches
    assert states_of(topic) == dict.fromkeys(rows, "ok")
    yield late
    assert states_of(topic) == wanted
    assert {table: {one["id"]: float(one["v"]) for one in topic.rows(table)} for table in rows} == rows


def rename(second, table="a", at=0):
    copy = f"_{table}_gho"
    return canal(at, "RENAME", table, sql=f"RENAME TABLE {table} TO _{table}_del, {copy} TO {table}", second=second)


def copied(tables):
    """A row of each table and of its copy."""
    names = [name for table in tables for name in (table, f"_{table}_gho")]
    return [canal(at, "INSERT", name, row(1, "old"), second=5, partition=1) for at, name in enumerate(names)]


@together
def test_a_change_that_is_newer_than_a_rename_and_is_read_before_it(topic):
    yield copied("ab")
    yield [
        canal(10, "UPDATE", "a", row(1, "new"), old={"name": "old"}, second=30, partition=1),
        canal(11, "DELETE", "b", row(1, "old"), second=30, partition=1),
    ]
    yield [rename(20), rename(20, "b", at=1)]
    assert states_of(topic, "ab") == {"a": "ok", "b": "ok"}
    assert (topic.names("a"), topic.names("b")) == ({1: "new"}, {})


@in_soak
def test_a_change_of_a_copy_that_is_read_after_the_rename(topic):
    yield copied("ab")
    yield [rename(20), rename(20, "b", at=1)]
    assert states_of(topic, "ab") == {"a": "ok", "b": "ok"}
    yield [
        canal(10, "INSERT", "_a_gho", row(2, "x"), second=15, partition=1),
        canal(11, "DELETE", "_b_gho", row(1, "old"), second=15, partition=1),
    ]
    assert states_of(topic, "ab") == {"a": "stale", "b": "stale"}


@in_soak
def test_changes_in_the_second_of_a_rename_are_the_copys(topic):
    """gh-ost applies the last changes to its copy right before the RENAME."""
    yield [canal(0, "INSERT", "a", row(1, "old"), second=5, partition=1)]
    last = [canal(at, "INSERT", "_a_gho", row(at, "copied"), second=20, partition=1) for at in (1, 2)]
    yield [rename(20), *last]
    # Another migration of the table makes a copy of the same name.
    yield [
        canal(1, "ERASE", "_a_gho", sql="DROP TABLE IF EXISTS `_a_gho`", second=40),
        canal(2, "CREATE", "_a_gho", sql="CREATE TABLE `_a_gho` LIKE `a`", second=41),
        canal(3, "INSERT", "_a_gho", row(3, "second"), second=42, partition=1),
    ]
    assert topic.names("a") == {1: "copied", 2: "copied"}
    assert topic.names("_a_gho") == {3: "second"}
    assert {status["state"] for status in topic.states().values()} == {"ok"}


@together
def test_late_rows_of_a_log_that_is_rotated_and_rows_of_a_table_that_was_put_away(topic):
    """Only the table that was put away lacks rows: those from before the statement."""
    names = ["log", "calm", "t", "t_new"]
    yield [canal(at, "INSERT", name, row(1, name), second=5) for at, name in enumerate(names)]
    texts = [
        *(f"RENAME TABLE {name} TO {name}_2025; CREATE TABLE {name} LIKE {name}_2025" for name in ("log", "calm")),
        "RENAME TABLE t TO t_2025, t_new TO t",
    ]
    yield [
        *(canal(4 + at, "QUERY", names[at], sql=text, second=10) for at, text in enumerate(texts)),
        *(canal(7 + at, "INSERT", name, row(3, "new"), second=12) for at, name in enumerate(["log", "calm"])),
    ]
    assert set(states_of(topic).values()) == {"ok", "renamed"}
    yield [
        canal(0, "INSERT", "log", row(2, "late"), second=8, partition=1),
        canal(1, "INSERT", "calm", row(4, "new"), second=12, partition=1),
        canal(9, "INSERT", "t_2025", row(2, "x"), second=12),
    ]
    found = states_of(topic)
    assert {name for name, state in found.items() if state == "stale"} == {"t_2025"}
    assert (topic.names("log"), topic.names("log_2025")) == ({3: "new"}, {1: "log", 2: "late"})
    assert (topic.names("calm"), topic.names("calm_2025")) == ({3: "new", 4: "new"}, {1: "calm"})
    assert (topic.names("t"), topic.names("t_2025")) == ({1: "t_new"}, {2: "x"})


@together
def test_a_table_is_renamed_there_and_back_before_a_late_row(topic):
    """TiCDC sends each statement to each partition, with its commit time."""

    def sent(at, kind, commit, partition, cells=None, **more):
        return canal(at, kind, "b", cells, partition=partition, _tidb={"commitTs": commit}, **more)

    texts = {10: "CREATE TABLE b (id int PRIMARY KEY)", 30: "RENAME TABLE b TO b_n", 40: "RENAME TABLE b_n TO b"}
    statements = {
        partition: [sent(at, "QUERY", commit, partition, sql=text) for at, (commit, text) in enumerate(texts.items())]
        for partition in range(3)
    }
    yield [*statements[0][:1], sent(7, "INSERT", 20, 0, row(20, "x")), *statements[0][1:], *statements[1]]
    yield [statements[2][0], sent(7, "INSERT", 24, 2, row(24, "late")), *statements[2][1:]]
    assert topic.names("b") == {20: "x", 24: "late"}
    assert states_of(topic) == {"b": "ok"}


@in_soak
def test_a_row_that_waited_for_a_truncate(topic):
    """Its time is that of its start: only canal's batch says that it is newer."""
    tables = {"same_batch": {"id": 1, "ts": 20_500}, "later_batch": {"id": 2, "ts": 21_000}}
    old = [
        canal(at, "INSERT", table, row(1, "old"), second=5, partition=1, id=1, ts=5000)
        for at, table in enumerate(tables)
    ]
    yield old
    both = []
    for at, (table, batch) in enumerate(tables.items()):
        both.append(canal(at, "TRUNCATE", table, sql=f"TRUNCATE TABLE {table}", second=20, id=1, ts=20_500))
        both.append(canal(2 + at, "INSERT", table, row(2, "waited"), second=18, partition=1, **batch))
    yield both
    assert {table: topic.names(table) for table in tables} == {key: {2: "waited"} for key in tables}
    assert states_of(topic) == dict.fromkeys(tables, "stale")


@together
def test_names_that_are_exchanged_or_come_late_are_said(topic):
    named = {"id": "int", "title": "varchar(20)"}
    yield [canal(at, "INSERT", name, row(at, name)) for at, name in enumerate("abcd")]
    yield [
        canal(4, "RENAME", "a", sql="RENAME TABLE a TO swap, b TO a, swap TO b", second=9),
        canal(5, "ALTER", "c", sql="ALTER TABLE c RENAME COLUMN name TO title", second=9),
        canal(6, "INSERT", "c", {"id": "8", "title": "new"}, named, second=10),
        canal(0, "INSERT", "d", {"id": "8", "title": "new"}, named, second=10, partition=1),
    ]
    yield [
        canal(1, "INSERT", "c", row(9, "late"), second=8, partition=1),
        canal(7, "ALTER", "d", sql="ALTER TABLE d RENAME COLUMN name TO title", second=9),
    ]
    assert states_of(topic) == {"a": "stale", "b": "stale", "c": "ok", "d": "ok"}
    assert topic.rows("c") == [{"id": 2, "title": "c"}, {"id": 8, "title": "new"}, {"id": 9, "title": "late"}]
    assert {one["id"]: one["title"] for one in topic.rows("d")} == {3: "d", 8: "new"}


PEOPLE = [
    (canal(0, "INSERT", "people", row(1, "x"), second=5), {"people": "ok"}),
    (
        canal(1, "RENAME", "people", sql="RENAME TABLE people TO persons", second=10),
        {"people": "renamed", "persons": "ok"},
    ),
    (canal(2, "CREATE", "people", sql="CREATE TABLE people (id int PRIMARY KEY)", second=20), {"people": "ok"}),
    (canal(3, "ERASE", "people", sql="DROP TABLE people", second=30), {"people": "dropped", "persons": "ok"}),
    (canal(4, "INSERT", "persons", row(2, "y"), second=40), {"people": "dropped", "persons": "ok"}),
]
"""Messages, and the states after each."""


def created_again(topic):
    """The table has rows again."""
    created = canal(5, "CREATE", "people", sql="CREATE TABLE people (id int PRIMARY KEY)", second=50)
    yield [created, canal(6, "INSERT", "people", row(3, "z"), second=60)]
    assert {status["state"] for status in topic.states().values()} == {"ok"}
    assert topic.names("people") == {3: "z"}
    assert topic.names("persons") == {1: "x", 2: "y"}


@together
def test_a_table_that_is_renamed_or_dropped_says_so_until_it_is_created(topic):
    for message, states in PEOPLE:
        yield [message]
        found = topic.states()
        assert {name: found[name]["state"] for name in states} == states
        if states["people"] == "renamed":
            assert found["people"]["statement"] == "RENAME TABLE people TO persons"
            assert found["people"]["reason"] == f"the table was renamed to {topic.database}.persons"
    yield from created_again(topic)


@in_soak
def test_a_table_that_was_renamed_and_dropped_in_a_batch_says_so_until_it_is_created(topic):
    yield [message for message, _ in PEOPLE]
    assert states_of(topic) == PEOPLE[-1][1]
    yield from created_again(topic)
