"""No file of a target has a value of a column that is excluded or masked. `test_migrations.py` has a random source."""

import re
from hashlib import sha256

import pytest

import towpath
from lake_topic import Topic, canal

SECRET = "SECRET"
RULES = {"shop.users": {"exclude": ["phone"]}}


@pytest.fixture
def topic(spark, tmp_path):
    found = Topic(spark, tmp_path)
    yield found
    assert found.files_with(SECRET) == set()


def inserted(at, table="users", **cells):
    cells = {"id": str(at), **cells}
    return canal(at, "INSERT", table, cells, dict.fromkeys(cells, "varchar(9)"), second=at)


def said(at, text, kind="ALTER", table="users"):
    return canal(at, kind, table, sql=text, second=at)


def replicated(topic, *batches, rules=None):
    """Apply batches, each by a query that remembers what is in its tables only."""
    for messages in batches:
        topic.replicate(*messages, columns=RULES if rules is None else rules)


def test_a_table_is_renamed_and_copied_in_one_batch(topic):
    """The copy has the rules of its original, which the original has by its former name."""
    statements = [
        said(2, "ALTER TABLE users ADD COLUMN x int"),
        said(4, "RENAME TABLE users TO b", "RENAME"),
        said(6, "ALTER TABLE _b_gho CHANGE v w varchar(9)", table="_b_gho"),
    ]
    copied = inserted(7, "_b_gho", phone=SECRET, w="plain")
    exchanged = said(8, "RENAME TABLE b TO _b_del, _b_gho TO b", "RENAME", "b")
    replicated(topic, [inserted(0, phone=SECRET, v="plain")], [*statements, copied, exchanged])
    assert [(one["id"], one["w"]) for one in topic.rows("b")] == [("7", "plain")]


def test_a_table_is_renamed_before_its_first_row(topic):
    """The log remembers the former name, whose rules hold, after a restart too."""
    replicated(topic, [said(0, "RENAME TABLE users TO people", "RENAME")], [inserted(1, "people", phone=SECRET)])
    assert topic.rows("people") == [{"id": "1"}]


def test_a_column_is_renamed_without_a_word(topic):
    """It may have any name that nothing explains, or that of a column which got one: the rows wait."""
    rows = inserted(1, tel=SECRET, a="x"), inserted(2, a=SECRET, b="y")
    replicated(topic, [inserted(0, phone=SECRET, a="w")], rows[:1], rows[1:])
    assert topic.rows("users") == [{"id": "0", "a": "w"}]
    state = topic.states()["users"]
    assert (state["state"], "declare b, of which nothing was read, and not phone" in state["reason"]) == (
        "quarantined",
        True,
    )
    rules = {"shop.users": {"exclude": ["phone", "tel", "a"], "mask": {"b": "value"}}}
    own = {name: topic.options[name] for name in ("dead_letters", "status")}
    towpath.spark.reprocess(topic.spark, **own, columns=rules)
    assert [(one["id"], one["b"]) for one in topic.rows("users")] == [("0", None), ("1", None), ("2", "y")]


def test_a_column_that_nothing_explains_is_left_out_until_a_rule_names_it(topic):
    rows = [inserted(at, phone=SECRET, **({"new": SECRET} if at else {})) for at in range(2)]
    replicated(topic, rows[:1], rows[1:])
    assert topic.rows("users") == [{"id": "0"}, {"id": "1"}]
    state = topic.states()["users"]
    assert (state["state"], "no statement that was read added new," in state["reason"]) == ("stale", True)
    accepted = {"shop.users": {"exclude": ["phone"], "mask": {"new": "value"}}}
    replicated(topic, [inserted(2, phone=SECRET, new="plain")], rules=accepted)
    assert [one["new"] for one in topic.rows("users")] == [None, None, "plain"]


def test_a_column_that_a_statement_adds_is_plain(topic):
    added = said(1, "ALTER TABLE users ADD COLUMN new varchar(9) DEFAULT 'd'")
    replicated(topic, [inserted(0, phone=SECRET)], [added], [inserted(2, phone=SECRET, new="plain")])
    assert [one["new"] for one in topic.rows("users")] == ["d", "plain"]
    assert topic.states()["users"]["state"] == "ok"


def test_columns_that_are_renamed_keep_their_rules(topic):
    rules = {"shop.users": {"exclude": ["phone"], "mask": {"mail": "sha2(value, 256)"}}}
    renamed = said(1, "ALTER TABLE users RENAME COLUMN mail TO address, CHANGE phone tel varchar(9)")
    rows = inserted(0, phone=SECRET, mail=SECRET), inserted(2, tel=SECRET, address=SECRET)
    replicated(topic, rows[:1], [renamed], rows[1:], rules=rules)
    hidden = sha256(SECRET.encode()).hexdigest()
    assert topic.rows("users") == [{"id": "0", "address": hidden}, {"id": "2", "address": hidden}]
    assert topic.states()["users"]["state"] == "ok"
    again = [
        said(3, "DROP TABLE users", "ERASE"),
        said(4, "CREATE TABLE users (id int PRIMARY KEY, tel text)", "CREATE"),
    ]
    replicated(topic, again, [inserted(5, tel="plain")], rules=rules)
    assert [(one["id"], one["tel"]) for one in topic.rows("users")] == [("5", "plain")]


def test_a_rebuilt_target_and_one_with_a_snapshot_have_the_rules_of_former_names(topic):
    statements = [
        said(1, "ALTER TABLE users CHANGE phone tel varchar(9)"),
        said(2, "RENAME TABLE users TO people", "RENAME"),
    ]
    replicated(topic, [inserted(0, phone=SECRET)], statements)
    row = inserted(3, "people", tel=SECRET)
    snapshot = topic.spark.sql(f"SELECT '7' AS id, '{SECRET}' AS tel")
    rebuild = towpath.spark.rebuild
    own = {"status": topic.options["status"], "columns": RULES["shop.users"]}
    rebuild(topic.frame(row), "shop.people", topic.target, **own, snapshot=snapshot)
    assert topic.rows("people") == [{"id": "3"}, {"id": "7"}]
    rebuild(topic.frame(row), "shop.people", topic.target, **own)
    assert topic.rows("people") == [{"id": "3"}]
    with pytest.raises(ValueError, match="no statement that was read added new"):
        rebuild(topic.frame(row), "shop.people", topic.target, **own, snapshot=snapshot.selectExpr("*", "1 AS new"))
    topic.spark.sql(f"DROP TABLE IF EXISTS {topic.sql_name('shop/people')}")
    topic.target = {"shop.people": f"{topic.lake}/shop/again"}
    topic.replicate(row, columns=RULES, snapshots={"shop.people": snapshot})
    assert topic.rows("again") == [{"id": "3"}, {"id": "7"}]


def test_a_column_of_a_shard_is_renamed_before_another_one_creates_the_target(topic):
    """The log remembers it. A column that the target has from another table explains none."""
    topic.target = {re.compile(r"shop\.t_\d+"): f"{topic.lake}/shop/t"}
    rules = {f"shop.t_{at}": {"exclude": ["phone"]} for at in (1, 2)}
    renamed = said(0, "ALTER TABLE t_1 CHANGE phone tel varchar(9)", table="t_1")
    rows = inserted(1, "t_0", tel="plain"), inserted(2, "t_1", tel=SECRET), inserted(3, "t_2", tel=SECRET)
    replicated(topic, [renamed], *([one] for one in rows), rules=rules)
    assert topic.rows("t") == [{"id": "1", "tel": "plain"}, {"id": "2", "tel": None}]
    assert {name: one["state"] for name, one in topic.states().items()} == {
        "t_0": "ok",
        "t_1": "ok",
        "t_2": "quarantined",
    }


def test_rules_need_a_log(topic):
    with pytest.raises(ValueError, match="columns: give status too"):
        topic.replicate(inserted(0), columns=RULES, status=None)
