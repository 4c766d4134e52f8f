"""Where the rows of a batch belong, by the statements of the log and the columns that the messages declare."""

import pytest

pytest.importorskip("pyspark")  # rows of a batch are grouped by Spark

from pyspark.sql import Row

from towpath.lakehouse.log import statement_log
from towpath.lakehouse.log.ordered_statements import Place, Statement, completed, read_statement
from towpath.lakehouse.log.routed_tables import routed
from towpath.lakehouse.log.statement_log import StatementLog
from towpath.lakehouse.log.timeline import Columns
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.order.order import ORDER_FIELDS
from towpath.lakehouse.statements import read_statements
from towpath.lakehouse.tables.own_table import LogTable

T = ("shop", "t")
FACTS = {"kind": "change", "topic": "k", "messages": 1, "rows": 1, "size": 9}


def statement(text, commit, partition=0):
    place = Place({**dict.fromkeys(ORDER_FIELDS), "commit_ts": commit, "partition": partition})
    return Statement(place, text, "shop", None, tuple(read_statements(text, "shop", None)))


def log_of(*texts):
    log = StatementLog(None, TaskMerges())
    assert log.append(None, [statement(text, 2 * at) for at, text in enumerate(texts)]).late == []
    return log


def counted(name, surely, after, reached):
    """Rows of a table that are after some of the statements about it."""
    row = {**FACTS, "database": "shop", "table": name, "declared": 5, "has_commit": True, "in_log": False}
    return Row(**row, slice=f"{surely}/{after}/{reached}/5")


def led(texts, surely, after, reached, declared=None):
    """The table of a row of `t` that is after some of the statements about `t`."""
    row = counted("t", surely, after, reached)
    timelines = {T: log_of(*texts).timeline(None, T)}
    [table] = routed([row], {}, timelines, lambda _: declared)
    assert table.slices == {row["slice"]}
    return table


@pytest.mark.parametrize(("modify", "parts"), [((), {3}), (["u MODIFY COLUMN c bigint"], {0})])
def test_the_rows_of_a_table_are_merged_at_once_unless_their_values_decide(modify, parts):
    log = log_of(*(f"ALTER TABLE {text}" for text in ["t ADD COLUMN c int DEFAULT 3", "t RENAME TO u", *modify]))
    timelines = {name: log.timeline(None, name) for name in (T, ("shop", "u"))}
    rows = [counted("t", 0, 0, 0), counted("t", 1, 1, 1), counted("u", 1, 1, 1)]
    found = routed(rows, {}, timelines, lambda _: None)
    assert {one.key for one in found} == {("shop", "u")}
    assert {len(one.parts) for one in found} == parts
    assert sum(one.rows for one in found) == 3


def test_a_row_goes_to_the_table_that_has_its_table_now():
    texts = ["RENAME TABLE t TO u", "CREATE TABLE t (id int)", "RENAME TABLE u TO v"]
    older, newer = led(texts, 0, 0, 0), led(texts, 2, 2, 2)
    assert (older.key, older.name_key) == (("shop", "v"), T)
    assert (newer.key, newer.former, newer.columns) == (T, None, Columns())


@pytest.mark.parametrize("text", ["TRUNCATE TABLE t", "DROP TABLE t; CREATE TABLE t (id int)"])
def test_a_row_that_may_be_gone_stays_and_is_doubtful(text):
    count = text.count("TABLE")
    assert led([text], 0, 0, 0).is_gone
    assert led([text], count, count, count).is_carried
    table = led([text], 0, 0, count)
    assert (table.is_gone, table.key) == (False, T)
    assert (table.candidates, "older or newer" in table.doubt) == ({T}, True)


def test_each_table_that_may_have_a_row_is_doubtful():
    texts = ["RENAME TABLE t TO u", "CREATE TABLE t (id int)"]
    table, after_drop = led(texts, 0, 0, 2), led([*texts, "DROP TABLE t", "CREATE TABLE t (id int)"], 0, 0, 2)
    assert (table.key, table.candidates) == (T, {T, ("shop", "u")})
    assert (after_drop.is_gone, after_drop.candidates) == (True, {("shop", "u")})
    migrated = ["RENAME TABLE t TO _t_del, _t_gho TO t"]
    assert led(migrated, 0, 0, 1).candidates == {T, ("shop", "_t_del")}


def test_no_row_is_older_than_the_creation_of_its_table():
    assert led(["CREATE TABLE t (id int)"], 0, 0, 1).is_carried


def test_columns_say_which_rows_are_older():
    texts = ["ALTER TABLE t RENAME COLUMN v TO w", "ALTER TABLE t ADD COLUMN v int DEFAULT 7"]
    older, newer = led(texts, 0, 0, 2, {"id", "v"}), led(texts, 0, 2, 2, {"id", "v", "w"})
    assert (older.columns.names, [one.initial for one in older.columns.added.values()]) == ({"v": "w"}, ["7"])
    assert newer.columns == Columns()
    assert led(texts, 0, 1, 2, {"id", "w"}).columns.names == {}


def test_places_decide_where_a_column_has_the_name_of_another():
    texts, columns = ["ALTER TABLE t DROP COLUMN c, ADD COLUMN c int DEFAULT 3"], {"id", "c"}
    older, newer = led(texts, 0, 0, 0, columns), led(texts, 0, 2, 2, columns)
    assert (older.columns.names, list(older.columns.added), older.doubt) == ({"c": None}, ["c"], None)
    assert (newer.columns, newer.doubt) == (Columns(), None)
    assert "older or newer" in led(texts, 0, 0, 2, columns).doubt
    assert led(["ALTER TABLE t RENAME COLUMN c TO C"], 0, 0, 1, columns).doubt is None


def test_the_columns_of_a_dropped_table_say_nothing_of_the_next_one():
    """Its CREATE TABLE is read later."""
    texts = ["ALTER TABLE t RENAME COLUMN v TO w", "ALTER TABLE t ADD COLUMN v int DEFAULT 7", "DROP TABLE t"]
    assert led(texts, 0, 3, 3, {"id", "v"}).columns == Columns()


@pytest.mark.parametrize(
    ("columns", "names"),
    [({"id", "v"}, {"v": "w"}), ({"id", "v", "c"}, {"v": "w", "c": "v"}), ({"id", "w", "c"}, {"c": "v"})],
)
def test_a_column_that_was_added_and_renamed_later_says_which_rows_are_newer(columns, names):
    texts = ["ADD COLUMN c int DEFAULT 3", "RENAME COLUMN v TO w", "RENAME COLUMN c TO v"]
    table = led([f"ALTER TABLE t {one}" for one in texts], 0, 0, 3, columns)
    assert table.columns.names == names
    assert table.columns.added.keys() == ({"v"} if "c" not in columns else set())


def test_a_row_before_a_statement_that_is_not_followed_is_doubtful():
    assert "PARTITION" in led(["ALTER TABLE t TRUNCATE PARTITION p"], 0, 0, 0).doubt
    assert led(["ALTER TABLE t TRUNCATE PARTITION p"], 1, 1, 1).doubt is None


def test_the_log_has_each_statement_once_and_says_which_are_late():
    log = log_of("CREATE TABLE t (id int)", "RENAME TABLE t TO u")
    copy = statement("RENAME TABLE t TO u", 2, partition=2)
    late, other = (statement(f"ALTER TABLE {name} ADD COLUMN c int", 1) for name in "ta")
    assert log.append(None, [copy, late, other]) == ([late, other], [late])
    first = statement("RENAME TABLE t TO u", 2)
    assert log.append(None, [copy, first]) == ([first], [])  # it is read again, since its batch failed
    assert [one.text for one, _ in log.timeline(None, ("shop", "u")).steps] == [
        "CREATE TABLE t (id int)",
        late.text,
        copy.text,
    ]
    assert log.names(None) == {("shop", name) for name in "tua"}


@pytest.mark.parametrize(
    "text", ["DROP DATABASE shop", "ALTER TABLE t SOMETHING", "TRUNCATE TABLE T", "DROP DATABASE Shop"]
)
def test_the_log_has_the_tables_that_a_statement_does_not_name(text):
    """A query that begins again reads them from the log, whatever it knows of tables."""
    known = [T, ("shop", "u"), ("shop", "something")]
    place = Place({**dict.fromkeys(ORDER_FIELDS), "commit_ts": 1})
    said = dict.fromkeys(("table_changes", "schema", "connector", "table")) | {"sql": text, "database": "shop"}
    of_case = {("shop", "T"): [T]}
    first = completed(read_statement(place, said), lambda: known, lambda *name: of_case.get(name, []))
    assert T in first.tables
    assert statement_log._Entry(statement_log._Entry.of(first).row).statement == first


def test_a_log_that_could_not_be_read_is_read_again(monkeypatch):
    """Else a query would go on as if there were no statements."""

    def fails(*_):
        raise OSError("the store is away")

    monkeypatch.setattr(LogTable, "rows", fails)
    log = StatementLog("/lake/status_statements", TaskMerges())
    for _ in range(2):
        with pytest.raises(OSError, match="the store is away"):
            log.names(None)
