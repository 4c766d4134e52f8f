"""Targets equal the tables of a random source that is migrated, whatever partition is read first."""

import random
from collections import Counter

import pytest

from lake_topic import Topic, canal
from migrating_source import MigratingSource


def messages(source):
    """TiCDC's message of each event: each has a commit time."""
    offsets, found = Counter(), {}
    for one in source.events:
        offset = offsets[one.partition]
        offsets[one.partition] += 1
        place = {"second": one.place, "partition": one.partition, "_tidb": {"commitTs": one.place}}
        if one.statement:
            message = canal(offset, "QUERY", "", types=None, sql=one.statement, **place)
        else:
            cells = {"id": str(one.key)} | {name: str(value) for name, value in (one.cells or {}).items()}
            kind = "DELETE" if one.cells is None else "INSERT"
            message = canal(offset, kind, one.table, cells, dict.fromkeys(cells, "int"), **place)
        found[id(one)] = message
    return found


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


@pytest.mark.parametrize("seed", [9, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(10, 60))])
def test_a_source_whose_order_is_known(spark, tmp_path, seed):
    """Each batch is of a query that was started again, and remembers what is in its tables only."""
    rng, topic = random.Random(seed), Topic(spark, tmp_path)
    source = MigratingSource(rng, is_copied=True)
    for _ in range(20):
        source.step()
    sent = messages(source)
    for batch in source.batches(rng, 3):
        if batch:
            topic.replicate(*(sent[id(one)] for one in batch))
    differ, right = compared(topic, source)
    assert {name: one for name, one in differ.items() if one[0] in (None, "ok")} == {}
    assert right
