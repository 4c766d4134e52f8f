"""What happens around a query: other queries on its targets, targets that are removed, odd statements, secrets."""

import json
import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest

import towpath
from lake_topic import COLUMNS, Topic, canal, row

CANARY = "hunter2SECRET"


@pytest.mark.parametrize("same", [False, True], ids=["two partitions", "the same messages"])
def test_two_queries_on_one_target(spark, tmp_path, same):
    topic = Topic(spark, tmp_path)
    parts = [[], []]
    for at in range(40):
        part = parts[0 if same else at % 2]
        kind = "INSERT" if at < 30 else "DELETE"
        message = canal(len(part), kind, "a", row(at % 30, f"v{at}"), second=at, partition=0 if same else at % 2)
        part.append(message)
    queries = [parts[0], parts[0] if same else parts[1]]

    def run(messages):
        for begin in range(0, len(messages), 10):
            topic.replicate(*messages[begin : begin + 10])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, queries))
    assert topic.names("a") == {key: f"v{key}" for key in range(10, 30)}
    assert topic.states()["a"]["state"] == "ok"


def test_a_target_that_is_removed_while_its_query_runs(spark, tmp_path):
    topic, source = Topic(spark, tmp_path), tmp_path / "messages"

    def send(query, at):
        messages = [canal(2 * at + part, "INSERT", "ab"[part], row(at, "x"), second=at) for part in (0, 1)]
        topic.frame(*messages).coalesce(1).write.mode("append").parquet(str(source))
        if query:
            query.processAllAvailable()

    send(None, 0)
    stream = spark.readStream.schema(COLUMNS).parquet(str(source))
    trigger = {"processingTime": "0 seconds"}
    query = towpath.spark.replicate(
        stream, topic.target, "canal-json", checkpoint=str(tmp_path / "checkpoint"), trigger=trigger, **topic.options
    )
    try:
        query.processAllAvailable()
        shutil.rmtree(topic.lake / "shop" / "a")
        send(query, 1)
        send(query, 2)
    finally:
        query.stop()
    assert (topic.names("a"), topic.names("b")) == (dict.fromkeys([1, 2], "x"), dict.fromkeys([0, 1, 2], "x"))
    states = topic.states()
    assert (states["a"]["state"], states["b"]["state"]) == ("stale", "ok")
    assert "somebody removed the target" in states["a"]["reason"]


# What each text does to the tables a (rows 1, 2) and b (row 1) on MySQL 8; None: it is stale, or right.
STATEMENTS = [
    ("/*!50000 TRUNCATE TABLE a */", {"a": {}, "b": {1: "b"}}),
    ("/*!99999 TRUNCATE TABLE a */", None),
    ("TRUNCATE /*!50000 TABLE */ a", {"a": {}, "b": {1: "b"}}),
    ("/*M!100000 TRUNCATE TABLE a */", None),
    ("/* TRUNCATE TABLE b; */ TRUNCATE TABLE a -- b\n", {"a": {}, "b": {1: "b"}}),
    ("TRUNCATE TABLE a; TRUNCATE TABLE b", {"a": {}, "b": {}}),
    ("TRUNCATE TABLE a;;; # TRUNCATE TABLE b", {"a": {}, "b": {1: "b"}}),
    ("SELECT ';TRUNCATE TABLE b'; TRUNCATE TABLE a;", {"a": {}, "b": {1: "b"}}),
    ("ALTER TABLE a COMMENT = 'x; TRUNCATE TABLE b'", {"a": {1: "a", 2: "a"}, "b": {1: "b"}}),
    ("RENAME TABLE a TO c; TRUNCATE TABLE c; RENAME TABLE c TO a", {"a": {}, "b": {1: "b"}}),
]


@pytest.mark.parametrize(("text", "wanted"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_comments_and_several_statements_in_one_text(spark, tmp_path, text, wanted):
    topic = Topic(spark, tmp_path)
    topic.replicate(
        *(canal(at, "INSERT", name, row(key, name)) for at, (name, key) in enumerate([("a", 1), ("a", 2), ("b", 1)])),
        canal(3, "QUERY", "a", sql=text, second=5),
    )
    states = topic.states()
    for name, rows in {"a": {1: "a", 2: "a"}, "b": {1: "b"}, **(wanted or {})}.items():
        is_said = states[name]["state"] == "stale"
        assert is_said or wanted is None or topic.names(name) == rows
    assert states["b"]["state"] == "ok" or "b" in text.replace("TABLE", "")


def test_a_clock_that_goes_back_in_a_partition(spark, tmp_path):
    rng = random.Random(7)
    topic = Topic(spark, tmp_path)
    wanted, messages, second = {}, [], 5000
    for at in range(120):
        second += rng.choice([0, 1, 1, 2, -1, -3600])
        key = rng.randrange(6)
        message = canal(at, "INSERT", "a", row(key, f"v{at}"), second=second)
        messages.append(message | {"timestamp": datetime.fromtimestamp(1_700_000_000 + at, timezone.utc)})
        wanted[key] = f"v{at}"
    for begin in range(0, 120, 40):
        topic.replicate(*messages[begin : begin + 40])
    assert topic.names("a") == wanted


def test_checkpoint_and_progress_have_no_secret(spark, kafka, topic, tmp_path):
    kafka.create_topic(topic, 1)
    kafka.produce(topic, [(None, canal(0, "INSERT", "a", row(1, "x"))["value"], 0)])
    stream = (
        spark.readStream.format("towpath")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("kafka.sasl.password", CANARY)
        .option("kafka.ssl.key.password", CANARY)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("layout", "messages")
        .load()
    )
    lake = Topic(spark, tmp_path)
    query = towpath.spark.replicate(
        stream,
        lake.target,
        "canal-json",
        checkpoint=str(tmp_path / "checkpoint"),
        trigger={"availableNow": True},
        **lake.options,
    )
    query.awaitTermination()
    assert lake.names("a") == {1: "x"}
    assert CANARY not in str([json.dumps(one, default=str) for one in query.recentProgress])
    files = [path for path in Path(tmp_path).rglob("*") if path.is_file()]
    assert any("checkpoint" in path.parts for path in files)
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1.5 MB, and a function that makes it large."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("this user may not mount a file system")
    yield folder, lambda: subprocess.run(["mount", "-o", "remount,size=200m", folder], check=True)
    subprocess.run(["umount", folder], check=True)


@pytest.mark.soak
@pytest.mark.parametrize("also_own", [True, False], ids=["everything", "targets"])
def test_a_full_disk_loses_nothing(spark, tmp_path, small_disk, also_own):
    """A batch fails if nothing can be put aside; else its tables are put aside, and applied when there is room."""
    folder, enlarge = small_disk
    topic = Topic(spark, folder)
    if not also_own:
        topic.options = {name: str(tmp_path / f"own_{name}") for name in topic.options}
    rng, wanted, failed = random.Random(2), {"a": {}, "b": {}}, 0
    for batch in range(10):
        messages = []
        for at in range(60 * batch, 60 * batch + 60):
            name, key, value = rng.choice("ab"), rng.randrange(400), rng.randbytes(600).hex()
            wanted[name][key] = value
            messages.append(canal(at, "INSERT", name, row(key, value), {"id": "int", "name": "text"}, second=at))
        try:
            topic.replicate(*messages, optimize_every=None)
        except Exception:
            failed += 1
            enlarge()
            topic.replicate(*messages, optimize_every=None)
    enlarge()
    own = {name: topic.options[name] for name in ("dead_letters", "status")}
    states = {one["table"]: one["state"] for one in spark.read.format("delta").load(own["status"]).collect()}
    assert failed or "quarantined" in states.values()
    if "quarantined" in states.values():
        towpath.spark.reprocess(spark, **own)
    assert {name: topic.names(name) for name in wanted} == wanted
