"""What features do together that each does right alone."""

import random
import re

import pyarrow as pa
import pytest

import towpath
from lake_cases import Together
from lake_topic import Topic, canal, of_delta, row
from towpath.lakehouse.batches import Replicator
from towpath.lakehouse.following.carried_rows import are_changed, initial_value
from towpath.lakehouse.following.converted_values import is_converted, relabelled
from towpath.lakehouse.log.statement_log import StatementLog
from towpath.lakehouse.merging import by_spark, by_tasks
from towpath.lakehouse.merging.target_writer import TargetWriter
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.replicate_options import ReplicateOptions
from towpath.lakehouse.seen.status import TableStatus
from towpath.lakehouse.seen.status_table import StatusTable
from towpath.lakehouse.statements import Column, read_statements
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import Sql, column, string
from towpath.lakehouse.tables.targets import Targets

together = Together()

CODES = {"code": "varchar(9)", "v": "int"}


def coded(topic, table):
    frame = topic.load(f"shop/{table}")
    return {one["code"]: one["v"] for one in frame.collect()}


@together.having(keys={"shop.moved": ["code"], "shop.cased": ["CODE"]})
def test_an_update_of_a_key_that_only_the_user_knows(topic):
    """The message does not say that another row is gone."""
    tables = ["moved", "cased"]
    yield [canal(at, "INSERT", name, {"code": "a", "v": "1"}, CODES, pkNames=None) for at, name in enumerate(tables)]
    yield [
        canal(9 + at, "UPDATE", name, {"code": "b", "v": "1"}, CODES, old={"code": "a"}, pkNames=None)
        for at, name in enumerate(tables)
    ]
    assert [coded(topic, name) for name in tables] == [{"b": 1}, {"b": 1}]


@together
def test_a_moved_row_without_all_columns_is_a_dead_letter(topic):
    types = {"id": "int", "a": "int", "b": "int"}
    yield [canal(0, "INSERT", "partial", {"id": "1", "a": "1", "b": "2"}, types)]
    yield [canal(1, "UPDATE", "partial", {"id": "2", "a": "3"}, types, old={"id": "1", "a": "1"})]
    assert topic.rows("partial") == []
    assert [one["table"] for one in topic.read("dead")] == ["partial"]


CONVERTED = [
    ("decimal(6,2)", "1.55", "decimal(6,0)"),
    ("decimal(6,2)", "1234.50", "decimal(4,1)"),
    ("decimal(6,2)", "1.55", "int"),
    ("double", "1.1", "float"),
    ("datetime", "2024-01-01 00:00:01", "date"),
    ("datetime(6)", "2024-01-01 00:00:00.123456", "datetime"),
    ("datetime(6)", "2024-01-01 00:00:00.123456", "datetime(3)"),
    ("timestamp(3)", "2024-01-01 00:00:00.100", "timestamp"),
    ("time(3)", "10:00:00.500", "time"),
    ("varchar(20)", "1:2:3", "time"),
    ("varchar(20)", "123", "time"),
    ("int", "24", "year"),
    ("varchar(40)", "6CCD780C-BABA-1026-9564-5B8C656024DB", "uuid"),
    ("varchar(40)", "010.0.0.1", "inet4"),
    ("varchar(40)", "2001:DB8::1", "inet6"),
    ("varchar(20)", "longer", "varchar(5)"),
    ("varchar(9)", "ends ", "char(9)"),
    ("text", "é" * 200, "tinytext"),
    ("varbinary(4)", "ab", "binary(4)"),
    ("blob", "abc", "varbinary(2)"),
    ("enum('a','b')", "b", "enum('a')"),
    ("float", "1.25", "float(5,1)"),
    ("double", "1.25", "double(5,1)"),
    ("int", "-1", "mediumint unsigned"),
    ("int", "9000000", "mediumint"),
    ("bit(8)", "5", "bit(16)"),
]
"""A type, a value, and a type for which MySQL converts it."""
KEPT = [
    ("datetime(6)", "2024-01-01 00:00:00.000000", "datetime"),
    ("datetime", "2024-01-01 00:00:00", "datetime(6)"),
    ("time(3)", "-10:00:00.000", "time"),
    ("varchar(20)", "-100:00:00", "time"),
    ("int", "2024", "year"),
    ("varchar(40)", "6ccd780c-baba-1026-9564-5b8c656024db", "uuid"),
    ("varchar(40)", "10.0.0.1", "inet4"),
    ("varchar(40)", "2001:db8::1", "inet6"),
    ("varchar(40)", "::ffff:10.0.0.1", "inet6"),
    ("varchar(20)", "short", "varchar(5)"),
    ("varchar(9)", "no blank", "char(9)"),
    ("varbinary(4)", "abcd", "binary(4)"),
    ("enum('a','b')", "b", "enum('x','b')"),
    ("set('a','b')", "a,b", "set('a','x','b')"),
    ("set('a','b')", "a,b", "set('b','A')"),
    ("varchar(9)", "red", "enum('Red','blue')"),
    ("float", "1.5", "float(5,1)"),
    ("double", "1.5", "float"),
    ("decimal(6,2)", "2.00", "decimal(7,1)"),
    ("decimal(6,2)", "2.00", "int"),
    ("datetime", "2024-01-01 00:00:00", "date"),
    ("int", "7", "mediumint"),
    ("bigint unsigned", "18446744073709551615", "bigint unsigned"),
    ("json", '{"a": 1}', "json"),
]


def test_values_that_another_type_converts(spark):
    cases = [*CONVERTED, *KEPT]
    values = [initial_value(Column(f"v{at}", old, initial=value)) for at, (old, value, _) in enumerate(cases)]
    frame = spark.createDataFrame(pa.table({f"v{at}": pa.array([one]) for at, one in enumerate(values)}))
    found = frame.selectExpr(*(is_converted(column(f"v{at}"), new) for at, (_, _, new) in enumerate(cases))).first()
    assert [case for case, is_true in zip(cases, found, strict=True) if is_true] == CONVERTED


ALTERED = [
    ("'x'", "varchar(20) GENERATED ALWAYS AS (concat(id, '')) STORED", True),
    ("CAST(NULL AS string)", "varchar(20) NOT NULL", True),
    ("'x'", "varchar(20) NOT NULL DEFAULT 'x'", False),
    ("0", "int AUTO_INCREMENT", True),
    ("1", "int AUTO_INCREMENT", False),
]
"""A value, the new definition of its column, and whether MySQL computes, fills or numbers it."""


def test_values_that_another_definition_changes(spark):
    actions = [read_statements(f"ALTER TABLE t MODIFY v {new}", "shop", "t") for _, new, _ in ALTERED]
    cells = [are_changed(Sql(value), action.column) for (value, *_), [action] in zip(ALTERED, actions, strict=True)]
    assert list(spark.range(1).selectExpr(*cells).first()) == [changed for *_, changed in ALTERED]


def test_labels_get_another_order_or_case(spark):
    random_ = random.Random(53)
    cells, wanted = [], []
    for _ in range(40):
        old = random_.sample(["a", "b c", "O'x", "é", "z"], random_.randint(1, 5))
        new = [random_.choice((one, one.swapcase())) for one in random_.sample(old, len(old))]
        chosen = [one for one in old if random_.random() < 0.5]
        stored = [(",".join(chosen), "set"), (old[0], "enum")]
        now = [",".join(one for one in new if one.swapcase() in chosen or one in chosen)]
        now += [one for one in new if one.lower() == old[0].lower()]
        labels = ",".join("'{}'".format(one.replace("'", "''")) for one in new)
        cells += [relabelled(Sql(string(value)), f"{kind}({labels})") for value, kind in stored]
        wanted += now
    assert list(spark.range(1).selectExpr(*cells).first()) == wanted


def test_shards_of_a_target_have_dead_letters_of_their_own(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    topic.target = {re.compile(r"shop\.t_\d+"): f"{topic.lake}/shop/t"}
    dated = {"id": "int", "day": "date"}
    bad = [canal(at, "INSERT", f"t_{at}", {"id": str(at), "day": "0000-00-00"}, dated) for at in range(4)]
    topic.replicate(*bad, zero_date="error")
    letters = topic.read("dead")
    assert [(one["offset"], one["table"]) for one in letters] == [(at, f"t_{at}") for at in range(4)]
    topic.reprocess(zero_date="null")
    assert sorted(one["id"] for one in topic.rows("t")) == [0, 1, 2, 3]


def test_messages_whose_target_was_refused_wait_for_one(spark, tmp_path, caplog):
    topic = Topic(spark, tmp_path)
    shared = f"{topic.lake}/{{database}}_{{table}}"
    for at, database, table in ((0, "s_t", "u"), (1, "s", "t_u")):
        message = canal(at, "INSERT", table, row(at, database), database=database)
        towpath.spark.replicate(topic.frame(message), shared, "canal-json", **topic.options)

    def waiting():
        return [one["table"] for one in topic.waiting("dead_quarantine")]

    for target in (None, {"s_t.u": f"{topic.lake}/s_t_u"}):
        topic.reprocess(target=target)
        assert waiting() == ["t_u"]
        assert topic.states()["t_u"]["state"] == "quarantined"
        assert "s.t_u: not applied, since it has no target" in caplog.text
    topic.reprocess(target={"s.t_u": f"{topic.lake}/other"})
    assert waiting() == []
    assert topic.states()["t_u"]["state"] == "ok"
    assert [one["id"] for one in of_delta(f"{topic.lake}/other")] == [1]


@pytest.mark.soak
def test_a_history_of_a_table_that_gets_a_key(spark, tmp_path):
    """Its target has several rows of a key."""
    topic = Topic(spark, tmp_path)
    topic.replicate(canal(0, "INSERT", "a", row(1, "x"), pkNames=None), keyless="append")
    later = [canal(1, "UPDATE", "a", row(1, "y"), old={"name": "x"}, second=1), canal(2, "DELETE", "a", row(1, "y"))]
    topic.replicate(*later, keyless="append")
    history = topic.load("shop/a").orderBy("_towpath.offset").collect()
    assert [(one["_op"], one["name"]) for one in history] == [("insert", "x"), ("update", "y"), ("delete", "y")]
    topic.replicate(canal(3, "INSERT", "a", row(2, "x")))
    assert len(topic.read("shop/a")) == 3
    assert "had no key" in topic.states()["a"]["reason"]


@pytest.mark.soak
def test_what_was_applied_to_another_target_is_put_aside_again(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    dated = {"id": "int", "day": "date"}
    messages = [
        canal(0, "INSERT", "keyless", {"a": "1"}, {"a": "int"}, pkNames=None),
        canal(1, "INSERT", "zero", {"id": "1", "day": "0000-00-00"}, dated),
    ]
    for lake in ("lake", "other"):
        topic.lake = tmp_path / lake
        topic.target = f"{topic.lake}/{{database}}/{{table}}"
        topic.replicate(*messages, zero_date="error")
        topic.reprocess(zero_date="null", keys={"shop.keyless": ["a"]})
        assert len(topic.read("shop/keyless")) == len(topic.read("shop/zero")) == 1


def test_a_key_that_is_given_in_another_order(spark, tmp_path):
    """The tombstones have its columns in the first order."""
    topic, types = Topic(spark, tmp_path), {"a": "int", "b": "int"}
    one, other = ({"a": "1", "b": "2"}, {"a": "2", "b": "1"})
    declared = {"pkNames": ["a", "b"]}
    topic.replicate(
        canal(5, "INSERT", "t", one, types, second=5, **declared),
        canal(6, "DELETE", "t", one, types, second=6, **declared),
    )
    late = [canal(0, "INSERT", "t", values, types, second=4, partition=1, **declared) for values in (one, other)]
    topic.replicate(late[0], {**late[1], "offset": 1}, keys={"shop.t": ["B", "a"]})
    assert [(found["a"], found["b"]) for found in topic.read("shop/t")] == [(2, 1)]


def test_a_job_of_tasks_that_fails_is_done_by_spark(spark, tmp_path, monkeypatch, caplog):
    """One table may have ended the worker of all of them."""

    def fail(*_):
        raise RuntimeError("a worker ended")

    monkeypatch.setattr(by_tasks, "merge_in_tasks", fail)
    topic = Topic(spark, tmp_path)
    messages = canal(0, "INSERT", "a", row(1, "x")), canal(1, "INSERT", "b", row(1, "x"))
    with caplog.at_level("INFO", "towpath.spark"):
        topic.replicate(*messages, merge="auto")
    assert (topic.names("a"), topic.names("b")) == ({1: "x"}, {1: "x"})
    assert "a worker ended" in caplog.text


WIDE = {
    "bigint unsigned": ["18446744073709551615", "1234567890123456789", "5"],
    "decimal(18,2)": ["1234567890123456.78", "-9999999999999999.99"],
    "decimal(38,10)": ["1234567890123456789012345678.0123456789"],
    "decimal(15,2)": ["1234567890123.45"],
    "datetime(6)": ["2024-01-01 00:00:00.123456", "1000-01-01 00:00:00.000001"],
    "varchar(200)": ["z" * 100, "\U0010ffff" * 50, "é" * 40],
    "double": ["0.30000000000000004", "-1e300"],
    "float": ["16777218"],
    "bigint": ["9007199254740993"],
}


@together
def test_readers_find_each_value_by_a_filter(topic):
    """Readers skip the files whose statistics exclude a value."""
    cases = [(kind, value) for kind, values in WIDE.items() for value in values]
    types, cells = ({f"v{at}": case[one] for at, case in enumerate(cases)} for one in (0, 1))
    yield [canal(0, "INSERT", "wide", {"id": "1", **cells}, {"id": "int", **types})]
    rows, [found] = topic.load("shop/wide"), topic.rows("wide")
    for at, case in enumerate(cases):
        kind = rows.schema[f"v{at}"].dataType.simpleString()
        condition = f"v{at} = CAST('{found[f'v{at}']!s}' AS {kind})"
        assert (case, rows.filter(condition).count()) == (case, 1)


def test_a_table_in_two_topics_with_targets_of_their_own_is_refused(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    topic.target = f"{topic.lake}/{{topic}}/{{table}}"
    sent = [{**canal(at, "INSERT", "a", row(1, name)), "topic": name} for at, name in enumerate(["eu", "us"])]
    topic.replicate(*sent, {**canal(5, "INSERT", "b", row(1, "eu")), "topic": "eu"})
    assert not (topic.lake / "eu" / "a").exists()
    assert [one["name"] for one in of_delta(f"{topic.lake}/eu/b")] == ["eu"]
    state = topic.states()["a"]
    assert (state["state"], "the topics eu, us" in state["reason"]) == ("quarantined", True)


def test_reprocess_keeps_histories_and_marks_only_what_it_read(spark, tmp_path, monkeypatch):
    topic, dated = Topic(spark, tmp_path), {"id": "int", "day": "date"}
    sent = [
        canal(0, "INSERT", "h", {"id": "1", "day": "2024-01-01"}, dated, pkNames=None),
        canal(1, "INSERT", "h", {"id": "1", "day": "0000-00-00"}, dated, pkNames=None),
    ]
    topic.replicate(*sent, keyless="append", zero_date="error")
    late = canal(2, "INSERT", "h", {"id": "2", "day": "0000-00-00"}, dated, pkNames=None)
    apply = Replicator.__call__

    def meanwhile(replicator, *arguments):
        """A query goes on beside it, and commits what it began before."""
        monkeypatch.undo()
        topic.replicate(late, keyless="append", zero_date="error")
        dead = topic.sql_name("dead")
        spark.sql(f"UPDATE {dead} SET recorded_at = recorded_at - INTERVAL 1 HOUR WHERE offset = 2")
        return apply(replicator, *arguments)

    monkeypatch.setattr(Replicator, "__call__", meanwhile)
    topic.reprocess(zero_date="null")
    waiting = topic.waiting("dead")
    assert [one["offset"] for one in waiting] == [2]
    topic.reprocess(zero_date="null")
    assert len(topic.read("shop/h")) == 3
    assert topic.states()["h"]["state"] == "ok"


@pytest.mark.soak
def test_reprocess_of_dead_letters_leaves_what_waits_in_another_quarantine(spark, tmp_path):
    topic, dated = Topic(spark, tmp_path), {"id": "int", "day": "date"}
    zero = canal(0, "INSERT", "a", {"id": "1", "day": "0000-00-00"}, dated)
    refused = canal(1, "INSERT", "a", {"id": "2"}, {"id": "int"}, pkNames=["other"], second=1)
    quarantine = f"{topic.lake}/elsewhere"
    topic.replicate(zero, zero_date="error", quarantine=quarantine)
    topic.replicate(refused, quarantine=quarantine)
    assert topic.states()["a"]["state"] == "quarantined"
    topic.reprocess(zero_date="null")
    assert (topic.rows("a"), topic.states()["a"]["state"]) == ([{"id": 1, "day": None}], "quarantined")
    topic.reprocess(quarantine=quarantine, keys={"shop.a": ["id"]})
    assert [one["id"] for one in topic.rows("a")] == [1, 2]
    assert topic.states()["a"]["state"] == "ok"


def test_a_row_that_is_deleted_while_an_older_change_is_applied_stays_deleted(spark, tmp_path, monkeypatch):
    """So does one of a table that is truncated meanwhile, and has no row yet."""
    topic, dated = Topic(spark, tmp_path), {"id": "int", "day": "date"}
    rows = [{"id": str(at), "day": day} for at, day in enumerate(["2024-01-01", "0000-00-00", "0000-00-00"])]
    topic.replicate(
        *(canal(at, "INSERT", "a", one, dated, second=5) for at, one in enumerate(rows)),
        canal(3, "INSERT", "b", rows[0], dated, second=5),
        canal(4, "DELETE", "b", rows[0], dated, second=5),
        canal(5, "INSERT", "b", rows[1], dated, second=5),
        zero_date="error",
    )
    waiting = {
        topic.name("shop/a"): canal(9, "DELETE", "a", rows[1], dated, second=10),
        topic.name("shop/b"): canal(10, "TRUNCATE", "b", types=None, sql="TRUNCATE TABLE b", second=10),
    }
    write = TargetWriter.write

    def meanwhile(writer, *arguments):
        """The query deletes a row that it does not find, after its tombstones were read here."""
        if message := waiting.pop(writer._target, None):
            topic.replicate(message)
        return write(writer, *arguments)

    monkeypatch.setattr(by_tasks.ByTasks, "merge", lambda _, batch, tables, *more: ([], tables))
    monkeypatch.setattr(by_spark.BySpark, "_in_driver", lambda *_: None)
    monkeypatch.setattr(TargetWriter, "write", meanwhile)
    topic.reprocess(zero_date="null", parallelism=1)
    assert waiting == {}
    assert [[one["id"] for one in topic.rows(name)] for name in "ab"] == [[0, 2], []]
    assert {name: topic.states()[name]["state"] for name in "ab"} == {"a": "ok", "b": "ok"}


@together.having(keys={"shop.unkeyed": ["id"]})
def test_rows_without_their_key_are_dead_letters(topic):
    """As updates of canal with `binlog_row_image=MINIMAL`, whose messages declare only what they have."""
    yield [canal(at, "INSERT", "unkeyed", row(at, "old")) for at in range(3)]
    partial, old = {"name": "varchar(20)"}, {"old": {"name": "old"}, "pkNames": ["id"]}
    yield [
        *(canal(10 + at, "UPDATE", "unkeyed", {"name": f"new {at}"}, partial, **old) for at in range(2)),
        canal(12, "INSERT", "unkeyed", {"name": "without a key"}, partial, pkNames=["id"]),
        canal(13, "DELETE", "unkeyed", {"name": "old"}, partial, pkNames=["id"]),
        canal(14, "UPDATE", "unkeyed", row(2, "whole"), old={"name": "old"}, second=1),
    ]
    assert topic.names("unkeyed") == {0: "old", 1: "old", 2: "whole"}
    dead = topic.read("dead")
    assert sorted(one["offset"] for one in dead) == [10, 11, 12, 13]
    assert {one["kind"] for one in dead} == {"missing"}


def test_removed_targets_are_noticed_beside_other_queries(spark, tmp_path):
    """Another query with the same table of states has had more batches."""
    topic = Topic(spark, tmp_path)
    status = StatusTable(topic.options["status"])
    status.write(spark, [TableStatus("other", "t", "/other/t", applied=1)], 10_000)
    status.write(spark, [TableStatus("shop", "a", f"{topic.lake}/shop/a", applied=1)], 1)
    options, log = ReplicateOptions(status=topic.options["status"]), StatementLog(None, TaskMerges())
    known = KnownTargets(Targets(topic.target), options, log)
    known.begin(spark, 2)
    assert known.is_removed(spark, f"{topic.lake}/shop/a")
    assert not known.is_removed(spark, "/other/t")


@pytest.mark.soak
def test_reprocess_remembers_what_was_deleted_as_long_as_the_query(spark, tmp_path):
    topic, dated = Topic(spark, tmp_path), {"id": "int", "day": "date"}
    bad = canal(0, "INSERT", "a", {"id": "1", "day": "0000-00-00"}, dated)
    gone = canal(1, "DELETE", "a", {"id": "1", "day": "0000-00-00"}, dated, second=5)
    kept = canal(2, "INSERT", "a", {"id": "2", "day": "2024-01-01"}, dated, second=6)
    topic.replicate(bad, gone, kept, zero_date="error", forget_after="90 days")
    path = topic.sql_name("shop/a__tombstones")
    spark.sql(f"UPDATE {path} SET recorded_at = recorded_at - INTERVAL 30 DAYS")
    for _ in range(2):
        topic.reprocess(zero_date="null")
        spark.sql(f"UPDATE {topic.sql_name('dead')} SET done_at = NULL")
    assert [one["id"] for one in topic.rows("a")] == [2]
    assert spark.table(path).count() == 1


@together.having(keys={"shop.null_given": ["a"]})
def test_null_in_a_key_quarantines_its_table(topic):
    """MySQL's NULLs are distinct: a UNIQUE index, Debezium's message.key.columns or `keys` may be no key."""
    types = {"a": "int", "id": "int"}
    one, null = {"a": "5", "id": "1"}, {"a": None, "id": "2"}

    def sent(at, name, kind, values, **more):
        keys = {"given": [], "composite": ["id", "a"]}.get(name, ["a"])
        return canal(at, kind, f"null_{name}", values, types, pkNames=keys, **more)

    names = ["inserted", "moved", "removed", "given", "composite", "other"]
    yield [sent(at, name, "INSERT", one) for at, name in enumerate(names)]
    nulls = {"moved": ("UPDATE", {"old": {"a": "5"}}), "removed": ("DELETE", {})}
    later = [(name, *nulls.get(name, ("INSERT", {})), null) for name in names[:-1]]
    later.append(("other", "INSERT", {}, {"a": "6", "id": "2"}))
    yield [sent(10 + at, name, kind, values, **more) for at, (name, kind, more, values) in enumerate(later)]
    states = {name: topic.states()[f"null_{name}"] for name in names}
    assert {name: one["state"] for name, one in states.items()} == dict.fromkeys(names, "quarantined") | {"other": "ok"}
    assert all("NULL in the key" in states[name]["reason"] for name in names[:-1])


@together
def test_two_spellings_of_a_column_are_one_column(topic):
    """As after a CHANGE COLUMN that changes the case only."""
    spelled = list(enumerate(["v", "V", "v"]))
    yield [
        canal(at, "INSERT", "spelled", {"id": str(at), name: str(at)}, {"id": "int", name: "int"}, second=at)
        for at, name in spelled
    ]
    assert [list(row.values()) for row in topic.rows("spelled")] == [[at, at] for at, _ in spelled]


@together
def test_both_zeros_are_one_key(topic):
    random_ = random.Random(53)
    forms = [("float", ["k"]), ("double", ["k"]), ("double", ["other", "k"])]
    tables = [{} for _ in forms]
    at = 0
    for _ in range(3):
        batch = []
        for number, (kind, keys) in enumerate(forms):
            for _ in range(6):
                spelled = random_.choice(["-0.0", "0.0", "1.5"])
                row, at = {"k": spelled, "other": "1", "id": str(at)}, at + 1
                old = tables[number].pop(float(spelled), None)  # Python compares zeros as MySQL does
                op = random_.choice(["UPDATE", "DELETE"]) if old else "INSERT"
                changed = old and {name: old[name] for name in old if old[name] != row[name]}
                of_op = {"old": changed} if op == "UPDATE" else {}
                types = {"k": kind, "other": "int", "id": "int"}
                values = old if op == "DELETE" else row
                batch.append(canal(at, op, f"zeros{number}", values, types, pkNames=keys, second=at, **of_op))
                if op != "DELETE":
                    tables[number][float(spelled)] = row
        yield batch
    for number, rows in enumerate(tables):
        wanted = sorted((int(row["id"]), row["k"]) for row in rows.values())
        assert [(row["id"], str(row["k"])) for row in topic.rows(f"zeros{number}")] == wanted
        assert topic.states()[f"zeros{number}"]["state"] == "ok"
