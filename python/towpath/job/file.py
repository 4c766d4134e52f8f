"""Reads and validates the file of a job. `schema.py` declares its keys; most are arguments of `replicate`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from towpath.job.schema import job_schema
from towpath.job.settings import read_settings
from towpath.names import nearest
from towpath.secret_values import hidden, secret_values

_KAFKA_OPTIONS = [
    "kafka.bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "includeHeaders",
]
"""Options of Spark's source. It ignores unknown ones, such as `startingOffset`. Their case does not matter."""

_NEEDS = 'towpath replicate needs more packages ({missing}): pip install "towpath[job]"'


@dataclass(frozen=True)
class Snapshot:
    """Source of the rows of a table."""

    format: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class Job:
    """Contents of a job's file."""

    source: str
    """Format of the source."""
    source_options: Mapping[str, str]
    replicate: Mapping[str, Any]
    """Arguments of `towpath.spark.replicate`, including the arguments of the decoder."""
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    """Sources of tables' rows by table name."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of the session."""
    metrics: tuple[str, int] | None = None
    """Address and port where Prometheus reads the metrics."""

    @property
    def own_tables(self) -> dict[str, str]:
        """Tables that the job writes besides the targets, by argument."""
        names = ("dead_letters", "quarantine", "status", "ddl", "watermarks")
        return {name: self.replicate[name] for name in names if name in self.replicate}

    def hidden(self, text: str) -> str:
        """Remove the job's passwords from a text of another library."""
        snapshots = [one.options for one in self.snapshots.values()]
        return hidden(text, secret_values({"": [self.source_options, self.replicate, self.spark, snapshots]}))


def read_job(path: str | Path) -> Job:
    """Read the file of a job.

    Raises:
        ValueError: The file violates the schema. The text has the key and the line of each problem, but no value, which
            may be a password.
        OSError: The file cannot be read.
    """
    try:
        import yaml  # noqa: F401
    except ImportError as error:
        raise ImportError(_NEEDS.format(missing=error.name)) from error
    try:
        return _job(read_settings(Path(path).read_text(encoding="utf-8"), job_schema()))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start}: not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _job(found: dict[str, Any]) -> Job:
    source, metrics = found.pop("source"), found.pop("metrics", None)
    spark, options, snapshots = found.pop("spark", {}), found.pop("options", {}), found.pop("snapshots", None)
    if misplaced := sorted(options.keys() & job_schema()["properties"].keys()):
        raise ValueError(f"options: {', '.join(misplaced)}: keys of the job, not arguments of the decoder")
    form = source.get("format", "kafka")
    if form == "kafka":
        _check_kafka_options(source["options"])
    return Job(
        form,
        source["options"],
        {**found, **options},
        _snapshots(snapshots),
        spark,
        (metrics.get("address", "127.0.0.1"), metrics["port"]) if metrics else None,
    )


_LOGIN = re.compile(r"""\s*[\w.$]+\s+\w+(?:\s+[\w.]+\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\w.+/=-]+))*\s*;\s*""")
"""Form of a login's text. Kafka's errors quote the parts that they cannot parse."""


def _check_kafka_options(options: Mapping[str, str]) -> None:
    """Refuse a name that resembles an option. Leave other names to Spark: a later version may know them."""
    for name, text in options.items():
        if name.lower().endswith("sasl.jaas.config") and not _LOGIN.fullmatch(text):
            raise ValueError(f'source.options: {name}: expected CLASS required username="..." password="...";')
    known = {name.lower() for name in _KAFKA_OPTIONS}
    for name in options:
        is_known = name.lower().startswith("kafka.") or name.lower() in known
        if not is_known and (probable := nearest(name, _KAFKA_OPTIONS)):
            raise ValueError(
                f"source.options: {name} is not an option of Spark's Kafka source; did you mean {probable}?"
            )


def _snapshots(found: Mapping[str, Any] | None) -> dict[str, Snapshot]:
    if found is None:
        return {}
    form = found.get("format", "jdbc")
    shared = found.get("options", {})
    snapshots = {}
    for table, own in found["tables"].items():
        options = {**shared, **(own or {})}
        if form == "jdbc" and not {"dbtable", "query"} & options.keys():
            options["dbtable"] = table
        snapshots[table] = Snapshot(form, options)
    return snapshots
