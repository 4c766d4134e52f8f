"""Tables that a query knows are decoded with their envelopes, and read again where that does not suffice."""

import random
from itertools import count, pairwise

import pytest

from lake_topic import TYPES, Topic, canal, row
from towpath.lakehouse.merging.merge import Applier
from towpath.lakehouse.reading import blocks
from towpath.lakehouse.reading.batch_messages import MessagesInDriver
from towpath.lakehouse.reading.blocks import BatchEvents, LearnedTables


@pytest.fixture
def topic(spark, tmp_path, known_tables, request):
    """A topic whose tables are merged in tasks, or by Spark if a test says so."""
    found = Topic(spark, tmp_path)
    found.options["merge"] = getattr(request, "param", "auto")
    return found


BOTH_WAYS = pytest.mark.parametrize("topic", ["auto", pytest.param("spark", marks=pytest.mark.soak)], indirect=True)


@pytest.fixture
def batches_read(monkeypatch):
    """For each reading of a batch, the tables that were known."""
    read, persisted = [], BatchEvents._persisted

    def counting(self, known):
        read.append({name for _, name in known.learned})
        return persisted(self, known)

    monkeypatch.setattr(BatchEvents, "_persisted", counting)
    return read


def inserts(first, *keys):
    return [canal(first + at, "INSERT", "a", row(key, f"n{key}")) for at, key in enumerate(keys)]


@BOTH_WAYS
def test_tables_are_known_after_their_first_batch(topic, batches_read, monkeypatch):
    """Declarations with the same columns are known together, and statements about other tables divide nothing.

    The first batch is read once, too: its tables are new.
    """
    made, in_blocks = LearnedTables.made_blocks, []

    def said(self, table, reader):
        in_blocks.append((table.name, found := made(self, table, reader)))
        return found

    monkeypatch.setattr(LearnedTables, "made_blocks", said)
    longer = {**TYPES, "name": "varchar(30)"}
    others = [canal(20 + at, "INSERT", "b", row(at, f"n{at}"), longer) for at in range(3)]
    created = canal(9, "CREATE", "other", sql="CREATE TABLE other (id int PRIMARY KEY)")
    topic.replicate_in_turn(
        [
            [*inserts(0, 1, 2), canal(19, "INSERT", "b", row(0, "n0"))],
            [*inserts(2, 3), others[1], created, canal(10, "QUERY", "a", sql="FLUSH TABLES")],
            [*inserts(11, 4, 5), others[2]],
        ]
    )
    assert batches_read == [set(), {"a", "b"}, {"a", "b"}]
    assert sorted(in_blocks[:2]) == [("a", True), ("b", True)]
    assert topic.names("a") == {key: f"n{key}" for key in (1, 2, 3, 4, 5)}
    assert topic.names("b") == {key: f"n{key}" for key in (0, 1, 2)}
    assert topic.states()["a"]["state"] == "ok"


WIDER = {**TYPES, "note": "varchar(5)"}


@BOTH_WAYS
def test_a_batch_is_read_again(topic, batches_read):
    """The notes of each row are those of MySQL; a column that a later row has first has none in earlier ones."""
    at = count()

    def insert(table, key, second=0, **note):
        return canal(next(at), "INSERT", table, row(key, f"n{key}") | note, WIDER if note else TYPES, second=second)

    notes = {
        "stated": {1: "x", 2: "x", 3: "y", 4: "x", 9: None},
        "declared": {1: None, 2: None, 3: "y", 4: None, 9: None},
        "emptied": {3: None, 9: None},
    }
    first = [insert(table, key) for table in notes for key in (1, 2)]
    again = [insert(table, 4) for table in notes]
    again.append(canal(next(at), "ALTER", "stated", sql="ALTER TABLE stated ADD COLUMN note varchar(5) DEFAULT 'x'"))
    again.append(canal(next(at), "TRUNCATE", "emptied", sql="TRUNCATE TABLE emptied", second=1))
    again += [insert("stated", 3, note="y"), insert("declared", 3, note="y"), insert("emptied", 3, second=2)]
    topic.replicate_in_turn([first, again, [insert(table, 9, second=9) for table in notes]])
    assert batches_read[:3] == [set(), notes.keys(), set()]
    for table, of_rows in notes.items():
        found = topic.rows(table)
        assert {one["id"]: one.get("note") for one in found} == of_rows
        assert {one["name"] for one in found} == {f"n{key}" for key in of_rows}
    assert topic.state_of() == dict.fromkeys(notes, "ok")


def test_the_driver_holds_no_messages_of_tables_that_tasks_merge(topic, batches_read, monkeypatch):
    """It holds those of small tables that Spark merges, and a task may merge a large one.

    What a task refuses is not read again: Spark merges the changes of the same blocks.
    """
    held, read = [], MessagesInDriver.__init__

    def reading(self, events):
        read(self, events)
        held.append(set(self._messages.column("table").to_pylist()))

    monkeypatch.setattr(MessagesInDriver, "__init__", reading)
    refused = [canal(at, "UPDATE", "b", {"id": "1"}, old={"id": "1"}) for at in (3, 4)]
    first = [canal(2, "INSERT", "b", row(1, "x")), *inserts(0, 1, 2)]
    topic.replicate_in_turn([first, [refused[0], *inserts(5, 3)], [refused[1], *inserts(7, 4)]])
    assert held == [{"b"}, {"b"}]
    assert batches_read == [set(), {"a", "b"}, {"a", "b"}]
    assert (topic.names("a"), topic.names("b")) == ({key: f"n{key}" for key in (1, 2, 3, 4)}, {1: "x"})


@pytest.mark.parametrize("topic", ["spark"], indirect=True)
def test_quarantine_gets_the_messages_of_blocks(topic, monkeypatch):
    applied, failed = Applier.apply, inserts(2, 3, 4)

    def apply(self, changes, batch_id):
        if self.last_batch:
            raise RuntimeError("no space left")
        self.last_batch = True
        return applied(self, changes, batch_id)

    monkeypatch.setattr(Applier, "last_batch", False, raising=False)
    monkeypatch.setattr(Applier, "apply", apply)
    topic.replicate_in_turn([inserts(0, 1, 2), failed], quarantine=topic.name("quarantine"))
    assert topic.names("a") == {1: "n1", 2: "n2"}
    assert topic.states()["a"]["reason"] == "no space left"
    found = [bytes(one["value"]) for one in topic.read("quarantine")]
    assert sorted(found) == sorted(one["value"] for one in failed)


def test_an_error_of_a_decoder_stops_only_its_table(topic, monkeypatch):
    """Workers are forked before this test, so the error is in what the driver sends."""

    def fails(*_):
        raise RuntimeError("no registry")

    known = []
    remember = blocks.KnownTable

    def failing(decoder, declared):
        known.append(decoder)
        decoder.decode_batches = fails
        return remember(decoder, declared)

    monkeypatch.setattr(blocks, "KnownTable", failing)
    topic.replicate_in_turn([inserts(0, 1), inserts(1, 2)], quarantine=topic.name("quarantine"))
    assert known
    assert topic.names("a") == {1: "n1", 2: "n2"}


def test_columns_that_somebody_adds_to_a_target(topic):
    topic.replicate(*inserts(0, 1, 2))
    topic.spark.sql(f"ALTER TABLE {topic.sql_name('shop/a')} ADD COLUMN own int")
    topic.replicate_in_turn([inserts(2, 3), inserts(3, 4)])
    assert topic.names("a") == {1: "n1", 2: "n2", 3: "n3", 4: "n4"}


@BOTH_WAYS
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_random_messages(topic, seed):
    """Tables that get a column and whose declarations take turns, in batches that one query reads."""
    rng, tables, messages = random.Random(seed), {}, []
    for at in range(200):
        name = rng.choice(["a", "b"])
        rows = tables.setdefault(name, {})
        key = rng.randrange(12)
        types = {**(TYPES if at < 100 else WIDER), "name": rng.choice(["varchar(20)", "varchar(30)"])}
        values = {column: f"{at}"[-5:] for column in types if column != "id"}
        kind = rng.choice(["UPDATE", "UPDATE", "DELETE"]) if key in rows else "INSERT"
        image = {"id": str(key), **values}
        messages.append(canal(at, kind, name, image, types, second=at // 7))
        if kind == "DELETE":
            del rows[key]
        else:
            rows[key] = {**rows.get(key, {"note": None}), "id": key, **values}
    cuts = [0, *sorted(rng.sample(range(200), 3)), 200]
    topic.replicate_in_turn([messages[begin:end] for begin, end in pairwise(cuts)])
    for name, rows in tables.items():
        found = {one["id"]: one for one in topic.rows(name)}
        assert found == rows
