"""The bulk captures: replayed from nothing they give the final table; or line for line, they equal what was encoded.

They are too large for the repository, so they run where `../shared/captures` lies beside the checkout.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import server_truth
import towpath
import truth
from fidelity import SHARED, bulk, chunks, lines, messages, objects
from server_truth import Column

pytestmark = bulk

TABLES = {"customer": ["c_w_id", "c_d_id", "c_id"], "orders": ["o_id"]}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("server", ["mysql", "maria"])
def test_changes_replayed_from_nothing_give_the_final_table(server, table, score):
    folder = SHARED / "server" / server
    columns = declared_columns(folder / "truth", table)
    decoder = towpath.Decoder(
        "canal-json",
        server_truth.schema(columns),
        database="bulk_a",
        table=table,
        fields=["op", "before", "after", "missing_columns", "error"],
        mode="FAILFAST",
    )
    state: dict[Any, tuple] = {}
    names = [column.name for column in columns]
    key_of = key_reader(names, TABLES[table])
    for part in chunks(lines(folder / "canal" / "bulk.flat.jsonl.zst"), 2000):
        batch = decoder.decode(messages(part))
        assert batch.column("missing_columns").null_count == len(batch)
        for op, before, after in changes(batch):
            replay(score, state, op, before, after, key_of, names)
    compare_final(score, state, final_rows(folder / "truth", table, columns), names)
    score.demand_all()


def declared_columns(folder, table):
    entries = [
        entry for entry in objects(folder / "columns.jsonl") if (entry["db"], entry["table"]) == ("bulk_a", table)
    ]
    # MariaDB says `longtext` of what its DDL, and so canal, calls `json`.
    return [
        Column(
            entry["column"],
            "json" if entry["column"] == "o_json" else entry["type"],
            entry["charset"] or "",
            entry["key"] == "PRI",
        )
        for entry in entries
    ]


def changes(batch):
    """Row changes as tuples of values in the columns' order."""
    ops = batch.column("op").to_pylist()
    yield from (
        change
        for change in zip(ops, tuples(batch.column("before")), tuples(batch.column("after")), strict=True)
        if change[0] in ("insert", "update", "delete")
    )


def tuples(images: pa.StructArray) -> list[tuple | None]:
    rows = zip(*(column.to_pylist() for column in images.flatten()), strict=True)
    present = images.is_valid().to_pylist()
    return [row if there else None for there, row in zip(present, rows, strict=True)]


def key_reader(names: list[str], key: list[str]) -> Callable[[tuple], tuple]:
    places = [names.index(name) for name in key]
    return lambda row: tuple(row[place] for place in places)


def replay(score, state, op, before, after, key_of, names):
    """Applies one change, after checking that the row before it was what the message says."""
    assert (before is None, after is None) == (op == "insert", op == "delete")
    if before is not None:
        held = state.pop(key_of(before), None)
        compare_rows(score, f"{op} before {key_of(before)}", names, held, before)
    if after is not None:
        assert key_of(after) not in state
        state[key_of(after)] = after


def compare_rows(score, place, names, want, got):
    if want == got:  # nearly always, and much faster
        score.right += len(names)
        score.total += len(names)
        return
    score.image(place, want and dict(zip(names, want, strict=True)), got and dict(zip(names, got, strict=True)))


def compare_final(score, state, final, names):
    for key, want in final.items():
        got = state.pop(key, None)
        score.image(f"final {key}", dict(zip(names, want, strict=True)), got and dict(zip(names, got, strict=True)))
    assert not state, "rows that the final table does not have"


def final_rows(folder, table, columns):
    key_of = key_reader([column.name for column in columns], TABLES[table])
    rows = {}
    for entry in objects(folder / f"final_bulk_a.{table}.jsonl.zst"):
        exact = entry.get("__float_exact") or {}
        row = tuple(final_value(folder, column, entry[column.name], exact.get(column.name)) for column in columns)
        rows[key_of(row)] = row
    return rows


def final_value(folder, column, text, exact):
    """MariaDB's JSON comes as Latin-1; see `server_truth.destroyed`."""
    if text is not None and column.declared == "json" and "maria" in str(folder) and not text.isascii():
        text = text.encode().decode("latin-1")
    return truth.value(column.declared, text, exact)


# One line of truth for one message, in the same order.
ENCODED = {
    "ticdc": ("encoder/ticdc/bulk_orders_ext.jsonl.zst", "encoder/ticdc/bulk_orders_truth.jsonl.zst"),
    "cloudcanal": (
        "document/cloudcanal_canal_json/bulk_orders.jsonl.zst",
        "document/json_bulk_truth/bulk_orders_truth.jsonl.zst",
    ),
    "tencent": (
        "document/tencent_dip_canal/bulk_orders.jsonl.zst",
        "document/json_bulk_truth/bulk_orders_truth.jsonl.zst",
    ),
}


@pytest.mark.parametrize("producer", ENCODED)
def test_every_line_equals_the_event_that_was_encoded(producer, score):
    capture, truth_file = (SHARED / name for name in ENCODED[producer])
    head, *events = objects(truth_file)
    columns = described(head)
    labels = {name: members(declared) for name, declared in columns if declared.startswith("enum")}
    decoder = towpath.Decoder(
        "canal-json",
        pa.schema([(name, truth.asked(declared)) for name, declared in columns]),
        labels=labels,
        mode="FAILFAST",
    )
    values = lines(capture)
    assert len(values) == len(events)
    for at, part in enumerate(chunks(events, 20_000)):
        batch = decoder.decode(messages(values[at * 20_000 : at * 20_000 + len(part)]))
        place = f"lines from {at * 20_000}"
        compare_envelopes(score, place, head, part, batch)
        for image, index in (("before", 3), ("after", 2)):
            compare_images(score, f"{place} {image}", columns, [event[index] for event in part], batch.column(image))
    score.demand_all()


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
    """Column by column: Arrow's own casts make the wanted values from the truth's text."""
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
