"""Reads and validates the file of a job. `schema.py` declares its keys: most are arguments of `replicate`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.lakehouse.job.schema import job_schema, settings
from towpath.names import nearest

if TYPE_CHECKING:
    from jsonschema import ValidationError

_VARIABLE = re.compile(r"\$\{(\w+)\}")
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
"""Those of Spark's source, which ignores others, such as `startingOffset`. Their case does not matter."""

_NEEDS = 'towpath replicate needs more packages ({missing}): pip install "towpath[job]"'


@dataclass(frozen=True)
class Snapshot:
    """Where the rows of a table are read from."""

    format: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class Job:
    """What the file of a job says."""

    source: str
    """The format of the source."""
    source_options: Mapping[str, str]
    replicate: Mapping[str, Any]
    """Arguments of `towpath.spark.replicate`, those of the decoder included."""
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    """The rows of tables, by their names."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of the session."""
    metrics: tuple[str, int] | None = None
    """Address and port where Prometheus reads the metrics."""

    @property
    def own_tables(self) -> dict[str, str]:
        """The tables beside the targets that the job writes, by argument."""
        names = ("dead_letters", "quarantine", "status", "ddl", "watermarks")
        return {name: self.replicate[name] for name in names if name in self.replicate}


def read_job(path: str | Path) -> Job:
    """Read the file of a job. `${NAME}` in a text is the environment variable of this name.

    Raises:
        ValueError: The file is not what the schema says; each problem is in the text, with the probable name of an
            unknown key.
        OSError: The file cannot be read.
    """
    try:
        import jsonschema
        import yaml
    except ImportError as error:
        raise ImportError(_NEEDS.format(missing=error.name)) from error
    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: no YAML: {error}") from None
    validator = jsonschema.Draft202012Validator(job_schema())
    problems = [text for error in validator.iter_errors(found) for text in _problems(error)]
    if problems:
        raise ValueError(f"{path}: {'; '.join(problems)}")
    try:
        return _job(_expanded(found))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _problems(error: ValidationError) -> Iterator[str]:
    place = ".".join(map(str, error.absolute_path))
    at = f"{place}: " if place else ""
    schema: Any = error.schema
    wanted: Any = error.validator_value
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = schema["properties"]
        for name in sorted(map(str, error.instance.keys() - known.keys())):
            yield f"{at}{_unknown(name, known)}"
    elif error.validator == "pattern" and "spark" in error.absolute_path:
        yield f"{at}{error.instance}: expected a setting of Spark, such as spark.master"
    elif error.validator == "type" and not place:
        yield "expected keys and values, such as target: /lake/{database}/{table}"
    elif error.validator == "required":
        instance: Any = error.instance
        missing = [name for name in wanted if name not in instance]
        yield f"{at}missing: {', '.join(missing)}"
    else:
        yield f"{at}{error.message}"


def _unknown(name: str, known: Iterable[str]) -> str:
    probable = nearest(name, known)
    return f"{name} is not a key of a job" + (f"; did you mean {probable}?" if probable else "")


def _expanded(value: Any) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(_variable, value)
    if isinstance(value, dict):
        return {name: _expanded(one) for name, one in value.items()}
    return [_expanded(one) for one in value] if isinstance(value, list) else value


def _variable(found: re.Match[str]) -> str:
    name = found[1]
    if name not in os.environ:
        raise ValueError(f"the environment variable {name} is not set")
    return os.environ[name]


def _job(found: dict[str, Any]) -> Job:
    source, metrics = found.pop("source"), found.pop("metrics", None)
    spark, options, snapshots = found.pop("spark", {}), found.pop("options", {}), found.pop("snapshots", None)
    for name in settings():
        if name in found:
            found[name] = _texts(found[name])
    if misplaced := sorted(options.keys() & job_schema()["properties"].keys()):
        raise ValueError(f"options: {', '.join(misplaced)}: these are keys of the job, not arguments of the decoder")
    form = source.get("format", "kafka")
    if form == "kafka":
        _check_kafka_options(source["options"])
    return Job(
        form,
        _texts(source["options"]),
        {**found, **options},
        _snapshots(snapshots),
        _texts(spark),
        (metrics.get("address", "0.0.0.0"), metrics["port"]) if metrics else None,
    )


def _check_kafka_options(options: Iterable[str]) -> None:
    """Refuse a name that resembles an option. Others are left to Spark, a later version of which may know them."""
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
    shared = _texts(found.get("options", {}))
    snapshots = {}
    for table, own in found["tables"].items():
        options = {**shared, **_texts(own or {})}
        if form == "jdbc" and not {"dbtable", "query"} & options.keys():
            options["dbtable"] = table
        snapshots[table] = Snapshot(form, options)
    return snapshots


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Settings as Spark takes them."""
    return {name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in values.items()}
