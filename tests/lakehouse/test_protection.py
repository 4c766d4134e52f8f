"""Columns that are excluded or masked, while tables and columns are renamed: no file of a target has such a value."""

import random
import re
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lake_topic import Topic, canal
from secrets_source import SECRET, Source, micro_batches

ASIDE = {"dead", "dead_quarantine", "ddl", "status"}


def leaks(lake: Path) -> set[str]:
    """The targets that have a secret in one of their files, whatever version of the table the file is of."""
    files = [path for path in lake.rglob("*") if path.is_file() and path.relative_to(lake).parts[0] not in ASIDE]
    return {str(path.relative_to(lake).parent) for path in files if SECRET in text_of(path)}


def text_of(path: Path) -> str:
    if path.suffix == ".parquet" and not path.name.startswith("."):
        return str(pq.read_table(path).to_pydict()) + path.read_bytes().decode("latin-1")
    return path.read_bytes().decode("latin-1")


def shown(row: dict, rules: dict) -> dict:
    """What a target has of a row."""
    masked = {name: value and sha256(value.encode()).hexdigest() for name, value in row.items()}
    kept = {name: masked[name] if name in rules["mask"] else row[name] for name in row if name not in rules["exclude"]}
    return {name: value for name, value in kept.items() if value is not None}


def replicated(spark, folder, seed, steps, partitions, batches=3):
    rng = random.Random(seed)
    source = Source(rng, tables=2, partitions=partitions)
    for _ in range(steps):
        source.step()
    topic = Topic(spark, folder)
    for batch in [source.first, *micro_batches(source.messages, rng, batches)]:
        if batch:
            topic.replicate(*batch, columns=source.rules)
        assert leaks(topic.lake) == set()
    return source, topic


def wrong(source, topic):
    """The tables that have other rows than the source, although their state is `ok`; and how many are right."""
    states, right, bad = topic.states(), 0, {}
    for name, table in source.tables.items():
        rules = source.rules_of[name]
        if name not in states or states[name]["state"] != "ok":
            continue
        wanted = [{"id": key, **shown(table.rows[key], rules)} for key in sorted(table.rows)]
        # A column that the source dropped is kept.
        names = {"id", *table.columns}
        found = [{k: v for k, v in row.items() if k in names and v is not None} for row in topic.rows(name)]
        right += found == wanted
        if found != wanted:
            bad[name] = (wanted, found)
    return bad, right


@pytest.mark.parametrize(("seed", "partitions"), [pytest.param(1, 1, marks=pytest.mark.soak), (4, 3)])
def test_no_secret_is_in_a_target(spark, tmp_path, seed, partitions):
    source, topic = replicated(spark, tmp_path, seed, 4, partitions, batches=2)
    assert any(SECRET in one["value"].decode() for one in source.messages)
    bad, _ = wrong(source, topic)
    assert bad == {}


def test_a_table_is_renamed_and_copied_in_one_batch(spark, tmp_path):
    """The copy has the rules of its original, which the original has by its former name."""
    topic, rules = Topic(spark, tmp_path), {"shop.a": {"exclude": ["s"]}}
    cells = {"id": "1", "s": SECRET, "v": "plain"}
    topic.replicate(canal(0, "INSERT", "a", cells, dict.fromkeys(cells, "varchar(9)")), columns=rules)
    copied = {"id": "1", "s": SECRET, "w": "plain"}
    statements = [
        ("ALTER", "a", "ALTER TABLE a ADD COLUMN x int"),
        ("RENAME", "a", "RENAME TABLE a TO b"),
        ("ALTER", "_b_gho", "ALTER TABLE _b_gho CHANGE v w varchar(9)"),
        ("RENAME", "b", "RENAME TABLE b TO _b_del, _b_gho TO b"),
    ]
    followed = [
        canal(2 * at, kind, table, sql=sql, second=2 * at) for at, (kind, table, sql) in enumerate(statements, 1)
    ]
    row = canal(7, "INSERT", "_b_gho", copied, dict.fromkeys(copied, "varchar(9)"), second=7)
    topic.replicate(*followed[:3], row, followed[3], columns=rules)
    assert leaks(topic.lake) == set()
    assert [{name: one[name] for name in one if one[name]} for one in topic.rows("b")] == [{"id": "1", "w": "plain"}]


def test_a_table_is_renamed_before_its_first_row(spark, tmp_path):
    """The log remembers the former name, whose rules hold, after a restart too."""
    topic, rules = Topic(spark, tmp_path), {"shop.users": {"exclude": ["phone"]}}
    topic.replicate(canal(0, "RENAME", "users", sql="RENAME TABLE users TO people"), columns=rules)
    cells = {"id": "1", "phone": SECRET}
    topic.replicate(canal(1, "INSERT", "people", cells, dict.fromkeys(cells, "varchar(9)"), second=1), columns=rules)
    assert leaks(topic.lake) == set()
    assert topic.rows("people") == [{"id": "1"}]


def test_a_column_of_a_shard_is_renamed_before_another_one_creates_the_target(spark, tmp_path):
    """The target remembers it, although it is of a table with other rules."""
    topic, rules = Topic(spark, tmp_path), {"shop.t_1": {"exclude": ["phone"]}}
    topic.target = {re.compile(r"shop\.t_\d+"): f"{topic.lake}/shop/t"}

    def inserted(at, table, tel):
        cells = {"id": str(at), "tel": tel}
        return canal(at, "INSERT", table, cells, dict.fromkeys(cells, "varchar(9)"), second=at)

    renamed = canal(0, "ALTER", "t_1", sql="ALTER TABLE t_1 CHANGE phone tel varchar(9)")
    for batch in (renamed, inserted(1, "t_0", "plain"), inserted(2, "t_1", SECRET), inserted(3, "t_1", SECRET)):
        topic.replicate(batch, columns=rules)
    assert leaks(topic.lake) == set()
    assert topic.states()["t_1"]["state"] == "quarantined"
    assert topic.rows("t") == [{"id": "1", "tel": "plain"}]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 40))
def test_no_secret_is_in_a_target_after_many_migrations(spark, tmp_path, seed):
    source, topic = replicated(spark, tmp_path, seed, 30, 1 + 2 * (seed % 2))
    bad, _ = wrong(source, topic)
    assert bad == {}
