"""The driver ends at any commit of a batch of statements. The batch is read again, and ends as if it had not."""

import random
import shutil
from datetime import datetime, timedelta, timezone

import pytest

import towpath.lakehouse.sql
from lake_topic import TYPES, Topic, canal, row

STATEMENTS = {
    "add": "ALTER TABLE {table} ADD COLUMN z int NOT NULL DEFAULT 7",
    "rename a column": "ALTER TABLE {table} RENAME COLUMN name TO title",
    "modify": "ALTER TABLE {table} MODIFY name varchar(9) NOT NULL",
    "drop": "DROP TABLE {table}",
    "create": "CREATE TABLE {table} (id int PRIMARY KEY, name varchar(20))",
    "truncate": "TRUNCATE TABLE {table}",
    "rename": "RENAME TABLE {table} TO {table}_new",
    "change the key": "ALTER TABLE {table} DROP PRIMARY KEY, ADD PRIMARY KEY (id, name)",
}
KINDS = {"drop": "ERASE", "create": "CREATE", "truncate": "TRUNCATE", "rename": "RENAME"}


class Ended(BaseException):
    """What ends a driver: nothing handles it as an error of a table."""


def changes(table, at, second, rng):
    """Rows of a table in both partitions. Some have what a statement adds or renames."""
    more = rng.choice([{}, {}, {"z": "1"}])
    cells = row(at, rng.choice(["x", None, "long enough"])) | more
    return canal(
        at, "INSERT", table, cells, TYPES | dict.fromkeys(more, "int"), second=second, partition=rng.randrange(2)
    )


def script(rng, tables):
    """The messages of two batches: rows, then statements among rows of the same few seconds."""
    before, after, at = [], [], 0
    for number in range(tables):
        table = f"t{number}"
        for _ in range(3):
            before.append(changes(table, at := at + 1, rng.randrange(4), rng))
        for name in rng.choices(list(STATEMENTS), k=2):
            names = [name, "create"] if name == "drop" else [name]
            for one in names:
                text, second = STATEMENTS[one].format(table=table), rng.randrange(2, 5)
                after.append(canal(at := at + 1, KINDS.get(one, "ALTER"), table, sql=text, second=second))
            after.append(changes(table, at := at + 1, rng.randrange(2, 6), rng))
    return [list(map(stamped, one)) for one in (before, after)]


def stamped(message):
    """As from Kafka, whose timestamps say that the topic was not recreated if event times go back."""
    at = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=message["offset"])
    return {**message, "timestamp": at}


def ends_at(number, monkeypatch):
    """Let the driver end before its n-th commit. Returns the names of those before it."""
    retried, commits = towpath.lakehouse.sql.with_retries, []

    def count(action):
        commits.append(action)
        if len(commits) == number:
            raise Ended
        return retried(action)

    monkeypatch.setattr(towpath.lakehouse.sql, "with_retries", count)
    return commits


def outcome(topic):
    """The state of each table, and its rows."""
    states = {name: one["state"] for name, one in topic.states().items()}
    tables = [name for name in topic.tables("shop") if "__" not in name]
    rows = {name: [sorted(map(str, one.items())) for one in topic.rows(name)] for name in tables}
    return states, rows


def of_copy(spark, lake, folder):
    """A topic whose tables are those of another one."""
    shutil.copytree(lake, folder / "lake")
    return Topic(spark, folder)


def check(found, wanted, where):
    """The states are the same, and so are the rows of tables that are as their sources."""
    assert found[0] == wanted[0], where
    for table, state in wanted[0].items():
        if state == "ok":
            assert found[1][table] == wanted[1][table], (where, table)


def compare(spark, folder, rng, messages, stops, monkeypatch):
    """Compare batches that were stopped with one that was not, whose outcome is returned.

    Args:
        spark: The session.
        folder: An empty folder.
        rng: Chooses the stops.
        messages: Those of two batches or more.
        stops: Before how many commits of the last batch the driver ends.
        monkeypatch: Replaces functions for a while.
    """
    *before, after = messages
    first = Topic(spark, folder / "before")
    for batch in before:
        first.replicate(*batch)
    whole = of_copy(spark, first.lake, folder / "whole")
    with monkeypatch.context() as patched:
        commits = ends_at(None, patched)
        whole.replicate(*after)
    wanted = outcome(whole)
    for number in sorted(rng.sample(range(1, len(commits)), stops)):
        stopped = of_copy(spark, first.lake, folder / f"stopped-{number}")
        with monkeypatch.context() as patched:
            ends_at(number, patched)
            with pytest.raises(Ended):
                stopped.replicate(*after)
        stopped.replicate(*after)
        check(outcome(stopped), wanted, f"commit {number} of {len(commits)}")
    return wanted


def test_a_driver_that_ends_within_statements(spark, tmp_path, monkeypatch):
    """A row that may be newer than RENAME TABLE is in the new target, too, when the statement is read again."""
    before = [canal(1, "INSERT", name, row(1, "x"), second=2, partition=1) for name in ("t0", "t1")]
    after = [
        canal(at, KINDS.get(name, "ALTER"), table, sql=STATEMENTS[name].format(table=table), second=2)
        for at, (table, name) in enumerate([("t0", "rename"), ("t1", "add")], 2)
    ]
    states, _ = compare(spark, tmp_path, random.Random(4), (before, after), 2, monkeypatch)
    assert states == {"t0": "renamed", "t0_new": "ok", "t1": "ok"}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 8))
def test_a_driver_that_ends_at_many_commits_of_statements(spark, tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    states, _ = compare(spark, tmp_path, rng, script(rng, 6), 12, monkeypatch)
    assert "stale" in states.values(), "the statements were too simple"


@pytest.mark.soak
def test_a_driver_that_ends_while_a_table_is_created_again(spark, tmp_path, monkeypatch):
    """What waits in quarantine may be of the new table, which its state says."""
    before = [
        canal(1, "INSERT", "a", {"id": "1", "n": "1"}, {"id": "int", "n": "int"}),
        canal(2, "INSERT", "a", {"id": "2", "n": "new"}, {"id": "int", "n": "varchar(9)"}, second=30, partition=1),
    ]
    after = [
        canal(3, "ERASE", "a", sql="DROP TABLE a", second=20),
        canal(4, "CREATE", "a", sql="CREATE TABLE a (id int PRIMARY KEY, n varchar(9))", second=20),
    ]
    states, _ = compare(spark, tmp_path, random.Random(1), (before[:1], before[1:], after), 8, monkeypatch)
    assert states == {"a": "quarantined"}
