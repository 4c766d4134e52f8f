"""Targets equal the tables of a random source that is migrated, whatever partition is read first."""

import random
import re
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import groupby

import pytest

import towpath.lakehouse.tables.sql
from canal_entries import packet, row_entry, statement_entry
from lake_topic import Topic, canal
from migrating_source import SECRET, MigratingSource

SECOND = 4
"""How many changes have the same event time: places tell their order, if there are any."""


def ticdc(events, rng):
    """TiCDC's messages of the events of a partition: each has a commit time."""
    for at, one in enumerate(events):
        yield [one], flat(at, one, one.place // SECOND, _tidb={"commitTs": one.place})


def canal_json(events, rng, waits=(0,)):
    """Canal's messages. A change that waited for a lock has an event time that is earlier by one of `waits` seconds."""
    for at, one in enumerate(events):
        second = one.place // SECOND
        arrived = datetime.fromtimestamp(1_700_000_000, timezone.utc) + timedelta(seconds=second, milliseconds=500)
        batch = {"id": 1 + one.place // 3, "ts": 1_700_000_000_400 + 1000 * second}
        yield [one], {**flat(at, one, second - rng.choice(waits), **batch), "timestamp": arrived}


def flat(at, event, second, **more):
    place = {"second": second, "partition": event.partition, **more}
    if event.statement:
        return canal(at, "QUERY", "", types=None, sql=event.statement, **place)
    kind, cells = row_of(event)
    old = {"old": texts(event.old)} if event.old else {}
    return canal(at, kind, event.table, cells, types_of(event, cells), **old, **place)


def row_of(event):
    kind = "DELETE" if event.cells is None else "UPDATE" if event.old else "INSERT"
    return kind, {"id": str(event.key)} | texts(event.cells or {})


def texts(cells):
    return {name: None if value is None else str(value) for name, value in cells.items()}


def in_short(cells):
    """The cells without the digits that a wider type adds."""
    return {name: value and re.sub("[.]0+$", "", value) for name, value in texts(cells).items()}


def types_of(event, cells):
    return {name: event.types.get(name, "int") for name in cells} | {"id": "int"}


def canal_protobuf(events, rng):
    """Messages of the events of a partition, up to five in each: they have places in the binlog."""
    at = 0
    while events:
        count = rng.randint(1, 5)
        part, events = events[:count], events[count:]
        value = packet(*map(entry, part), batch=part[0].place)
        yield part, {"partition": part[0].partition, "offset": at, "value": value}
        at += 1


def entry(event):
    place = {"place": 100 * event.place, "second": event.place // SECOND}
    if event.statement:
        return statement_entry(event.statement, **place)
    kind, cells = row_of(event)
    before = {"id": str(event.key)} | texts(event.old) if event.old else None
    return row_entry(kind, event.table, cells, types_of(event, cells), before=before, **place)


def wanted_rows(source, targets):
    """The rows of each target by key, as text, without columns that are null."""
    wanted = {}
    for name, rows in source.tables.items():
        if not name.endswith("_del"):  # a migration puts it away
            of_target = wanted.setdefault(targets.get(name, name), {})
            of_target |= {
                key: in_short({column: masked(source, name, column, value) for column, value in cells.items()})
                for key, cells in rows.items()
            }
    return wanted


def masked(source, table, column, value):
    """What a target has of a value; a column that is excluded is read as null."""
    if value is None or source.hides("s_", table, column):
        return None
    return str(int(value) - SECRET) if source.hides("m_", table, column) else value


RULES = {
    f"shop.{name}": {"exclude": [f"s_{name}"], "mask": {f"m_{name}": f"string(value - {SECRET})"}} for name in "tuv"
}


def compared(topic, source, targets):
    """The targets of which the rows differ, and the states of the tables that exist."""
    found = topic.states()
    states = [found[name] for name in source.tables if name in found and not name.endswith("_del")]
    differ = {}
    for name, rows in wanted_rows(source, targets).items():
        stored, of_dropped = {}, {key for table, keys in source.dropped.items() if table in targets for key in keys}
        for one in topic.rows(name) if name in topic.tables("shop") else []:
            if one["id"] in of_dropped:
                continue
            # A column that was dropped stays in the target, and others may spell its name in another way.
            cells = {column.lower(): value for column, value in one.items()}
            stored[one["id"]] = in_short({column: cells.get(column.lower()) for column in rows.get(one["id"], one)})
        said = {one["state"] for one in states if targets.get(one["table"], one["table"]) == name}
        if stored != rows:
            differ[name] = said, rows, stored
    return differ, states


class Ended(BaseException):
    """What ends a driver: nothing handles it as an error of a table."""


def ends_at(number, patched):
    """Let the driver end before its n-th commit."""
    retried, commits = towpath.lakehouse.tables.sql.with_retries, []

    def count(action):
        commits.append(action)
        if len(commits) == number:
            raise Ended
        return retried(action)

    patched.setattr(towpath.lakehouse.tables.sql, "with_retries", count)


def replicated(topic, source, rng, written, monkeypatch, **options):
    """Apply the source's events in three batches, each by a query that remembers what is in its tables only.

    Some batches end at a random commit, and are read again.
    """
    of_event = {}
    for _, events in groupby(sorted(source.events, key=lambda one: one.partition), lambda one: one.partition):
        for part, message in written(list(events), rng):
            of_event |= dict.fromkeys(map(id, part), message)
    for batch in source.batches(rng, 3):
        messages = {(one["partition"], one["offset"]): one for one in (of_event[id(event)] for event in batch)}
        if messages and rng.random() < 0.5:
            with monkeypatch.context() as patched:
                ends_at(rng.randint(1, 30), patched)
                with suppress(Ended):
                    topic.replicate(*messages.values(), **options)
        if messages:
            topic.replicate(*messages.values(), **options)


KINDS = {
    "ticdc": ticdc,
    "shards": ticdc,
    "canal-protobuf": canal_protobuf,
    "secrets of canal-json": canal_json,
    "canal-json": canal_json,
    "secrets of ticdc": ticdc,
}
# The last two kinds share the steps of others.
RUNS = [
    pytest.param(kind, seed, marks=[pytest.mark.soak] if seed > 25 or at > 3 else [], id=f"{kind}-{seed}")
    for at, kind in enumerate(KINDS)
    for seed in range(25, 60)
]


@pytest.mark.parametrize(("kind", "seed"), RUNS)
def test_a_source_that_is_migrated(spark, tmp_path, monkeypatch, kind, seed):
    """No target has other rows than its tables unless a state says so.

    With TiCDC's statements in each partition, none has. Otherwise newer rows may have overwritten what a statement
    moves, and canal-json has times only. No file has a secret, whatever is renamed, and whatever is read first.
    """
    rng, topic, writer = random.Random(seed), Topic(spark, tmp_path), KINDS[kind]
    is_copied, has_secrets = writer is ticdc, "secrets" in kind
    # canal-json cannot order the changes of a key in two partitions if one of them waited.
    if is_waiting := writer is canal_json and seed % 2 == 1:
        writer = partial(canal_json, waits=(0, 0, 0, 1, 3))
    facts = {"is_copied": is_copied, "are_shards": kind == "shards", "has_secrets": has_secrets}
    source = MigratingSource(rng, **facts, moves_keys=not is_waiting)
    for _ in range(40):
        source.step()
    targets = dict.fromkeys("tuv", "all") if kind == "shards" else {}
    topic.target = (lambda _, table: topic.name(f"shop/{targets.get(table, table)}")) if targets else topic.target
    dialect = "canal-protobuf" if kind == "canal-protobuf" else "canal-json"
    replicated(topic, source, rng, writer, monkeypatch, dialect=dialect, columns=RULES if has_secrets else None)
    if has_secrets:  # rows that waited for the statement that explains a column
        topic.reprocess(columns=RULES)
    assert topic.files_with(r"\b7654\d{3}\b") == set()
    differ, states = compared(topic, source, targets)
    assert [name for name, (said, *_) in differ.items() if not said & {"stale", "renamed"}] == []
    reasons = {one["reason"] for one in states if one["state"] == "stale"}
    if is_copied and not has_secrets:
        assert (reasons, differ) == (set(), {})
    elif dialect == "canal-protobuf":
        assert all("older rows of their keys are lost" in one for one in reasons)
    if dialect == "canal-protobuf" or is_copied:
        assert "ok" in {one["state"] for one in states}
