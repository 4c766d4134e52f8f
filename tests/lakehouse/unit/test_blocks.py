"""Changes that are decoded with their envelopes are those that are decoded from their messages."""

import random
import zlib
from collections import Counter, defaultdict
from datetime import datetime, timezone

import pyarrow as pa
import pytest

import all_golden
from towpath.decoder import Decoder
from towpath.lakehouse.reading.arrow_batches import INDEX
from towpath.lakehouse.reading.blocks import BlockReader, KnownTable, KnownTables, NewTables, read_blocks
from towpath.lakehouse.reading.changes import READ, ChangeDecoder
from towpath.lakehouse.reading.declarations import Declaration, declared_columns
from towpath.lakehouse.reading.envelopes import _FIELDS, EnvelopeDecoder
from towpath.lakehouse.reading.events import BLOCK, CHANGE, EXAMPLE
from towpath.lakehouse.reading.schemas import filter_options
from towpath.lakehouse.replicate_options import columns_of
from towpath.places import MESSAGE

pytestmark = pytest.mark.slow

DIALECTS = [
    "canal-json",
    "canal-protobuf",
    "cloudcanal-json",
    "debezium-json",
    "dts-avro",
    "ticdc-open",
    "ticdc-simple",
]
MOST = 600
"""Messages of a capture."""
OF = ["kind", "database", "table"]


def messages_of(capture):
    found = capture.batch().slice(0, MOST)
    count = len(found)
    columns = {
        "value": found.column("value").cast(pa.binary()),
        "key": found.column("key").cast(pa.binary()),
        "topic": pa.repeat("t", count),
        "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.repeat(pa.scalar(datetime.now(timezone.utc), pa.timestamp("us", "UTC")), count),
    }
    return pa.record_batch(columns, pa.schema(list(MESSAGE.items())))


def envelopes(dialect, known):
    return EnvelopeDecoder(Decoder(dialect, fields=_FIELDS, keep={INDEX: pa.int64()}, key="key"), known)


def decoded(read, events):
    return [row for part in read(events) for row in part.to_pylist()] if len(events) else []


def sums(events):
    found = Counter()
    for one in events:
        if one["kind"] in (CHANGE, BLOCK):
            for name in ("messages", "rows", "size"):
                found[one["database"], one["table"], name] += one[name]
    return found


def known_tables(dialect, events, rng):
    """Some of the tables, each with some of what is declared of it."""
    declared = {}
    for one in events.to_pylist():
        if one["declaration"] is not None:
            declared.setdefault((one["database"], one["table"]), {})[one["declared"]] = Declaration.of(
                {**one, "example": {"key": one["key"], "value": one["value"]}}
            )
    known = {}
    for name, declarations in declared.items():
        columns = declared_columns(declarations.values(), dialect, {}) or columns_of("id string")
        if rng.random() < 0.8:
            some = frozenset(one for one in declarations if rng.random() < 0.8)
            known[name] = KnownTable(ChangeDecoder(dialect, columns, filter_options(*name), name), some)
    return known


@pytest.mark.parametrize(
    ("dialect", "capture"),
    [
        pytest.param(dialect, capture, id=capture.name)
        for dialect in DIALECTS
        for capture in all_golden.captures(dialect)
    ],
)
def test_blocks_have_the_changes_of_their_messages(dialect, capture):
    rng, messages = random.Random(zlib.crc32(capture.name.encode())), messages_of(capture)
    if not len(messages):
        pytest.skip("no messages")
    plain = (
        pa.Table.from_batches(envelopes(dialect, KnownTables()).decode_batches(messages))
        .combine_chunks()
        .to_batches()[0]
    )
    known = known_tables(dialect, plain, rng)
    with_blocks, start, plain_rows = [], 0, by_table(plain)
    while start < len(messages):  # record batches of random lengths
        length = rng.choice([1, 7, 100, MOST])
        with_blocks += envelopes(dialect, KnownTables(known)).decode_batches(messages.slice(start, length))
        start += length
    assert sums(plain.to_pylist()) == sums(row for part in with_blocks for row in part.to_pylist())
    parts = [by_table(part) for part in with_blocks]
    for name, table in known.items():
        wanted = decoded(table.decoder.decode_batches, plain_rows(CHANGE, *name))
        found = []
        for part in parts:
            found += decoded(read_blocks, part(BLOCK, *name))
            left = part(CHANGE, *name)
            assert not table.declared & set(left.column("declared").to_pylist())
            found += decoded(table.decoder.decode_batches, left)
        assert sorted(found, key=place) == sorted(wanted, key=place)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_new_tables_have_the_changes_of_their_messages(dialect):
    """A task makes a decoder when it has read some messages of a table, for their declaration only."""
    found = 0
    for capture in all_golden.captures(dialect)[:6]:
        rng, messages = random.Random(zlib.crc32(capture.name.encode())), messages_of(capture)
        if not len(messages):
            continue
        plain = pa.Table.from_batches(envelopes(dialect, KnownTables()).decode_batches(messages)).combine_chunks()
        events, known = [], KnownTables(new=NewTables(dialect, {}, lambda *_: False, rng.randint(1, 3)))
        decoder, start = envelopes(dialect, known), 0
        while start < len(messages):
            length = rng.choice([20, 100, MOST])
            events += decoder.decode_batches(messages.slice(start, length))
            start += length
        assert sums(plain.to_pylist()) == sums(row for part in events for row in part.to_pylist())
        examples = {one["declared"] for part in events for one in part.to_pylist() if one["kind"] == EXAMPLE}
        [plain_rows], parts = map(by_table, plain.to_batches()), [by_table(one) for one in events]
        for name, table in known.learned.items():
            assert table.declared <= examples
            read = BlockReader(table.decoder).decode_batches
            both = [pa.concat_batches([one(kind, *name) for kind in (BLOCK, CHANGE)]) for one in parts]
            wanted = decoded(table.decoder.decode_batches, plain_rows(CHANGE, *name))
            assert sorted((row for one in both for row in decoded(read, one)), key=place) == sorted(wanted, key=place)
            found += 1
    assert found > 0 or dialect == "ticdc-simple"  # its row messages declare nothing


def by_table(events):
    """A function that gives the events of a kind and a table."""
    places = defaultdict(list)
    for at, of in enumerate(zip(*(events.column(name).to_pylist() for name in OF), strict=True)):
        places[of].append(at)
    read = events.select([*READ, "declared"])
    return lambda *of: read.take(places[of]) if of in places else read.slice(0, 0)


def place(row):
    return row["offset"], row["row"], row["step"]
