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
from functools import partial
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

pytestmark = pytest.mark.soak

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


def test_a_broker_that_dies_and_restarts(two_brokers, topic):
    """It leads two partitions, of which one has a replica; a task has fetched a part of each ahead.

    The task of the first one gets the rest from the new leader. The messages of the other one are waited for, and do
    not count as gone, unlike those of a deleted topic. Meanwhile the driver asks for offsets: librdkafka returns an
    invalid one if a leader does not answer in time.
    """
    first, second = two_brokers
    alone = f"{topic}-alone"
    first.create_replicated_topic(topic, [[second.node, first.node]])
    first.create_replicated_topic(alone, [[second.node]])
    values = [b"%d" % number + b"x" * 1000 for number in range(30_000)]

    def settings(name, **more):
        options = {"subscribe": name, "layout": "messages", "fetchBufferBytes": "1m"}
        return parse_kafka_options({**options, **of_both(two_brokers), **more})

    def begun(name):
        """The newest offsets as a function, what was read, and the rest."""
        first.produce(name, ((None, value, 0) for value in values))
        cluster = Cluster(settings(name, **{"kafka.socket.timeout.ms": "1000"}))
        newest = partial(cluster.latest, cluster.partitions())
        assert newest() == {(name, 0): len(values)}
        reader = KafkaReader(settings(name))
        [task] = reader.partitions()
        batches = reader.read(task)
        return newest, next(batches)["value"].to_pylist(), batches

    def with_rest(read, batches):
        return read + [value for batch in batches for value in batch["value"].to_pylist()]

    newest, *parts = begun(topic)
    newest_alone, *parts_alone = begun(alone)
    wait_until(lambda: all_in_sync(first, topic))
    wanted = Range(TopicPartition(alone, 0), 2, 5)
    unknown = replace(wanted, partition=TopicPartition(alone, 1))
    with fetcher(settings(alone)) as asking, ThreadPoolExecutor() as pool:
        second.kill()
        wait_until(lambda: first.leaders(alone) == [-1])
        waiting = [pool.submit(newest_alone), pool.submit(with_rest, *parts_alone)]
        assert newest() == {(topic, 0): len(values)}
        assert with_rest(*parts) == values
        assert first.leaders(topic) == [first.node]
        assert (asking._bounds(wanted), asking._bounds(unknown)) == ((2, 5), (0, 0))
        assert not any(one.done() for one in waiting)
        second.start()
        assert [one.result(60) for one in waiting] == [{(alone, 0): len(values)}, values]
        wait_until(lambda: asking._bounds(wanted) == (0, len(values)))
        admin = first.admin()
        admin.delete_topics([alone])[alone].result(30)
        wait_until(lambda: asking._bounds(wanted) == (0, 0))


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


def test_drivers_that_are_killed(spark, kafka, orders, tmp_path):
    """Each time at another moment of its micro-batches."""
    topic, wanted = orders
    rng = random.Random(16)
    for _ in range(4):
        kill(driver(kafka, topic, tmp_path, 30), rng.uniform(0, 1.5))
    finish(driver(kafka, topic, tmp_path, 1500))
    assert rows(table(spark, tmp_path)) == wanted
