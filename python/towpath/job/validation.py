"""Validates everything that a job needs before it runs: options, packages, brokers, topics, and output places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from towpath.job.exporter import Server
from towpath.job.file import Job, Snapshot
from towpath.job.run import messages, snapshot
from towpath.lakehouse.replicate import replicate
from towpath.lakehouse.tables.formats import DELTA, format_of
from towpath.lakehouse.tables.sessions import unfitting_jar
from towpath.lakehouse.tables.sql import execute, sql, table
from towpath.lakehouse.tables.targets import absolute, catalog_parts, is_path
from towpath.names import did_you_mean
from towpath.schema_registry import registry, shown
from towpath.versions import combination_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELTA = "io.delta.sql.DeltaSparkSessionExtension"
_SOON = {"kafka.default.api.timeout.ms": "10000", "kafka.request.timeout.ms": "5000"}
"""Short timeouts that detect silent brokers early."""

_FORMATS = ("jdbc", "parquet", "csv", "json", "orc", "text", "xml", "avro", "delta", "iceberg")
"""Formats of Spark's reader that a snapshot may have."""

_MOST_TEXT = 500
_OF_PYTHON = re.compile(r"^\w*(?:Error|Exception): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Check:
    """Result of one check."""

    name: str
    found: str
    """Description of the result or of the problem."""
    is_ok: bool = True


def check(job: Job, spark: SparkSession) -> Iterator[Check]:
    """Check everything that a job needs, without changes. A file is created and deleted where the job writes."""
    for one in _checks(job, spark):
        yield replace(one, found=job.hidden(one.found)[:_MOST_TEXT])


def _checks(job: Job, spark: SparkSession) -> Iterator[Check]:
    yield _checked("arguments", lambda: _arguments(job, spark))
    yield _checked("source", lambda: _source(job, spark))
    target = job.replicate["target"]
    targets = {"target": target} if isinstance(target, str) else {f"target of {k}": v for k, v in target.items()}
    for name, place in targets.items():
        yield _checked(name, partial(_target, spark, place))
    for name, place in job.own_tables.items():
        yield _checked(name, partial(_table, spark, place))
    yield from _shared_places(job)
    if "schema_registry" in job.replicate:
        yield _checked("schema_registry", lambda: _registry(job.replicate["schema_registry"]))
    for name, one in job.snapshots.items():
        yield _checked(f"snapshot of {name}", partial(_snapshot, one, spark))
    yield _checked("checkpoint", lambda: _writable(spark, job.replicate["checkpoint"]))
    if job.metrics:
        yield _checked("metrics", partial(_free, *job.metrics))
    if names := sorted(_without_database(job)):
        yield Check("names", f"{', '.join(names)}: expected database.table, unless the table has no database")
    if "dead_letters" not in job.replicate:
        yield Check("dead_letters", "not set: the first message that cannot be read stops the job")
    if "status" not in job.replicate:
        yield Check("status", "not set: the states of the tables are only printed")


def _shared_places(job: Job) -> Iterator[Check]:
    """Check for tables of different kinds in one place."""
    seen: dict[str, str] = {}
    for name, place in {**job.own_tables, "checkpoint": job.replicate["checkpoint"]}.items():
        if (other := seen.setdefault(place.rstrip("/"), name)) != name:
            yield Check(name, f"{place} is already the path of {other}", is_ok=False)


def _without_database(job: Job) -> set[str]:
    """Return the tables that are named without a database. Only a few dialects have such tables."""
    by_table = ("keys", "schemas", "table_options", "columns", "cluster_by", "history")
    named = [job.replicate.get(name) for name in by_table]
    return {
        table for one in (*named, job.snapshots) if isinstance(one, dict | list) for table in one if "." not in table
    }


def _free(address: str, port: int) -> str:
    """Listen on a port, and release it."""
    Server(address, port).server_close()
    return f"{address}:{port}"


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, look())
    except Exception as error:  # a failed check must not stop the others
        return Check(name, " ".join(_without_stack(error).split()), is_ok=False)


def _arguments(job: Job, spark: SparkSession) -> str:
    """Apply no messages with the job's arguments, so that each function validates its arguments."""
    columns = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
    nothing = spark.createDataFrame([], columns)
    unused = {*job.own_tables, "checkpoint", "trigger", "query_name", "writer_options"} - {"status"}  # rules need it
    replicate(nothing, **{name: one for name, one in job.replicate.items() if name not in unused})
    _check_masks(job, spark)
    return f"dialect {job.replicate.get('dialect', 'auto')}"


def _check_masks(job: Job, spark: SparkSession) -> None:
    """Let Spark parse the expressions. The types of their columns are still unknown."""
    session: Any = spark._jsparkSession
    for name, rules in job.replicate.get("columns", {}).items():
        for column, expression in rules.get("mask", {}).items():
            try:
                session.sessionState().sqlParser().parseExpression(expression)
            except Exception as error:
                reason = str(error).strip().splitlines()[0]
                raise ValueError(f"columns: {name}: mask: {column}: {expression}: {reason}") from None


def _source(job: Job, spark: SparkSession) -> str:
    """Ask the brokers for the newest offsets of the topics."""
    options = {name.lower(): one for name, one in job.source_options.items()}
    topics = options.get("subscribe") or options.get("subscribepattern") or options.get("assign") or ""
    _check_starts(job, spark, options)
    newest = {"startingOffsets": "earliest", "endingOffsets": "latest"}
    soon = _SOON if job.source == "kafka" else {}
    found = messages(job, spark, stream=False, **newest, **soon)
    try:
        partitions = found.rdd.getNumPartitions()
    except Exception as error:
        cause = _cause(error)
        reason = "no broker responds: " if "TimeoutException" in cause else ""
        raise ValueError(f"topics {topics} at {options.get('kafka.bootstrap.servers')}: {reason}{cause}") from None
    if not partitions:
        raise ValueError(f"no topic matches {topics}")
    return f"{job.source}: {topics}: {partitions} partitions"


def _check_starts(job: Job, spark: SparkSession, options: Mapping[str, str]) -> None:
    """Check the options that Spark only checks at the start of the query."""
    starts = options.get("startingoffsets", "latest")
    if starts.lower() not in ("earliest", "latest") and not starts.lstrip().startswith("{"):
        raise ValueError(f"startingOffsets: expected earliest, latest or JSON, not {starts}")
    most = options.get("maxoffsetspertrigger", "1")
    if not (most.isdecimal() and int(most)):
        raise ValueError(f"maxOffsetsPerTrigger: expected a positive integer, not {most}")
    if text := job.replicate.get("trigger", {}).get("processingTime"):
        try:
            messages(job, spark).writeStream.trigger(processingTime=text)
        except Exception as error:
            raise ValueError(f"trigger: processingTime: {error}") from None


def _registry(config: str | Mapping[str, Any]) -> str:
    """Ask for a schema, which need not exist."""
    _, unfetched = registry(config).fetch([1])
    if why := next((why for why in unfetched.values() if "returned 404" not in why), None):
        raise ValueError(why)
    return f"{shown(config)}: reachable"


def _snapshot(found: Snapshot, spark: SparkSession) -> str:
    """Ask for the columns of a snapshot."""
    if found.format == "jdbc" and not found.options.get("url", "").startswith("jdbc:"):
        raise ValueError("url: expected a JDBC URL such as jdbc:mysql://host:3306")
    try:
        columns = snapshot(found, spark).schema
    except Exception as error:
        cause = _cause(error)
        if cause.endswith(".DefaultSource"):
            probable = did_you_mean(found.format, _FORMATS)
            raise ValueError(f"format: {probable}add the package of any other format to spark.jars.packages") from None
        cure = ": add the package of the JDBC driver to spark.jars.packages" if "No suitable driver" in cause else ""
        raise ValueError(f"{_cured(cause)}{cure}") from None
    return f"{found.format}: {columns.simpleString()}"


def _target(spark: SparkSession, target: str) -> str:
    found = _table(spark, target)
    if is_path(target):
        _try_delta(spark, target)
    return found


def _table(spark: SparkSession, target: str) -> str:
    known = format_of(spark, target)
    if known is DELTA:
        _check_delta(spark)
    if is_path(target):
        return _writable(spark, target)
    *parents, _ = catalog_parts(target)
    catalog = parents[0] if len(parents) > 1 else "spark_catalog"
    if spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None and catalog != "spark_catalog":
        raise ValueError(f"unknown catalog {catalog}: spark.sql.catalog.{catalog} is not set")
    spark.sql(f"SHOW NAMESPACES IN `{catalog.replace('`', '``')}`").collect()
    return f"{known.name} tables in the catalog {catalog}"


def _check_delta(spark: SparkSession) -> None:
    """Refuse a session that cannot write Delta tables. Spark's own error has pages of Java."""
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Class.forName(_DELTA, False, jvm.Thread.currentThread().getContextClassLoader())
    except Exception:
        tested = combination_with(spark.version)
        jar = tested.jars.get("delta") if tested else None
        cure = f"set spark.jars.packages to {jar}" if jar else "set spark.jars.packages to the Delta of this Spark"
        raise ValueError(f"the session has no Delta: {cure}, or spark.jars to its jars") from None
    settings = {"spark.sql.extensions": _DELTA, "spark.sql.catalog.spark_catalog": "DeltaCatalog"}
    for name, wanted in settings.items():
        if wanted not in (spark.conf.get(name, "") or ""):
            full = wanted if wanted == _DELTA else "org.apache.spark.sql.delta.catalog.DeltaCatalog"
            raise ValueError(f"the session's setting {name} must contain {full}")


def _try_delta(spark: SparkSession, target: str) -> None:
    """Create, read and delete a table: a jar for another Spark is found, but fails only here."""
    system, probe = _probe(spark, target)
    name = table(probe.toString())
    try:
        execute(spark, sql("CREATE TABLE {name} (id int) USING delta", name=name))
        execute(spark, sql("SELECT * FROM {name}", name=name)).collect()
    except Exception as error:
        raise unfitting_jar(spark.version, error) or error from None
    finally:
        system.delete(probe, True)


def _writable(spark: SparkSession, place: str) -> str:
    """Create and delete a file."""
    system, probe = _probe(spark, place)
    try:
        system.create(probe, False).close()
    except Exception as error:
        raise ValueError(f"cannot write to {probe.getParent()}: {_cause(error)}") from None
    system.delete(probe, False)
    return f"{absolute(place)}: writable"


def _probe(spark: SparkSession, place: str) -> tuple[Any, Any]:
    """Return the file system of the last existing folder before any placeholder, and a new name in this folder."""
    jvm: Any = spark._jvm
    place = absolute(place)
    folder = jvm.org.apache.hadoop.fs.Path(place.partition("{")[0].rpartition("/")[0] or "/")
    try:
        system = folder.getFileSystem(spark._jsc.hadoopConfiguration())
    except Exception as error:
        raise ValueError(f"{place}: {_cured(_cause(error))}") from None
    while not system.exists(folder):
        folder = folder.getParent()
    return system, jvm.org.apache.hadoop.fs.Path(folder, f".towpath-{uuid4().hex}")


def _cured(cause: str) -> str:
    """Add a remedy to a cause, if a class is missing."""
    is_missing = re.search("ClassNotFoundException|No FileSystem for scheme", cause)
    return f"{cause}: add its package to spark.jars.packages" if is_missing else cause


def _without_stack(error: Exception) -> str:
    """Return an error's text. For an error that Spark received from Python, return Python's text."""
    text = str(error)
    found = _OF_PYTHON.findall(text) if "Traceback (most recent call last)" in text else []
    return found[-1] if found else text


def _cause(error: Exception) -> str:
    """Return the root cause of a Java error without the stack trace."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if cause is None:
        return str(error)
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString())
