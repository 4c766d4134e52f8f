"""The rules of a table and of a column follow their names, and those of the copies that online migrations make."""

import random

import pytest

pytest.importorskip("pyspark")  # rows of a batch are grouped by Spark

from pyspark.sql import Row

from migrating_source import SECRET, MigratingSource
from towpath.lakehouse.log.ordered_statements import Place, Statement
from towpath.lakehouse.log.routed_tables import routed
from towpath.lakehouse.log.statement_log import StatementLog
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.order.order import ORDER_FIELDS
from towpath.lakehouse.rules.column_rules import ColumnRules
from towpath.lakehouse.rules.protection import Protection
from towpath.lakehouse.rules.rule_names import is_copy, originals, rule_of
from towpath.lakehouse.statements import read_statements

SEEDS = 200
FACTS = {"kind": "change", "topic": "k", "messages": 1, "rows": 1, "size": 9, "has_commit": True, "in_log": False}
RULES = {f"shop.{name}": ColumnRules(None, frozenset({f"s_{name}"}), {f"m_{name}": "'*'"}) for name in "tuv"}

LONG = "a" * 60 + "bcde"


@pytest.mark.parametrize(
    ("copy", "table"),
    [
        # gh-ost's names: https://github.com/github/gh-ost/blob/master/go/base/context.go (getSafeTableName)
        ("_users_gho", "users"),
        ("_users_ghc", "users"),
        ("_users_del", "users"),
        ("_users_20240131235959_del", "users"),
        (f"_{LONG[:59]}_gho", LONG),
        (f"_{LONG[:44]}_20240131235959_del", LONG),
        # pt-online-schema-change: --new-table-name %T_new with up to ten underscores before it
        ("_users_new", "users"),
        ("___users_old", "users"),
        ("__users_new", "_users"),
        ("_users_new_new", "users_new"),
    ],
)
def test_copies(copy, table):
    assert is_copy(copy, table)
    assert rule_of({f"shop.{table}": "rule"}, "shop", copy) == "rule"
    assert rule_of({f"shop.{table}": "rule"}, "other", copy) is None


@pytest.mark.parametrize("name", ["users", "users_new", "_users", "_users_gho2", "_gho", "__new", "_users_ghost"])
def test_other_names(name):
    assert originals(name) == []


def test_an_own_rule_is_taken():
    assert rule_of({"shop.users": 1, "shop._users_new": 2}, "shop", "_users_new") == 2


def statement(text, place):
    of_text = Place({**dict.fromkeys(ORDER_FIELDS), "commit_ts": place, "offset": place, "partition": 0})
    return Statement(of_text, text, "shop", None, tuple(read_statements(text, "shop", None)))


def migrated(seed):
    """A source of tables with secrets, and the rules for them by its statements."""
    source = MigratingSource(random.Random(seed), is_copied=False, has_secrets=True)
    for _ in range(60):
        source.step()
    log = StatementLog(None, TaskMerges())
    log.append(None, [statement(one.statement, one.place) for one in source.events if one.statement])
    return source, Protection(None, RULES, log)


def test_a_column_has_the_rules_of_all_names_that_it_and_its_table_had():
    for seed in range(SEEDS):
        source, protection = migrated(seed)
        for table, columns in source.names.items():
            rules = protection.of(("shop", table))
            for column in columns:
                is_excluded, is_masked = (source.hides(one, table, column) for one in ("s_", "m_"))
                found = rules.keeps(column), rules.mask(column) is not None
                assert found == (not is_excluded, is_masked), (seed, table, column)


def test_the_rules_of_a_row_hide_its_secrets_and_nothing_else():
    """A row has the rules at its write time, and the rules of its columns' later names.

    Rows of a batch share the rules of a table. So a row does not restrict a column that it lacks, or that has the name
    of one of its own which was dropped.
    """
    for seed in range(SEEDS // 2):
        source, protection = migrated(seed)
        for event in source.events:
            secrets = [name.lower() for name, value in (event.cells or {}).items() if is_secret(value)]
            if not secrets:
                continue
            table = route(protection, event)
            rules, written = protection.of_rows(table), protection.as_written(table)
            current = {one: table.columns.now(one) or one for one in secrets}
            carried = [now for one, now in current.items() if table.columns.source(now) == one]
            found = [*map(written, secrets), *(rules.find(one.lower()) for one in carried)]
            assert all(not one.is_kept or one.mask for one in found), (seed, event)
            if not (table.is_gone or table.dropped):
                for column in source.names[table.name]:
                    hides = [source.hides(one, table.name, column) for one in ("s_", "m_")]
                    assert [not rules.keeps(column), rules.mask(column) is not None] == hides, (seed, event, column)


def is_secret(value):
    return value is not None and value.isdigit() and int(value) >= SECRET


def route(protection, event):
    """The table to which a row belongs now."""
    timeline = protection.log.timeline(None, ("shop", event.table))
    after = sum(place.fields["commit_ts"] < event.place for place in timeline.places(("shop", event.table)))
    row = Row(**FACTS, database="shop", table=event.table, declared=5, slice=f"{after}/{after}/{after}/0")
    [table] = routed([row], {}, {("shop", event.table): timeline}, lambda _: None)
    return table


def test_a_hidden_column_that_a_statement_creates_is_missed_before_there_is_a_target():
    """`CHANGE c7 c10` and `CHANGE m_v c7` are not read yet, so `c7` may have the values of `m_v`."""
    log = StatementLog(None, TaskMerges())
    declared = [["v", "c7", "c10"]]
    assert Protection(None, RULES, log).of(("shop", "v")).denying("shop.v", declared, None).left_out == frozenset()
    log.append(None, [statement("CREATE TABLE v (id int PRIMARY KEY, v int, m_v int, c7 int)", 1)])
    with pytest.raises(ValueError, match="declare c10, which no statement added, and no longer declare m_v"):
        Protection(None, RULES, log).of(("shop", "v")).denying("shop.v", declared, None)
    log.append(None, [statement(f"ALTER TABLE v CHANGE {one} int", at) for at, one in ((2, "c7 c10"), (3, "m_v c7"))])
    rules = Protection(None, RULES, log).of(("shop", "v")).denying("shop.v", declared, None)
    assert (rules.left_out, rules.mask("c7") is not None, rules.mask("c10")) == (frozenset(), True, None)


@pytest.mark.parametrize(("change", "now"), [("DROP COLUMN c", []), ("RENAME COLUMN c TO d", ["d"])])
def test_a_column_explains_no_other_one_that_gets_its_name(change, now):
    log, columns = StatementLog(None, TaskMerges()), ["v", "s_v", "m_v", "c", *now]
    texts = ["CREATE TABLE v (id int PRIMARY KEY, v int, s_v int, m_v int, c int)", f"ALTER TABLE v {change}"]
    log.append(None, [statement(text, at) for at, text in enumerate(texts)])
    before, after = (Protection(None, RULES, log).of(("shop", "v"), cut) for cut in (1, 2))
    assert before.denying("shop.v", [columns[:4]], {*columns}).left_out == frozenset()
    assert after.denying("shop.v", [columns], {*columns}).left_out == {"c"}
    with pytest.raises(ValueError, match="declare c, which no statement added, and no longer declare m_v"):
        after.denying("shop.v", [["v", "s_v", "c", *now]], {*columns})
