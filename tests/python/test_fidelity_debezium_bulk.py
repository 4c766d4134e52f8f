"""Debezium's bulk captures, replayed from their start, produce the final tables; without schema parts, with options.

They are too large for the repository, so they run where `../shared/captures` lies beside the checkout.
"""

import pyarrow as pa
import pytest

import debezium_truth
import kafka_records
import replay
import server_truth
import towpath
from bulk_captures import SHARED, bulk
from fidelity import chunks
from replay import TABLES, Replay

pytestmark = [bulk, pytest.mark.soak]

FIELDS = ["op", "primary_key", "before", "after", "missing_columns", "error"]


@pytest.fixture(
    scope="module", params=[(s, f) for s in ("mysql", "maria") for f in debezium_truth.SETTINGS], ids="-".join
)
def capture(request):
    """A capture's folder of truth, its connector's settings, and its records."""
    server, flavour = request.param
    folder = SHARED / "server" / server
    records = kafka_records.load(folder / f"debezium_{flavour}" / "bulk.kv.jsonl.zst")
    return (
        folder / "truth",
        debezium_truth.SETTINGS[flavour],
        [kafka_records.batch(part) for part in chunks(records, 5000)],
    )


def decoder_of(table, columns, **options):
    schema = server_truth.schema(columns)
    return towpath.Decoder("debezium-json", schema, database="bulk_a", table=table, key="key", fields=FIELDS, **options)


def named(columns):
    return {"column_types": {column.name: column.declared for column in columns}}


@pytest.mark.parametrize("table", TABLES)
def test_changes_replayed_from_nothing_give_the_final_table(capture, table, score):
    folder, settings, batches = capture
    columns = replay.declared_columns(folder, table)
    decoder = decoder_of(table, columns, mode="FAILFAST", **settings, **named(columns))
    state = Replay(score, [column.name for column in columns], TABLES[table])
    for batch in batches:
        decoded = decoder.decode(batch)
        assert decoded.column("missing_columns").null_count == len(decoded)
        check_keys(score, decoded, table)
        for change in replay.changes(decoded):
            state.apply(*change)
    state.compare_final(replay.final_rows(folder, table, columns))
    score.check_all()


def check_keys(score, batch, table):
    """Row changes have the table's key; other messages have none."""
    is_change = [op in ("insert", "update", "delete") for op in batch.column("op").to_pylist()]
    want = pa.array([TABLES[table] if change else None for change in is_change], pa.list_(pa.string()))
    score.many("batch", "primary_key", want, batch.column("primary_key"))


@pytest.mark.parametrize("table", TABLES)
def test_what_nobody_tells_is_right_or_an_error(capture, table, score):
    """Only the schema is known: a cell equals the one decoded with all options, or is null in a row with an error."""
    folder, settings, batches = capture
    columns = replay.declared_columns(folder, table)
    informed, plain = decoder_of(table, columns, **settings, **named(columns)), decoder_of(table, columns)
    refused = 0
    for batch in batches:
        right, without_options = informed.decode(batch), plain.decode(batch)
        has_error = without_options.column("error").is_valid().to_pylist()
        for image in ("before", "after"):
            pairs = zip(
                replay.tuples(right.column(image)), replay.tuples(without_options.column(image)), has_error, strict=True
            )
            refused += sum(compare(score, columns, *pair) for pair in pairs)
    score.check_all()
    assert refused > 0


def compare(score, columns, want, got, has_error):
    """Counts the cells of an image, and returns how many were rejected."""
    if want is None and got is None:
        return 0
    differ = [(column.name, *pair) for column, *pair in zip(columns, want, got, strict=True) if pair[0] != pair[1]]
    score.right += len(columns) - len(differ)
    score.total += len(columns) - len(differ)
    for name, wanted, delivered in differ:
        score.count(delivered is None and has_error, "image", name, wanted, delivered)
    return len(differ)
