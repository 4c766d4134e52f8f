"""`format("towpath")` on topics loses and doubles nothing when brokers, tasks and drivers die.

What the broker acknowledged is the truth. Queries append to a Parquet table, where a row that comes twice is seen.
"""

import json
import os
import random
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from canal_messages import SCHEMA, change, order
from kafka_broker import KafkaBroker
from kafka_queries import EVERY, numbered, numbers, source, started, table
from server_process import ServerProcess
from towpath.spark.kafka.client import Cluster
from towpath.spark.kafka.fetch import fetcher
from towpath.spark.kafka.offsets import Range, TopicPartition
from towpath.spark.kafka.options import parse_kafka_options
from towpath.spark.kafka.reader import KafkaReader

# The controller misses a broker that was killed after 4 s, not 9.
SOON = "broker.session.timeout.ms=4000\nbroker.heartbeat.interval.ms=500\n"


@pytest.fixture(scope="module")
def two_brokers():
    """Brokers of one cluster. The first one is its controller too, so the second one is the one to stop."""
    with KafkaBroker(SOON) as first, KafkaBroker(SOON, joins=first) as second:
        yield first, second


def wait_until(true, seconds=300):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def all_in_sync(kafka, topic):
    """Whether each partition may lose a broker."""
    partitions = kafka.admin().list_topics(topic, timeout=60).topics[topic].partitions
    return all(len(partition.isrs) == len(partition.replicas) for partition in partitions.values())


def lead_again(brokers, topic, leaders):
    """The leader moves while both brokers are up, as soon as the second one has caught up."""
    first, second = brokers
    second.start()

    def elected():
        first.elect_preferred_leaders(topic)
        return first.leaders(topic) == leaders

    wait_until(elected)


def of_both(brokers):
    """The option that names both brokers, the one that will die first."""
    return {"kafka.bootstrap.servers": ",".join(broker.bootstrap for broker in reversed(brokers))}


@pytest.mark.soak
def test_a_leader_that_moves_between_questions(two_brokers, topic):
    """Both brokers are up and no connection ends. So the first question has the epoch of an earlier leader."""
    first, second = two_brokers
    first.create_replicated_topic(topic, [[second.node, first.node]])
    first.produce(topic, numbered(10, 1))
    wait_until(lambda: all_in_sync(first, topic))
    second.kill()
    wait_until(lambda: first.leaders(topic) == [first.node])
    cluster = Cluster(parse_kafka_options({"subscribe": topic, "layout": "messages", **of_both(two_brokers)}))
    partitions = cluster.partitions()
    assert cluster.latest(partitions) == {(topic, 0): 10}
    lead_again(two_brokers, topic, [second.node])
    first.produce(topic, numbered(5, 1, 10))
    assert cluster.latest(partitions) == {(topic, 0): 15}


@pytest.mark.parametrize("others", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_partitions_without_a_leader_are_waited_for(two_brokers, topic, others):
    """Their only broker restarts; another partition may have its leader all the time."""
    first, second = two_brokers
    first.create_replicated_topic(topic, [[second.node]] * 2 + [[first.node]] * others)
    first.produce(topic, numbered(6, 2 + others))
    cluster = Cluster(parse_kafka_options({"subscribe": topic, "layout": "messages", **of_both(two_brokers)}))
    partitions = cluster.partitions()
    newest = cluster.latest(partitions)
    assert sum(newest.values()) == 6
    second.kill()
    wait_until(lambda: first.leaders(topic)[:2] == [-1, -1])
    answer = ThreadPoolExecutor().submit(cluster.latest, partitions)
    time.sleep(1)
    assert not answer.done()
    second.start()
    assert answer.result(60) == newest


def test_a_partition_without_a_leader_is_not_gone(two_brokers, topic):
    """A task that asks whether its messages are gone must not lose them. Those of a deleted topic are."""
    first, second = two_brokers
    first.create_replicated_topic(topic, [[second.node]])
    first.produce(topic, numbered(6, 1))
    settings = parse_kafka_options({"subscribe": topic, "layout": "messages", **of_both(two_brokers)})
    wanted = Range(TopicPartition(topic, 0), 2, 5)
    unknown = replace(wanted, partition=TopicPartition(topic, 1))
    with fetcher(settings) as asking:
        second.kill()
        wait_until(lambda: first.leaders(topic) == [-1])
        assert asking._bounds(wanted) == (2, 5)
        assert asking._bounds(unknown) == (0, 0)
        second.start()
        wait_until(lambda: asking._bounds(wanted) == (0, 6))
        admin = first.admin()
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: asking._bounds(wanted) == (0, 0))


def test_a_leader_that_dies_while_a_task_reads(two_brokers, topic):
    """The task has fetched a part of its range ahead, and gets the rest from the new leader.

    Meanwhile the driver asks for offsets. librdkafka returns an invalid one if a leader does not answer in time.
    """
    first, second = two_brokers
    first.create_replicated_topic(topic, [[second.node, first.node]])
    sent = first.produce(topic, ((None, b"%d" % number + b"x" * 1000, 0) for number in range(30_000)))
    options = {"subscribe": topic, "layout": "messages", "fetchBufferBytes": "1m", **of_both(two_brokers)}
    settings = parse_kafka_options({**options, "kafka.socket.timeout.ms": "1000"})
    cluster = Cluster(settings)
    assert cluster.latest(cluster.partitions()) == {(topic, 0): len(sent)}
    reader = KafkaReader(parse_kafka_options(options))
    [task] = reader.partitions()
    batches = reader.read(task)
    got = next(batches)["value"].to_pylist()
    wait_until(lambda: all_in_sync(first, topic))
    second.kill()
    assert cluster.latest(cluster.partitions()) == {(topic, 0): len(sent)}
    for batch in batches:
        got += batch["value"].to_pylist()
    assert len(got) == len(sent)
    assert got == [one.value for one in sent]
    assert first.leaders(topic) == [first.node]


@pytest.mark.soak
@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_brokers_that_die_at_random(spark, two_brokers, topic, tmp_path, fail_on_data_loss):
    """For three minutes. One topic is replicated, each partition of the other one has a single broker."""
    first, second = two_brokers
    alone = f"{topic}-alone"
    first.create_replicated_topic(topic, [[first.node, second.node], [second.node, first.node]])
    first.create_replicated_topic(alone, [[second.node], [first.node]])
    settings = {"subscribe": f"{topic},{alone}", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 200}
    settings |= {"failOnDataLoss": str(fail_on_data_loss).lower(), **of_both(two_brokers)}
    random_numbers, deadline = random.Random(fail_on_data_loss), time.monotonic() + 180
    sent = deaths = 0

    def produce(count):
        nonlocal sent
        for name in (topic, alone):
            first.produce(name, numbered(count, 2, sent))
            sent += count

    produce(1000)
    query = started(source(spark, first, "towpath", True, **settings), tmp_path, **EVERY)
    while time.monotonic() < deadline:
        time.sleep(random_numbers.uniform(0, 4))
        broker = random_numbers.choice([first, second, second])
        random_numbers.choice([broker.kill, broker.halt])()
        deaths += 1
        time.sleep(random_numbers.choice([0, 1, 5, 12]))
        broker.start()
        produce(150)
        assert query.isActive, query.exception()
    query.processAllAvailable()
    query.stop()
    print(f"{sent} messages, {deaths} deaths of a broker")
    assert numbers(table(spark, tmp_path)) == list(range(sent))


COUNT = 4000


@pytest.fixture(scope="module")
def orders(kafka, tmp_path_factory):
    """A topic of orders, and what the rows of a table of it are."""
    topic = f"orders-{tmp_path_factory.getbasetemp().name}-{time.time_ns()}"
    kafka.create_topic(topic, 3)
    changes = (change(data=[order(number, f"{number}.25")]) for number in range(COUNT))
    sent = kafka.produce(topic, [(None, value, at % 3) for at, value in enumerate(changes)])
    rows = [(number, f"{number}.25", *place(one)) for number, one in enumerate(sent)]
    return topic, rows


def place(sent):
    return sent.topic, sent.partition, sent.offset, sent.timestamp


def rows(frame):
    """The rows of a table of orders, with every column but those that are the same in each."""
    columns = ["cast(total as string)", "topic", "partition", "offset", "unix_millis(timestamp)"]
    return sorted(tuple(row) for row in frame.filter("_error is null").selectExpr("id", *columns).collect())


def driver(kafka, topic, folder, limit, **more):
    """A driver that appends the topic to a table, up to its end."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": limit}
    options |= {"kafka.bootstrap.servers": kafka.bootstrap, "dialect": "canal-json", "schema": SCHEMA, **more}
    options |= {"layout": "upsert", "keep": "topic,partition,offset,timestamp"}
    job = {"source": options, "format": "dying" if more else "towpath"}
    job |= {"table": str(folder / "table"), "checkpoint": str(folder / "checkpoint")}
    file = folder / "job.json"
    file.write_text(json.dumps(job))
    program = Path(sys.modules[KafkaBroker.__module__].__file__).with_name("kafka_stream_driver.py")
    return ServerProcess([sys.executable, program, file], folder / f"driver-{time.monotonic_ns()}.log")


def kill(running, seconds):
    """Kill a driver this long after its first micro-batch."""
    running.wait_until(lambda: "is done" in running.log())
    time.sleep(seconds)
    assert "finished" not in running.log(), "there was nothing left to kill: the micro-batches are too large"
    os.killpg(running.pid, signal.SIGKILL)
    running.stop()


def finish(running):
    running.wait_until(lambda: "finished" in running.log())
    running.stop()


def test_tasks_that_are_killed(spark, kafka, orders, tmp_path):
    """Spark runs them again, and drops the rows that the killed ones have sent."""
    topic, wanted = orders
    marks = tmp_path / "marks"
    marks.mkdir()
    finish(driver(kafka, topic, tmp_path, 1500, marks=str(marks)))
    assert len(list(marks.iterdir())) == 3
    assert rows(table(spark, tmp_path)) == wanted


@pytest.mark.soak
@pytest.mark.parametrize("kills", [1, 4])
def test_drivers_that_are_killed(spark, kafka, orders, tmp_path, kills):
    """Each time at another moment of its micro-batches."""
    topic, wanted = orders
    rng = random.Random(16)
    for _ in range(kills):
        kill(driver(kafka, topic, tmp_path, 30), rng.uniform(0, 1.5))
    finish(driver(kafka, topic, tmp_path, 1500))
    assert rows(table(spark, tmp_path)) == wanted
