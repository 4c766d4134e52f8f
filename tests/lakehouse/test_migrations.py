"""Targets equal the tables of a random source that is migrated, whatever partition is read first."""

import random
import re
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import chain, groupby

import pytest

import towpath.lakehouse.tables.sql
from canal_entries import packet, row_entry, statement_entry
from lake_cases import Case
from lake_topic import Topic, canal
from migrating_source import SECRET, MigratingSource

SECOND = 4
"""How many changes have the same event time: places tell their order, if there are any."""


def ticdc(events, database, rng):
    """TiCDC's messages of the events of a partition: each has a commit time."""
    for at, one in enumerate(events):
        yield [one], flat(at, one, one.place // SECOND, database=database, _tidb={"commitTs": one.place})


def canal_json(events, database, rng, waits=(0,)):
    """Canal's messages. A change that waited for a lock has an event time that is earlier by one of `waits` seconds."""
    for at, one in enumerate(events):
        second = one.place // SECOND
        arrived = datetime.fromtimestamp(1_700_000_000, timezone.utc) + timedelta(seconds=second, milliseconds=500)
        batch = {"id": 1 + one.place // 3, "ts": 1_700_000_000_400 + 1000 * second, "database": database}
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


def canal_protobuf(events, database, rng):
    """Messages of the events of a partition, up to five in each: they have places in the binlog."""
    at = 0
    while events:
        count = rng.randint(1, 5)
        part, events = events[:count], events[count:]
        value = packet(*(entry(one, database) for one in part), batch=part[0].place)
        yield part, {"partition": part[0].partition, "offset": at, "value": value}
        at += 1


def entry(event, database):
    place = {"place": 100 * event.place, "second": event.place // SECOND, "database": database}
    if event.statement:
        return statement_entry(event.statement, **place)
    kind, cells = row_of(event)
    before = {"id": str(event.key)} | texts(event.old) if event.old else None
    return row_entry(kind, event.table, cells, types_of(event, cells), before=before, **place)


def masked(source, table, column, value):
    """What a target has of a value; a column that is excluded is read as null."""
    if value is None or source.hides("s_", table, column):
        return None
    return str(int(value) - SECRET) if source.hides("m_", table, column) else value


RULES = {
    f"shop.{name}": {"exclude": [f"s_{name}"], "mask": {f"m_{name}": f"string(value - {SECRET})"}} for name in "tuv"
}


class Migration(Case):
    """A random source with a database and a topic of its own, and its targets."""

    def __init__(self, topic, number, kind, seed):
        """Migrate it at random."""
        super().__init__(topic, number)
        self._kind, self._rng, self._writer = kind, random.Random(seed), KINDS[kind]
        # canal-json cannot order the changes of a key in two partitions if one of them waited.
        if is_waiting := self._writer is canal_json and seed % 2 == 1:
            self._writer = partial(canal_json, waits=(0, 0, 0, 1, 3))
        self._is_copied, self.has_secrets = self._writer is ticdc, "secrets" in kind
        facts = {"are_shards": kind == SHARDS, "has_secrets": self.has_secrets, "moves_keys": not is_waiting}
        self._source = MigratingSource(self._rng, is_copied=self._is_copied, **facts)
        for _ in range(40):
            self._source.step()

    def batches(self):
        """The messages of three batches."""
        of_event = {}
        for _, events in groupby(sorted(self._source.events, key=lambda one: one.partition), lambda one: one.partition):
            for part, message in self._writer(list(events), self.database, self._rng):
                message["topic"] = self.database
                of_event |= {id(event): message for event in part}
        for batch in self._source.batches(self._rng, 3):
            found = (of_event[id(event)] for event in batch)
            yield list({(one["partition"], one["offset"]): one for one in found}.values())

    def problems(self):
        """What is wrong with its targets or their states."""
        differ, states = self._compared()
        found = [f"{name}: {rows}" for name, (said, *rows) in differ.items() if not said & {"stale", "renamed"}]
        reasons = {one["reason"] for one in states if one["state"] == "stale"}
        if self._is_copied and not self.has_secrets:
            found += [*differ, *reasons]
        elif self._writer is canal_protobuf:
            found += [one for one in reasons if "older rows of their keys are lost" not in one]
        if (self._is_copied or self._writer is canal_protobuf) and "ok" not in {one["state"] for one in states}:
            found.append("no table is ok")
        return found + [f"{name}: a file has a secret" for name in self.files_with(r"\b7654\d{3}\b")]

    def _compared(self):
        """The targets of which the rows differ, and the states of the tables that exist."""
        said = self.states()
        states = [said[name] for name in self._source.tables if name in said]
        stored_in, differ = {re.sub("^%5F", "_", one) for one in self.tables("shop")}, {}
        for name, rows in self._wanted_rows().items():
            dropped = {key for one, keys in self._source.dropped.items() if self._target(one) == name for key in keys}
            stored = {}
            for one in self.rows(name) if name in stored_in else []:
                # A column that was dropped stays in the target, and others may spell its name in another way.
                cells = {column.lower(): value for column, value in one.items()}
                if one["id"] not in dropped:
                    wanted = rows.get(one["id"], one)
                    stored[one["id"]] = in_short({column: cells.get(column.lower()) for column in wanted})
            if stored != rows:
                differ[name] = {one["state"] for one in states if self._target(one["table"]) == name}, rows, stored
        return differ, states

    def _wanted_rows(self):
        """The rows of each target by key, as text, without columns that are null."""
        wanted = {}
        for name, rows in self._source.tables.items():
            of_target = wanted.setdefault(self._target(name), {})
            for key, cells in rows.items():
                shown = {column: masked(self._source, name, column, value) for column, value in cells.items()}
                of_target[key] = in_short(shown)
        return wanted

    def _target(self, table):
        return shared(table) if self._kind == SHARDS else table


def shared(table):
    """The target of a shard, or of a copy of one."""
    return "all" if table in {"t", "u", "v"} else table


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


def replicated(topic, migrations, monkeypatch, **options):
    """Apply the events of sources in three batches, each by a query that remembers what is in its tables only.

    Some batches end at a random commit, and are read again.
    """
    rng = random.Random(len(migrations))
    for batch in zip(*(one.batches() for one in migrations), strict=True):
        messages = list(chain.from_iterable(batch))
        if rng.random() < 0.5:
            with monkeypatch.context() as patched:
                ends_at(rng.randint(1, 30 * len(migrations)), patched)
                with suppress(Ended):
                    topic.replicate(*messages, **options)
        topic.replicate(*messages, **options)


SHARDS = "shards"
KINDS = {
    "ticdc": ticdc,
    "canal-json": canal_json,
    "secrets of ticdc": ticdc,
    "secrets of canal-json": canal_json,
    SHARDS: ticdc,
    "canal-protobuf": canal_protobuf,
}
TOGETHER = [list(KINDS)[:4], [SHARDS], ["canal-protobuf"]]
"""Kinds whose sources share batches."""
SHORT = [["ticdc", "secrets of canal-json"], *TOGETHER[1:]]
"""Those of `make test`: with and without times of commits, and with and without secrets."""
FIRST, FLEETS = range(25, 26), [range(first, first + 5) for first in range(26, 86, 5)]
"""Seeds of `make test`, and seeds of each soak run."""
RUNS = [
    pytest.param(
        kinds,
        seeds,
        catalog,
        marks=[] if seeds is FIRST else [pytest.mark.soak],
        id=f"{kinds[0]}-{seeds[0]}-{catalog or 'delta'}",
    )
    for catalog, all_seeds in ((None, [FIRST, *FLEETS]), ("ice", FLEETS[:4]))
    for seeds in all_seeds
    for kinds in (SHORT if seeds is FIRST else TOGETHER)
]


@pytest.mark.parametrize(("kinds", "seeds", "catalog"), RUNS)
def test_sources_that_are_migrated(spark, tmp_path, monkeypatch, kinds, seeds, catalog):
    """No target has other rows than its tables unless a state says so.

    With TiCDC's statements in each partition, none has. Otherwise newer rows may have overwritten what a statement
    moves, and canal-json has times only. No file has a secret, whatever is renamed, and whatever is read first.
    """
    topic = Topic(spark, tmp_path, catalog)
    if kinds == [SHARDS]:
        topic.target = lambda database, table: topic.name(f"{database}/{shared(table)}")
    runs = [(kind, seed) for kind in kinds for seed in seeds]
    migrations = [Migration(topic, number, *one) for number, one in enumerate(runs)]
    rules, histories = {}, []
    for one in migrations:
        if one.has_secrets:
            rules, histories = one.with_own(RULES, rules), one.with_own(["shop.t", "shop.u"], histories)
    options = {"columns": rules or None, "history": histories or False}
    dialect = "canal-protobuf" if "canal-protobuf" in kinds else "canal-json"
    replicated(topic, migrations, monkeypatch, dialect=dialect, **options)
    if rules:  # rows that waited for the statement that explains a column
        topic.reprocess(columns=rules)
    found = {run: one.problems() for run, one in zip(runs, migrations, strict=True)}
    assert {run: problems for run, problems in found.items() if problems} == {}
