"""What happens around a query: other queries on its targets, targets that are removed, secrets, a full disk."""

import json
import random
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

import towpath
from lake_topic import COLUMNS, Topic, canal, row
from towpath.lakehouse.following.follow import Follower
from towpath.lakehouse.merging.merge import Applier
from towpath.lakehouse.merging.target_writer import TargetWriter

CANARY = "hunter2SECRET"


def changes(table, partition, times):
    """A table's changes at these times: it inserts 30 keys and deletes the first 10 of them."""
    return [
        canal(at, "INSERT" if at < 30 else "DELETE", table, row(at % 30, f"v{at}"), second=at, partition=partition)
        for at in times
    ]


@pytest.mark.parametrize(("way", "tables"), [("auto", 1), pytest.param("spark", 8, marks=pytest.mark.soak)])
def test_two_queries_on_one_target(spark, tmp_path, way, tables):
    """They read two partitions of half of the tables, and the same messages of the other half."""
    topic, numbers = Topic(spark, tmp_path), range(tables)

    def run(partition):
        for batch in range(2):
            times = range(20 * batch, 20 * batch + 20)
            same = [changes(f"same{number}", 2, times) for number in numbers]
            parts = [changes(f"parts{number}", partition, times[partition::2]) for number in numbers]
            topic.replicate(*chain(*same, *parts), merge=way)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, (0, 1)))
    for table in (f"{name}{number}" for name in ("same", "parts") for number in numbers):
        assert topic.names(table) == {key: f"v{key}" for key in range(10, 30)}
        assert topic.states()[table]["state"] == "ok"


def test_targets_that_are_removed_while_their_query_runs_and_while_it_is_stopped(spark, tmp_path):
    """The rows of d are of a RENAME TABLE, those of e and f of a snapshot, and those of g of `reprocess`."""
    topic, source, tables = Topic(spark, tmp_path), tmp_path / "messages", "abcdefg"

    def send(*messages):
        topic.frame(*messages).coalesce(1).write.mode("append").parquet(str(source))

    def send_rows(at, tables):
        send(*(canal(20 * at + part, "INSERT", name, row(at, "x"), second=at) for part, name in enumerate(tables)))

    @contextmanager
    def running(**options):
        stream = spark.readStream.schema(COLUMNS).parquet(str(source))
        settings = {"checkpoint": str(tmp_path / "checkpoint"), "trigger": {"processingTime": "0 seconds"}}
        query = towpath.spark.replicate(stream, topic.target, "canal-json", **settings, **topic.options, **options)
        try:
            query.processAllAvailable()
            yield query
            query.processAllAvailable()
        finally:
            query.stop()

    def remove(names):
        for name in names:
            shutil.rmtree(topic.lake / "shop" / name)

    send(
        *(canal(at, "INSERT", name, row(0, "x")) for at, name in enumerate(["a", "b", "c", "d_new", "g"])),
        canal(5, "INSERT", "g", row(0, "x"), pkNames=["id", "name"]),
        canal(6, "RENAME", "d", sql="RENAME TABLE d_new TO d"),
    )
    rows = spark.createDataFrame([(0, "x")], "id int, name string")
    with running(snapshots={"shop.e": rows, "shop.f": rows}) as query:
        assert topic.state_of(tables) == dict.fromkeys("abcdef", "ok") | {"g": "quarantined"}
        topic.reprocess(keys={"shop.g": ["id"]})
        remove("adeg")
        send_rows(1, "acdeg")
        query.processAllAvailable()
    assert topic.state_of(tables) == dict.fromkeys("bcf", "ok") | dict.fromkeys("adeg", "stale")
    remove("bf")
    send_rows(2, tables)
    with running():
        pass
    found = topic.states()
    for table in tables:
        first = 1 if table in "adeg" else 2 if table in "bf" else 0
        assert topic.names(table) == dict.fromkeys(range(first, 3), "x")
        assert found[table]["state"] == ("stale" if first else "ok")
        assert not first or "the target was removed" in found[table]["reason"]


@pytest.mark.parametrize(
    "place",
    [pytest.param((Applier, "apply"), marks=pytest.mark.soak), (Follower, "_follow")],
    ids=["merge", "statement"],
)
def test_an_interruption_is_not_the_fault_of_a_table(spark, tmp_path, monkeypatch, place):
    topic, (owner, name) = Topic(spark, tmp_path), place
    messages = [canal(0, "INSERT", "a", row(1, "x")), canal(1, "QUERY", "a", sql="TRUNCATE TABLE a", second=5)]
    function = getattr(owner, name)
    topic.replicate(messages[0], merge="spark")

    def interrupted(*arguments):
        spark._jvm.java.lang.Thread.currentThread().interrupt()  # as a query does that is stopped
        return function(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, interrupted)
        with pytest.raises(Exception, match=r"InterruptedException|ClosedByInterruptException"):
            topic.replicate(*messages, merge="spark")
    spark._jvm.java.lang.Thread.interrupted()  # a file that was closed by it leaves the thread interrupted
    topic.replicate(*messages, merge="spark")
    assert topic.names("a") == {}
    assert topic.states()["a"]["state"] == "ok"
    assert not Path(topic.name("dead_quarantine")).exists()


def topic_of(kafka, name, **settings):
    """The options that read it, from its beginning."""
    kafka.create_topic(name, 1, **settings)
    return {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": name, "startingOffsets": "earliest"}


def read_to_the_end(spark, lake, folder, format, options, **more):
    stream = spark.readStream.format(format).options(**options)
    stream = stream.option("layout", "messages") if format == "towpath" else stream
    trigger, checkpoint = {"availableNow": True}, str(folder / "checkpoint")
    arguments = {"dialect": "canal-json", "checkpoint": checkpoint, "trigger": trigger, **lake.options, **more}
    query = towpath.spark.replicate(stream.load(), lake.target, **arguments)
    query.awaitTermination()
    return query


def test_checkpoint_and_progress_have_no_secret(spark, kafka, topic, tmp_path):
    secrets = dict.fromkeys(["kafka.sasl.password", "kafka.ssl.key.password"], CANARY)
    options = topic_of(kafka, topic) | secrets
    kafka.produce(topic, [(None, canal(0, "INSERT", "a", row(1, "x"))["value"], 0)])
    lake = Topic(spark, tmp_path)
    query = read_to_the_end(spark, lake, tmp_path, "towpath", options)
    assert lake.names("a") == {1: "x"}
    assert CANARY not in str([json.dumps(one, default=str) for one in query.recentProgress])
    files = [path for path in Path(tmp_path).rglob("*") if path.is_file()]
    assert any("checkpoint" in path.parts for path in files)
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


@pytest.mark.soak
@pytest.mark.parametrize("format", ["kafka", "towpath"])
def test_a_compacted_topic_ends_as_the_whole_one_does(spark, kafka, topic, tmp_path, format):
    """Of a key the broker keeps the last message, which may be an update without its insert, or nothing."""
    settings = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.001"}
    options = topic_of(kafka, topic, **settings, delete_retention_ms="100")
    rng, rows, sent = random.Random(6), {}, []
    for at in range(600):
        key = rng.randrange(40)
        before = rows.get(key)
        after = None if before and rng.random() < 0.3 else {"id": key, "name": f"v{at}"}
        rows[key] = after
        if not before and not after:
            continue
        sent.append((b"%d" % key, debezium(at, before, after), 0))
        if not after:
            sent.append((b"%d" % key, None, 0))
    kafka.produce(topic, sent)
    reader, deadline = spark.read.format("kafka").options(**options), time.monotonic() + 300
    while reader.load().count() > 200:
        assert time.monotonic() < deadline, "the topic was not compacted"
        time.sleep(0.3)
        kafka.produce(topic, [(b"last", None, 0)])  # the last segment is not compacted
    lake = Topic(spark, tmp_path)
    declared = {"schemas": {"shop.a": "id int, name string"}, "keys": {"shop.a": ["id"]}}
    read_to_the_end(spark, lake, tmp_path, format, options, dialect="debezium-json", **declared)
    assert lake.names("a") == {key: one["name"] for key, one in rows.items() if one}


def debezium(at, before, after):
    """A change as Debezium's envelope without a schema."""
    source = {"db": "shop", "table": "a", "file": "mysql-bin.000001", "pos": 100 + at, "row": 0, "server_id": 1}
    source |= {"connector": "mysql", "version": "2.7.0.Final", "name": "x", "ts_ms": 1_700_000_000_000 + at}
    op = "u" if before and after else "c" if after else "d"
    message = {"before": before, "after": after, "source": source, "op": op, "ts_ms": source["ts_ms"] + 5}
    return json.dumps(message).encode()


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
    """A batch fails if the quarantine cannot be written; else its tables are quarantined until there is room."""
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
    states = {one["state"] for one in spark.read.format("delta").load(topic.options["status"]).collect()}
    assert failed or "quarantined" in states
    if "quarantined" in states:
        topic.reprocess()
    assert {name: topic.names(name) for name in wanted} == wanted


def test_only_a_table_whose_job_fails_twice_is_put_aside(spark, tmp_path, monkeypatch):
    """A float key is not merged by a task."""
    topic, write, fails = Topic(spark, tmp_path), TargetWriter.write, {"once": 1, "twice": 2}

    def failing(writer, staged):
        name = Path(writer.table.name).name
        if fails.get(name):
            fails[name] -= 1
            spark.sql("SELECT raise_error('a worker ended')").collect()
        return write(writer, staged)

    monkeypatch.setattr(TargetWriter, "write", failing)
    topic.replicate(*(canal(0, "INSERT", name, {"id": "1.5"}, {"id": "double"}) for name in fails))
    assert topic.state_of() == {"once": "ok", "twice": "quarantined"}
    assert "a worker ended" in topic.states()["twice"]["reason"]
    assert topic.rows("once") == [{"id": 1.5}]
