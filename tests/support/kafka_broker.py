"""A real Kafka broker on this machine's loopback, and a client that fills it.

    python tests/support/kafka_broker.py

starts one, prints its address and runs until it is interrupted. It needs a JDK 17 or 21 and what `make jars` fetches.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import ElectionType, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from server_process import ServerProcess, free_port, jars, java

# One process is broker and controller. Nothing is replicated by default, and indexes are small.
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
log.index.size.max.bytes=65536
num.partitions=1
auto.create.topics.enable=false
message.max.bytes={largest}
replica.fetch.max.bytes={largest}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
# Tests write messages with old times, which a topic would lose after minutes.
log.retention.ms=-1
"""
# Another broker of the same cluster, whose controller is the first one.
JOINS = """
process.roles=broker
node.id={node}
listeners=PLAINTEXT://127.0.0.1:{port}
"""
JVM = [
    "-Xms64m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
]  # a quick start matters more than throughput
LARGEST = 16_000_000  # bytes of a message: captures have some that Kafka refuses by default
CLUSTER = "dG93cGF0aCB0ZXN0cyA0MQ"  # any 16 bytes, as Kafka prints them


@dataclass(frozen=True)
class Sent:
    """A message as stored by the broker, with the column names of Spark's Kafka source."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    key: bytes | None
    value: bytes | None


class KafkaBroker:
    """A broker that runs from `start` to `stop`, also as a context manager."""

    def __init__(self, more: str = "", joins: "KafkaBroker | None" = None, jvm: Sequence[str] = ()) -> None:
        """A broker of its own cluster, or one that joins another's.

        Args:
            more: Settings that follow the others and replace them; they are formatted as those are.
            joins: The cluster's first broker, which runs for as long as this one.
            jvm: More arguments of its JVM.
        """
        self._jvm = [*JVM, *jvm]
        self._more = (JOINS if joins else "") + more
        self._folder = tempfile.TemporaryDirectory(prefix="kafka-", ignore_cleanup_errors=True)
        self._port = free_port()
        self._controller: int = joins._controller if joins else free_port()
        self.node: int = joins.node + 1 if joins else 1
        """Its number in the cluster."""
        self._server: ServerProcess | None = None

    @property
    def bootstrap(self) -> str:
        """The bootstrap address: host and port."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The broker's process, if it runs."""
        return self._server.pid if self._server else None

    def start(self) -> "KafkaBroker":
        """Start it and wait until it answers; after `halt`, with its topics."""
        folder = Path(self._folder.name)
        settings = folder / "server.properties"
        program = [java(), *self._jvm, "-cp", os.pathsep.join(map(str, jars("kafka")))]
        if not settings.exists():
            numbers = {"port": self._port, "controller": self._controller, "node": self.node}
            settings.write_text((SETTINGS + self._more).format(**numbers, folder=folder, largest=LARGEST))
            _format([*program, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)])
        self._server = ServerProcess([*program, "kafka.Kafka", settings], folder / "broker.log")
        try:
            self._server.wait_until(self._answers)
        except BaseException:
            self.stop()
            raise
        return self

    def halt(self) -> None:
        """End it; `start` continues with its topics."""
        if self._server:
            self._server.stop()

    def kill(self) -> None:
        """End it at once, without a word to the cluster; `start` continues with its topics."""
        if self._server:
            os.kill(self._server.pid, signal.SIGKILL)
            self._server.stop()

    def stop(self) -> None:
        """End it; its topics are gone."""
        self.halt()
        self._folder.cleanup()

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> str:
        """Create a topic and return its name. Settings are Kafka's, with `_` for `.`."""
        config = {key.replace("_", "."): value for key, value in settings.items()}
        return self._create(NewTopic(name, partitions, 1, config=config))

    def create_replicated_topic(self, name: str, replicas: list[list[int]]) -> str:
        """Create a topic with the nodes of each partition, the preferred leader first. Return its name."""
        return self._create(NewTopic(name, len(replicas), replica_assignment=replicas))

    def _create(self, topic: NewTopic) -> str:
        admin = self.admin()  # it has to exist until the broker has answered
        name: str = topic.topic
        admin.create_topics([topic])[name].result(60)
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        """Add partitions until the topic of a running broker has this many, and wait until clients see them."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(60)

        def are_seen() -> bool:
            leaders = self.leaders(topic)
            return len(leaders) == total and -1 not in leaders

        # The controller answers before the broker's metadata has them, and a producer refuses what that lacks.
        assert self._server is not None
        self._server.wait_until(are_seen)

    def leaders(self, topic: str) -> list[int]:
        """The node that leads each partition; -1 if there is none."""
        partitions = self.admin().list_topics(topic, timeout=60).topics[topic].partitions
        return [partitions[number].leader for number in sorted(partitions)]

    def elect_preferred_leaders(self, topic: str) -> None:
        """Ask for the first replica of each partition. It is refused as long as that one has not caught up."""
        partitions = [TopicPartition(topic, number) for number in range(len(self.leaders(topic)))]
        admin = self.admin()
        admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)

    def produce(self, topic: str, messages: Iterable[tuple[bytes | None, bytes | None, int]]) -> list[Sent]:
        """Send messages as (key, value, partition) and wait until the broker has acknowledged all, in order."""
        # Its log reports retries, which do not matter here: an undelivered message is an error below.
        settings = {"enable.idempotence": True, "linger.ms": 5, "message.max.bytes": LARGEST, "log_level": 0}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
        sent: dict[int, Sent] = {}
        count = 0
        for key, value, partition in messages:
            _produce(producer, topic, key, value, partition, partial(_delivered, sent, count, key, value))
            count += 1
        producer.flush(120)
        if len(sent) < count:
            raise RuntimeError(f"the broker took {len(sent)} of {count} messages:\n{self.log_end()}")
        return [sent[at] for at in range(count)]

    def log_end(self) -> str:
        """The end of the broker's log."""
        return self._server.log_end() if self._server else ""

    def _answers(self) -> bool:
        try:
            return self.node in self.admin().list_topics(timeout=1).brokers
        except KafkaException:
            return False

    def admin(self) -> AdminClient:
        """A client that changes topics."""
        # Its log would report that a starting broker refuses connections.
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def __enter__(self) -> "KafkaBroker":
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


def _format(command: list[str]) -> None:
    """Kafka's log folder has to be formatted once."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"Kafka's folder was not formatted:\n{ran.stdout}{ran.stderr}")


def _produce(
    producer: Producer, topic: str, key: bytes | None, value: bytes | None, partition: int, delivered: object
) -> None:
    while True:
        try:
            producer.produce(topic, value, key, partition, on_delivery=delivered)
        except BufferError:  # the client's queue is full: wait
            producer.poll(1)
        else:
            producer.poll(0)
            return


def _delivered(
    sent: dict[int, Sent], at: int, key: bytes | None, value: bytes | None, error: KafkaError | None, report: Message
) -> None:
    if error is None:
        _, milliseconds = report.timestamp()
        sent[at] = Sent(report.topic(), report.partition(), report.offset(), milliseconds, key, value)


def main() -> None:
    """Run a broker until the process is interrupted or terminated."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with KafkaBroker() as broker:
        print(broker.bootstrap, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
