"""A table of the lakehouse equals the source's, despite redelivery and failures.

Captures go through a real Kafka into Delta in many micro-batches. Messages come twice, producers start again from older
positions, the driver is killed with everything it started, and at last the checkpoint is replaced by an old one. Then
each cell is compared with what the source's own tables held.
"""

import random
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, pairwise
from threading import Event

import pytest

import captures_for_replication as captures
import towpath
from bulk_captures import bulk
from exactly_once import Drivers, Lake, compare, fill, prove, with_redeliveries
from lake_session import QUICK
from simulated_source import UNREADABLE, moved_keys
from spark_cluster import SparkCluster


@pytest.fixture
def report(record_property):
    def say(name, figure):
        record_property(name, figure)
        print(f"{name}: {figure}")

    return say


def test_tables_equal_the_sources_after_kills_and_replays(spark, kafka, tmp_path, report):
    """One driver is killed. Then this session ends what it began, which takes less time than a new JVM."""
    case = replace(captures.canal_json_small(), limit=70, settings=QUICK)
    prove(spark, kafka, Lake(tmp_path), case, seed=1, report=report, kills=1, is_finished_here=True)


@bulk
@pytest.mark.soak
@pytest.mark.parametrize(
    ("capture", "format"),
    [
        ("canal_json", "delta"),
        ("canal_json", "iceberg"),
        ("canal_protobuf", "delta"),
        ("debezium_json", "delta"),
        ("ticdc", "delta"),
    ],
)
def test_bulk_tables_equal_the_sources_after_kills_and_replays(spark, kafka, tmp_path, capture, format, report):
    case, seed = getattr(captures, capture)(), zlib.crc32(capture.encode())
    prove(spark, kafka, Lake(tmp_path, format), case, seed, report)


@pytest.mark.soak
def test_tables_of_iceberg_equal_the_sources_after_kills_and_replays(spark, kafka, tmp_path, report):
    prove(spark, kafka, Lake(tmp_path, "iceberg"), captures.canal_json_small(), seed=5, report=report)


@pytest.mark.soak
def test_keys_that_move_between_partitions_end_right(spark, kafka, tmp_path, report):
    """The targets are compacted after each batch."""
    case = moved_keys(500, tables=2, limit=250, seed=2)
    topics = fill(kafka, case, tmp_path.name, random.Random(2))
    target = {name: str(tmp_path / "lake" / name.replace(".", "/")) for name in case.tables}
    options = {"limit": case.limit, "target": target, "optimize_every": 1}
    read_topics(spark, kafka, topics, tmp_path / "checkpoint", **options).awaitTermination()
    report("cells", compare(spark, Lake(tmp_path), case))


@pytest.mark.soak
@pytest.mark.parametrize(("changes", "stops", "seed"), [(200, 1, 4), (2_000, 30, 5), (2_000, 30, 6)])
def test_a_query_that_is_stopped_at_any_time(spark, kafka, tmp_path, report, changes, stops, seed):
    """What is interrupted is not the fault of a table: none is quarantined or stale."""
    rng, lake, case = random.Random(seed), Lake(tmp_path), moved_keys(changes, tables=3, limit=150, seed=seed)
    topics, ways = fill(kafka, case, tmp_path.name, rng), cycle(["spark", "auto"])
    options = {name: lake.target(f"own.{name}") for name in ("dead_letters", "ddl", "status")}
    options |= {"limit": case.limit, "target": {name: lake.target(name) for name in case.tables}}
    for _ in range(stops):
        query = read_topics(spark, kafka, topics, tmp_path / "checkpoint", merge=next(ways), **options)
        time.sleep(rng.uniform(1, 9))
        query.stop()
        assert query.exception() is None
    read_topics(spark, kafka, topics, tmp_path / "checkpoint", **options).awaitTermination()
    states = {one["table"]: one["state"] for one in lake.load(spark, "own.status").collect()}
    assert states == dict.fromkeys((name.partition(".")[2] for name in case.tables), "ok")
    assert not lake.path("own.dead_letters_quarantine").exists()
    report("cells", compare(spark, lake, case))


@pytest.mark.soak
def test_moved_keys_end_right_beside_other_writers(spark, kafka, tmp_path, report):
    """A topic of three partitions for each table, OPTIMIZE meanwhile, and a second query that shares `dead_letters`."""
    case = moved_keys(12_000, tables=3, limit=1500, seed=3, unreadable=40)
    topics = fill(kafka, case, tmp_path.name, random.Random(3))
    kafka.create_topic(f"{tmp_path.name}-unreadable", 1)
    kafka.produce(f"{tmp_path.name}-unreadable", [(None, UNREADABLE, 0)] * 500)
    topic_of_other = [f"{tmp_path.name}-unreadable"]
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": ",".join(topics + topic_of_other)}
    sent = spark.read.format("kafka").options(**options).load().filter(f"value = '{UNREADABLE.decode()}'").count()
    folder = tmp_path / "lake"
    other = read_topics(
        spark,
        kafka,
        topic_of_other,
        tmp_path / "other",
        limit=10,
        target=str(folder / "other" / "{table}"),
        dead_letters=Lake(tmp_path).target("own.dead_letters"),
    )
    ended = Event()
    with ThreadPoolExecutor(1) as pool:
        optimized = pool.submit(
            keep_optimizing, spark, [folder / name.replace(".", "/") for name in case.tables], ended
        )
        try:
            prove(spark, kafka, Lake(tmp_path), case, 3, report, topics=topics, dead_letters=sent)
        finally:
            ended.set()
    assert other.awaitTermination(600)
    report("times optimized", optimized.result())
    assert optimized.result() > 10


@pytest.mark.soak
@pytest.mark.parametrize("merge", ["auto", "spark"])
def test_executors_that_are_killed(spark, kafka, tmp_path, report, merge):
    """In a cluster with speculative execution: two attempts of a task may run at the same time, and end anywhere."""
    rng, kills = random.Random(11), Every(20, at_most=10)
    case = moved_keys(3_000, tables=4, limit=300, seed=11)
    settings = {
        "spark.executor.memory": "512m",
        "spark.speculation": "true",
        "spark.speculation.interval": "20ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "0ms",
        "spark.task.maxFailures": "20",
    }
    folder = tmp_path / "cluster"
    folder.mkdir()
    with SparkCluster(folder) as cluster:
        case = replace(
            case, settings={**case.settings, **settings, "spark.master": cluster.url}, options={"merge": merge}
        )
        topics = fill(kafka, case, tmp_path.name, rng)
        Drivers(kafka, case, topics, Lake(tmp_path), "kafka").finish(
            meanwhile=lambda: kills(cluster.kill_executor, rng)
        )
    assert kills.times > 3
    report("killed executors", kills.times)
    report("cells", compare(spark, Lake(tmp_path), case))


class Every:
    """Calls a function that says whether it did something, with a pause after each time that it did."""

    def __init__(self, seconds, at_most):
        self.times, self._seconds, self._next, self._at_most = 0, seconds, time.monotonic() + seconds, at_most

    def __call__(self, action, *arguments):
        if self.times < self._at_most and time.monotonic() >= self._next and action(*arguments):
            self.times += 1
            self._next = time.monotonic() + self._seconds


def read_topics(spark, kafka, topics, checkpoint, *, limit, **options):
    """Replicate topics to their end."""
    source = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": ",".join(topics)}
    source |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": limit}
    return towpath.spark.replicate(
        spark.readStream.format("kafka").options(**source).load(),
        dialect="canal-json",
        checkpoint=str(checkpoint),
        trigger={"availableNow": True},
        **options,
    )


def keep_optimizing(spark, tables, ended):
    """Compact tables one after the other, as a maintenance job would. Returns how often it could."""
    times = 0
    while not ended.wait(1):
        # Delta would remember that a table does not exist yet.
        for table in [one for one in tables if list(one.glob("_delta_log/*.json"))]:
            try:
                spark.sql(f"OPTIMIZE delta.`{table}`")
                times += 1
            except Exception as error:  # a merge was faster
                print(f"OPTIMIZE: {str(error).splitlines()[0]}")
    return times


def test_the_trouble_is_what_it_says():
    records = [captures.Record("t", None, str(number).encode()) for number in range(400)]
    for old_ranges in (False, True):
        sent = [int(record.value) for record in with_redeliveries(records, old_ranges, random.Random(3))]
        assert sorted(set(sent)) == list(range(400))
        steps_back = sum(later < earlier for earlier, later in pairwise(sent))
        # An old range begins with a step back and ends with a step ahead.
        assert steps_back == (7 if old_ranges else 4)
        assert any(later == earlier for earlier, later in pairwise(sent))
