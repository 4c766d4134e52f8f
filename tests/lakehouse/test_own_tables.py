"""Compare the tables of states and of statements, written by delta-rs and by Spark, with a model."""

import json
import random
import shutil
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from delta_history import commits
from lake_topic import Topic, canal
from spark_rows import of_spark
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.seen.status import NO_BATCH, OK, QUARANTINED, REBUILT, STATES, TableStatus
from towpath.lakehouse.seen.status_table import StatusTable
from towpath.lakehouse.tables.own_table import LogTable
from towpath.lakehouse.tables.tables import append_once

NAMES = [(None, "a"), ("shop", "a"), ("shop", "A"), ("s'h\"op", "订单 `x`"), ("", "a"), ("shop", "t.{table}")]
COUNTS = ("applied", "ignored_as_old", "deleted", "dead_letters")
EPOCH = datetime(2024, 5, 6, tzinfo=timezone.utc)


def some_status(rng, name):
    time = EPOCH + timedelta(microseconds=rng.randrange(10**12))
    return TableStatus(
        *name,
        target=rng.choice([None, "/lake/a", "ice.shop.`a`"]),
        state=rng.choice([OK, OK, *STATES]),
        reason=rng.choice([None, 'it\'s "why"\n\\', REBUILT]),
        statement=rng.choice([None, "ALTER TABLE `a` ADD b int -- ${x}"]),
        last_event_time=rng.choice([None, time, time.replace(tzinfo=None)]),  # as a task says it, and as Spark does
        last_place=rng.choice([None, "t/0/7"]),
        merge_seconds=rng.choice([None, rng.random()]),
        **{count: rng.randrange(2**40) for count in COUNTS},
    )


class Model:
    """What the documentation says of the table."""

    def __init__(self):
        self.rows = {}

    def write(self, found, batch_id):
        for one in found:
            row = self.rows.setdefault((one.database, one.table), {"state": None, "last_batch": batch_id})
            is_worse = row["state"] is None or STATES.index(one.state) >= STATES.index(row["state"])
            is_worse |= one.state == QUARANTINED and row.get("reason") == REBUILT
            if row["state"] is None or (one.state != OK and is_worse):
                row |= {"state": one.state, "reason": one.reason, "statement": one.statement}
            elif one.state == row["state"] == OK:  # tables that share a target
                row["reason"] = row["reason"] or one.reason
            for name in COUNTS:
                row[name] = row.get(name, 0) + getattr(one, name)
            for name in ("target", "last_event_time", "last_place"):
                row[name] = getattr(one, name) or row.get(name)
            time = row["last_event_time"]
            row["last_event_time"] = time and time.replace(tzinfo=None)
            row["merge_seconds"] = one.merge_seconds
            row["last_batch"] = row["last_batch"] if batch_id == NO_BATCH else batch_id

    def set_ok(self, names, states, reason):
        for name, row in self.rows.items():
            is_named = (name[0] or "", name[1]) in {(database or "", table) for database, table in names}
            if is_named and row["state"] in states and reason in (None, row["reason"]):
                row |= {"state": OK, "reason": None, "statement": None}


def stored(spark, path):
    found = {}
    for one in of_spark(spark.read.format("delta").load(path).collect()):
        for name in ("since", "updated_at"):
            assert one.pop(name) is not None
        key = one.pop("database"), one.pop("table")
        assert key not in found
        found[key] = one
    return found


def writers(spark, path):
    """What made each version of a table, the newest first."""
    return [writer for _, writer in commits(spark, f"delta.`{path}`")]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 8))])
def test_delta_rs_and_spark_merge_what_the_model_says(spark, tmp_path, seed):
    """Both into one table in turn, and one of them alone; delta-rs has the driver's process to itself for that."""
    rng, model = random.Random(seed), Model()
    mixed, alone = str(tmp_path / "mixed"), StatusTable(str(tmp_path / "alone"), TaskMerges())
    by_delta_rs, by_spark = StatusTable(mixed, TaskMerges()), StatusTable(mixed)
    for number in range(6):
        found = [some_status(rng, name) for name in rng.sample(NAMES, rng.randrange(1, len(NAMES)))]
        batch = rng.choice([number, number, NO_BATCH])
        model.write(found, batch)
        ended = rng.sample(NAMES, 2), rng.sample(STATES[1:], 2), rng.choice([None, REBUILT])
        model.set_ok(*ended)
        for one in (alone, by_spark if number % 3 == 1 else by_delta_rs):
            one.write(spark, found, batch)
            one.set_ok(spark, *ended)
    assert stored(spark, mixed) == model.rows
    assert stored(spark, str(tmp_path / "alone")) == model.rows
    assert set(writers(spark, tmp_path / "alone")) == {"task"}


def test_a_table_that_was_removed_is_created_again(spark, tmp_path):
    path, table = tmp_path / "status", StatusTable(str(tmp_path / "status"), TaskMerges())
    for number in range(3):
        if number == 1:
            shutil.rmtree(path)
        table.write(spark, [TableStatus("shop", "a", None, applied=1)], number)
    assert {key: one["applied"] for key, one in stored(spark, str(path)).items()} == {("shop", "a"): 2}
    assert writers(spark, path)[0] == "task"


def test_what_delta_rs_must_not_write_is_left_to_spark(spark, tmp_path):
    path, in_tasks = str(tmp_path / "status"), TaskMerges()
    StatusTable(path).write(spark, [TableStatus("shop", "a", None, applied=1)], 0)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    StatusTable(path, in_tasks).write(spark, [TableStatus("shop", "a", None, applied=1)], 1)
    assert stored(spark, path)[("shop", "a")]["applied"] == 2
    assert "inCommitTimestamp" in in_tasks.refused[path]
    assert set(writers(spark, path)) == {"spark"}


LOGGED = "topic string, `offset` bigint, `event_time` timestamp, sql string, `a b` string"
IDENTITY = ("topic", "offset", "event_time", "sql")


def some_rows(rng):
    time = datetime(2024, 3, 31, 1, 30, tzinfo=timezone.utc)
    values = [(None, "t"), (None, 1, 2), (None, time, time + timedelta(microseconds=1)), (None, "DROP TABLE a", "订单")]
    return [(*map(rng.choice, values), f"{rng.random()}") for _ in range(rng.randrange(1, 12))]


@pytest.mark.parametrize("zone", [pytest.param("UTC", marks=pytest.mark.soak), "Europe/Berlin"])
def test_rows_are_appended_that_a_table_lacks(spark, tmp_path, zone):
    """By delta-rs, by Spark, and by both in turn; nulls are equal to each other."""
    rng, in_tasks, seen = random.Random(3), TaskMerges(), set()
    paths = {way: str(tmp_path / way) for way in ("task", "spark", "both")}
    by_task = {way: LogTable(paths[way], IDENTITY, in_tasks) for way in ("task", "both")}
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for number in range(3):
            rows = some_rows(rng)
            seen |= {row[:-1] for row in rows}
            frame = spark.createDataFrame(rows, LOGGED)
            by_task["task"].append(spark, frame)
            append_once(frame, paths["spark"], IDENTITY)
            by_task["both"].append(spark, frame) if number % 2 else append_once(frame, paths["both"], IDENTITY)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    found = {
        way: [tuple(one.values()) for one in of_spark(spark.read.load(path, "delta").collect())]
        for way, path in paths.items()
    }
    wanted = sorted(map(str, ((*row[:2], row[2] and row[2].replace(tzinfo=None), *row[3:]) for row in seen)))
    assert {way: sorted(str(row[:-1]) for row in rows) for way, rows in found.items()} == dict.fromkeys(paths, wanted)
    assert in_tasks.refused == {}
    assert "spark" not in writers(spark, paths["task"])[:3]


def test_a_log_of_many_batches_has_few_files_and_checkpoints(spark, tmp_path):
    path, in_tasks = tmp_path / "log", TaskMerges()
    log = LogTable(str(path), ("sql",), in_tasks)
    for at in range(25):
        log.append(spark, pa.table({"sql": [f"CREATE TABLE t{at} (id int)"]}))
    assert in_tasks.refused == {}
    stored = DeltaTable(path)
    assert len(stored.file_uris()) <= 10
    assert stored.version() - json.loads((path / "_delta_log" / "_last_checkpoint").read_text())["version"] < 15
    assert spark.read.format("delta").load(str(path)).count() == 25


def test_a_query_logs_a_statement_once(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    added = canal(1, "ALTER", "a", sql="ALTER TABLE a ADD COLUMN z int")
    for _ in range(2):
        topic.replicate(added, canal(2, "TRUNCATE", "a", sql="TRUNCATE TABLE a"), added)
    assert sorted(one["sql"] for one in topic.read("ddl")) == [
        "ALTER TABLE a ADD COLUMN z int",
        "TRUNCATE TABLE a",
    ]
    assert writers(spark, topic.name("ddl")) == ["task", "task"]  # the second batch has nothing to write
