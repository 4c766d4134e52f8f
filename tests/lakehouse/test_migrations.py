"""Targets equal the tables of a random source that is migrated, whatever partition is read first."""

import random
from functools import partial
from itertools import groupby

import pytest

from canal_entries import packet, row_entry, statement_entry
from lake_topic import Topic, canal
from migrating_source import MigratingSource

SECOND = 4
"""How many changes have the same event time: only their places tell their order."""


def ticdc(events):
    """TiCDC's messages of the events of a partition: each has a commit time."""
    for at, one in enumerate(events):
        place = {"second": one.place // SECOND, "partition": one.partition, "_tidb": {"commitTs": one.place}}
        if one.statement:
            yield [one], canal(at, "QUERY", "", types=None, sql=one.statement, **place)
        else:
            kind, cells = row_of(one)
            yield [one], canal(at, kind, one.table, cells, dict.fromkeys(cells, "int"), **place)


def row_of(event):
    cells = {name: str(value) for name, value in (event.cells or {}).items()}
    return "DELETE" if event.cells is None else "INSERT", {"id": str(event.key)} | cells


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
    return row_entry(kind, event.table, cells, **place)


def compared(topic, source):
    """The tables of which the rows differ, with their states, and how many tables are right and ok."""
    states, differ, right = topic.states(), {}, 0
    for name, rows in source.tables.items():
        if name.endswith("_del"):  # a migration puts it away
            continue
        wanted = {key: {column: int(value) for column, value in cells.items()} for key, cells in rows.items()}
        state = states[name]["state"] if name in states else None
        found = {}
        for one in topic.rows(name) if state else []:
            found[one["id"]] = {column: one.get(column) for column in wanted.get(one["id"], one)}
        right += (found, state) == (wanted, "ok")
        if found != wanted:
            differ[name] = state, wanted, found
    return differ, right


def replicated(topic, source, rng, written, dialect):
    """Apply the source's events in three batches, each by a query that remembers what is in its tables only."""
    of_event = {}
    for _, events in groupby(sorted(source.events, key=lambda one: one.partition), lambda one: one.partition):
        for part, message in written(list(events)):
            of_event |= dict.fromkeys(map(id, part), message)
    for batch in source.batches(rng, 3):
        messages = {(one["partition"], one["offset"]): one for one in (of_event[id(event)] for event in batch)}
        if messages:
            topic.replicate(*messages.values(), dialect=dialect)


SEEDS = [9, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(10, 60))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dialect", ["canal-json", "canal-protobuf"])
def test_a_source_whose_order_is_known(spark, tmp_path, seed, dialect):
    rng, topic = random.Random(seed), Topic(spark, tmp_path)
    source = MigratingSource(rng, is_copied=dialect == "canal-json")
    for _ in range(20):
        source.step()
    replicated(topic, source, rng, ticdc if dialect == "canal-json" else partial(canal_protobuf, rng=rng), dialect)
    differ, right = compared(topic, source)
    assert {name: one for name, one in differ.items() if one[0] in (None, "ok")} == {}
    assert right
