"""The bulk captures: replayed from their start they produce the final table, or they equal the encoded events.

They are too large for the repository, so they run where `../shared/captures` lies beside the checkout.
"""

from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import replay
import server_truth
import towpath
import truth
from bulk_captures import SHARED, bulk
from fidelity import chunks, lines, messages, objects, records
from replay import TABLES, Replay

pytestmark = [bulk, pytest.mark.soak]


# How each dialect's capture is split into messages, and how many are decoded at once.
CANAL = {"canal-json": ("bulk.flat.jsonl.zst", lines, 2000), "canal-protobuf": ("bulk.pb.bin.zst", records, 100)}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("server", ["mysql", "maria"])
@pytest.mark.parametrize("dialect", CANAL)
def test_changes_replayed_from_nothing_give_the_final_table(dialect, server, table, score):
    file, framing, at_once = CANAL[dialect]
    folder = SHARED / "server" / server
    columns = replay.declared_columns(folder / "truth", table)
    decoder = towpath.Decoder(
        dialect,
        server_truth.schema(columns),
        database="bulk_a",
        table=table,
        fields=["op", "before", "after", "missing_columns", "error"],
        mode="FAILFAST",
    )
    state = Replay(score, [column.name for column in columns], TABLES[table])
    for part in chunks(framing(folder / "canal" / file), at_once):
        batch = decoder.decode(messages(part))
        assert batch.column("missing_columns").null_count == len(batch)
        for change in replay.changes(batch):
            state.apply(*change)
    cell = truth.value if server == "mysql" else maria_value
    state.compare_final(replay.final_rows(folder / "truth", table, columns, cell))
    score.check_all()


def maria_value(declared, text, exact):
    """MariaDB's JSON comes as Latin-1; see `server_truth.destroyed`."""
    if text is not None and declared == "json" and not text.isascii():
        text = text.encode().decode("latin-1")
    return truth.value(declared, text, exact)


@dataclass(frozen=True)
class Encoded:
    """A capture that has one line of truth for one message, in the same order."""

    dialect: str
    messages: str
    truth: str = "document/json_bulk_truth/bulk_orders_truth.jsonl.zst"


ENCODED = {
    "ticdc": Encoded(
        "canal-json", "encoder/ticdc/bulk_orders_ext.jsonl.zst", "encoder/ticdc/bulk_orders_truth.jsonl.zst"
    ),
    "cloudcanal": Encoded("canal-json", "document/cloudcanal_canal_json/bulk_orders.jsonl.zst"),
    "tencent": Encoded("canal-json", "document/tencent_dip_canal/bulk_orders.jsonl.zst"),
    "cloudcanal own": Encoded("cloudcanal-json", "document/cloudcanal_json/bulk_orders.jsonl.zst"),
    "cloudcanal debezium": Encoded("debezium-json", "document/cloudcanal_debezium/bulk_orders.jsonl.zst"),
    "river": Encoded("river-json", "document/kafkarivercanal/bulk_orders.jsonl.zst"),
}


events_of = cache(objects)  # several producers encoded the same events


@pytest.mark.parametrize("producer", ENCODED)
def test_every_line_equals_the_event_that_was_encoded(producer, score):
    encoded = ENCODED[producer]
    head, *events = events_of(SHARED / encoded.truth)
    columns = described(head)
    labels = {name: members(declared) for name, declared in columns if declared.startswith("enum")}
    decoder = towpath.Decoder(
        encoded.dialect,
        pa.schema([(name, truth.asked(declared)) for name, declared in columns]),
        labels=labels,
        mode="FAILFAST",
    )
    values = lines(SHARED / encoded.messages)
    assert len(values) == len(events)
    for at, part in enumerate(chunks(events, 20_000)):
        batch = decoder.decode(messages(values[at * 20_000 : at * 20_000 + len(part)]))
        place = f"lines from {at * 20_000}"
        compare_envelopes(score, place, head, part, batch)
        if encoded.dialect == "river-json":
            part = [as_river_tells(score, columns, event) for event in part]
        for image, index in (("before", 3), ("after", 2)):
            compare_images(score, f"{place} {image}", columns, [event[index] for event in part], batch.column(image))
    score.check_all()


def as_river_tells(score, columns, event):
    """Text that was NULL before an update is written as empty text, which cannot be distinguished."""
    kind, when, row, old = event
    if kind != "UPDATE":
        return event
    written = list(old)
    for at, (_, declared) in enumerate(columns):
        if old[at] is None and row[at] is not None and declared.startswith(("varchar", "enum")):
            score.producer_destroyed("NULL before an update, written as empty text by KafkaRiverCanal")
            written[at] = ""
    return [kind, when, row, written]


def described(head):
    """Names and declared types of the one table."""
    if is_ticdc(head):
        return [(column["name"], column["type"]) for column in head["cols"]]
    return list(zip(head["cols"], head["types"], strict=True))


def is_ticdc(head):
    return head.get("msg") == "SCHEMA"


def members(declared):
    return declared[declared.index("'") + 1 : declared.rindex("'")].split("','")


def compare_envelopes(score, place, head, events, batch):
    same_for_all = {"database": head["db"], "table": head["table"]}
    for field, want in same_for_all.items():
        score.many(place, field, pa.array([want] * len(events)), batch.column(field))
    score.many(place, "op", pa.array([event[0].lower() for event in events]), batch.column("op"))
    for field in ("error", "missing_columns", "sql"):
        score.count(batch.column(field).null_count == len(events), place, field, None, "some that are not null")
    if is_ticdc(head):
        commit_ts = pa.array([int(event[1]) for event in events], pa.int64())
        score.many(place, "commit_ts", commit_ts, batch.column("source").field("commit_ts"))


def compare_images(score, place, columns, rows, images):
    """Column by column: Arrow's casts convert the truth's text to the expected values."""
    present = pa.array([row is not None for row in rows])
    score.many(place, "*", present, images.is_valid())
    for at, (name, declared) in enumerate(columns):
        texts = pa.array([row and row[at] for row in rows], pa.string())
        got = pc.struct_field(images, name)
        if declared == "json":
            compare_json(score, place, name, texts, got)
        else:
            score.many(place, name, typed(texts, declared), got)


def typed(texts, declared):
    if declared.startswith("timestamp"):
        return texts.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    if declared.startswith("enum"):
        return labelled(texts, members(declared))
    return texts.cast(truth.asked(declared))


def labelled(texts, labels):
    """TiCDC's truth has numbers, the others' has labels."""
    numbers = {str(number): label for number, label in enumerate(["", *labels])}
    return pa.array([numbers.get(text, text) for text in texts.to_pylist()], pa.string())


def compare_json(score, place, name, want, got):
    differs = pc.fill_null(pc.not_equal(want, got), True)
    both_null = pc.and_(want.is_null(), got.is_null())
    for row in pc.indices_nonzero(pc.and_not(differs, both_null)).to_pylist():
        text = want[row].as_py()
        score.cell(f"{place} row {row}", name, text and truth.Json(text), got[row].as_py())
    alike = len(want) - pc.sum(pc.and_not(differs, both_null)).as_py()
    score.right += alike
    score.total += alike
