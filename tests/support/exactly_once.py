"""Parts of the test of exactly-once: redelivered messages, drivers that are killed, and a comparison of each cell."""

import json
import os
import random
import shutil
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kafka_broker import KafkaBroker
from replication_driver import replicated
from server_process import ServerProcess
from towpath.ddl import quoted
from truth import Json

Row = dict[str, Any]
DRIVER = Path(__file__).parent / "replication_driver.py"


@dataclass(frozen=True)
class Record:
    """A message with its topic and partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = 0


@dataclass(frozen=True)
class Case:
    """A capture, how it is replicated, and the source's final tables."""

    dialect: str
    records: Sequence[Record]
    tables: dict[str, list[Row]]
    keys: dict[str, list[str]]
    limit: int
    """Messages a micro-batch."""
    options: dict[str, Any] = field(default_factory=dict)
    """More arguments of `replicate`."""
    schemas: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """Of the driver's Spark; its own defaults otherwise."""
    old_ranges: bool = False
    """Whether its messages have a source position, so that old ranges may be sent again alone."""


def spread(key: bytes | None, partitions: int) -> int:
    """A partition for a key, as a producer would choose one."""
    return zlib.crc32(key or b"") % partitions


def with_redeliveries(records: Sequence[Record], old_ranges: bool, rng: random.Random) -> Iterator[Record]:
    """The records as a producer with at-least-once delivery sends them.

    Some are sent twice. Sometimes the producer restarts from an older position and sends everything after it
    again. With `old_ranges`, old ranges are sent again alone, long after they were first sent.
    """
    length = len(records)
    restarts = sorted(rng.sample(range(length // 4, length), 4))
    returns = sorted(rng.sample(range(length // 2, length), 3)) if old_ranges else []
    for at, record in enumerate(records):
        yield record
        if rng.random() < 0.03:
            yield record
        if restarts and at == restarts[0]:
            yield from records[restarts.pop(0) - length // 10 : at + 1]
        if returns and at == returns[0]:
            begin = rng.randrange(returns.pop(0) - length // 4)
            yield from records[begin : begin + length // 10]


def fill(kafka: KafkaBroker, case: Case, prefix: str, rng: random.Random) -> list[str]:
    """Produce the case's messages, and return the names of the topics."""
    topics = {record.topic: f"{prefix}-{record.topic}"[:240] for record in case.records}
    partitions = 1 + max(record.partition for record in case.records)
    for topic in topics.values():
        kafka.create_topic(topic, partitions)
    for source, topic in topics.items():
        records = [record for record in case.records if record.topic == source]
        # A topic of three messages is too short for restarts.
        sent = with_redeliveries(records, case.old_ranges, rng) if len(records) > 20 else records
        kafka.produce(topic, [(record.key, record.value, record.partition) for record in sent])
    return list(topics.values())


@dataclass(frozen=True)
class Lake:
    """Where the tables of a job are: Delta tables in a folder, or those of the Iceberg catalog of `lake_session`."""

    folder: Path
    format: str = "delta"

    def target(self, name: str) -> str:
        """The arguments of `replicate`."""
        in_catalog = ".".join(["ice", *map(quoted, name.split("."))])
        return in_catalog if self.format == "iceberg" else str(self.path(name))

    def path(self, name: str) -> Path:
        """The folder of a table."""
        lake = self.folder / ("warehouse/iceberg" if self.format == "iceberg" else "lake")
        return lake / name.replace(".", "/")

    def load(self, spark: SparkSession, name: str) -> DataFrame:
        """The rows of a table, read in another session than that of the job."""
        return spark.read.format(self.format).load(str(self.path(name)))

    def count(self, spark: SparkSession, name: str) -> int:
        """The rows of a table, which may not exist."""
        return self.load(spark, name).count() if self.path(name).exists() else 0


class Drivers:
    """Starts one driver after the other for the same job and checkpoint, and lets them merge in turn in both ways."""

    def __init__(self, kafka: KafkaBroker, case: Case, topics: list[str], lake: Lake, format: str) -> None:
        folder = self._folder = lake.folder
        self._checkpoint = folder / "checkpoint"
        self._limit = case.limit
        self._merge = cycle(["auto", "spark"])
        self._job = {
            "warehouse": str(folder / "warehouse"),
            "format": format,
            "source": {
                **({"layout": "messages"} if format == "towpath" else {}),
                "kafka.bootstrap.servers": kafka.bootstrap,
                "subscribe": ",".join(topics),
                "startingOffsets": "earliest",
            },
            "schemas": case.schemas,
            "settings": case.settings,
            "replicate": {
                "target": {name: lake.target(name) for name in case.tables},
                "dialect": case.dialect,
                "checkpoint": str(self._checkpoint),
                **{name: lake.target(f"own.{name}") for name in ("dead_letters", "ddl", "watermarks")},
                **case.options,
            },
        }

    def start_and_kill(self, rng: random.Random) -> None:
        """Start a driver, and kill it with all its processes in one of its next batches after the first or second."""
        driver = self._start(self._limit)
        batches = rng.randint(1, 2)
        driver.wait_until(lambda: driver.log().count("is done") >= batches, 600)
        # At any time of a slow batch, and before fast ones have read all.
        until = time.monotonic() + rng.uniform(0, 4)
        while time.monotonic() < until and driver.log().count("is done") <= batches:
            time.sleep(0.05)
        assert "finished" not in driver.log(), "there was nothing left to kill: the batches are too large"
        os.killpg(driver.pid, signal.SIGKILL)
        driver.stop()

    def finish(self, limit: int | None = None, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Run a driver to the end of the topics, and do something again and again meanwhile."""
        driver = self._start(limit or self._limit)

        def has_finished() -> bool:
            meanwhile()
            return "finished" in driver.log()

        driver.wait_until(has_finished, 1800)
        driver.stop()

    def finish_here(self, spark: SparkSession, limit: int | None = None) -> None:
        """Replicate the rest of the topics in this process."""
        query = replicated(spark, self._next(limit or self._limit))
        query.awaitTermination()

    def remember(self) -> None:
        """Copy the checkpoint."""
        shutil.copytree(self._checkpoint, self._folder / "remembered")

    def fall_back(self) -> None:
        """Restore the copy of the checkpoint: all batches since then are processed again."""
        shutil.rmtree(self._checkpoint)
        shutil.move(self._folder / "remembered", self._checkpoint)

    def _start(self, limit: int) -> ServerProcess:
        file = self._folder / "job.json"
        file.write_text(json.dumps(self._next(limit)))
        return ServerProcess([sys.executable, DRIVER, file], self._folder / f"driver-{time.monotonic_ns()}.log")

    def _next(self, limit: int) -> Row:
        """The job of the next driver."""
        source = {**self._job["source"], "maxOffsetsPerTrigger": str(limit)}
        return {**self._job, "source": source, "replicate": {"merge": next(self._merge), **self._job["replicate"]}}


def compare(spark: SparkSession, lake: Lake, case: Case) -> int:
    """Compare each cell of each table with the source's, and return how many there were."""
    cells = 0
    for name, rows in case.tables.items():
        got = by_key(lake.load(spark, name).drop("_towpath").toArrow().to_pylist(), case.keys[name])
        want = by_key(rows, case.keys[name])
        assert got.keys() == want.keys(), f"{name}: rows {list(got.keys() ^ want.keys())[:5]} are on one side only"
        for key, row in want.items():
            found = differences(row, got[key])
            assert not found, f"{name} {key}: {found}"
            cells += len(row)
    return cells


def by_key(rows: list[Row], keys: list[str]) -> dict[tuple[Any, ...], Row]:
    """Rows by their primary key, which is unique."""
    found = {tuple(row[key] for key in keys): row for row in rows}
    assert len(found) == len(rows), "a key is there more than once"
    return found


def differences(want: Row, got: Row) -> list[tuple[str, Any, Any]]:
    """The cells that differ, with both values."""
    names = {**want, **got}
    return [(name, want.get(name), got.get(name)) for name in names if not same(want.get(name), got.get(name))]


def same(want: Any, got: Any) -> bool:
    """Whether two cells are equal; JSON is compared as parsed."""
    if isinstance(want, Json) and got is not None:
        return bool(json.loads(want.text) == json.loads(got))
    return bool(want == got)


def prove(
    spark: SparkSession,
    kafka: KafkaBroker,
    lake: Lake,
    case: Case,
    seed: int,
    report: Callable[[str, Any], None],
    topics: list[str] | None = None,
    dead_letters: int = 0,
    format: str = "kafka",
    kills: int = 3,
    *,
    is_finished_here: bool = False,
) -> None:
    """Fill the topics if they are not, kill drivers, restore an old checkpoint, and compare the tables.

    The format is that of Spark's Kafka source, or `towpath`. Drivers that are not killed run in their own processes, or
    in this one.
    """
    rng = random.Random(seed)
    topics = topics or fill(kafka, case, f"{lake.folder.name}-{seed}", rng)
    drivers = Drivers(kafka, case, topics, lake, format)
    for kill in range(kills):
        drivers.start_and_kill(rng)
        if kill == 0:
            drivers.remember()
    finish = partial(drivers.finish_here, spark) if is_finished_here else drivers.finish
    finish()
    assert lake.count(spark, "own.dead_letters") == dead_letters
    report("cells", compare(spark, lake, case))
    # With the old checkpoint, changes that were applied long ago are processed again, in other batches.
    drivers.fall_back()
    finish(limit=case.limit * 2)
    report("cells after falling back", compare(spark, lake, case))
    assert lake.count(spark, "own.dead_letters") == dead_letters
