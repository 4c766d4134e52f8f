"""`towpath.Decoder` from Python: input, output, pickling and threads."""

import pickle
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import towpath
from canal_messages import MIXED, SCHEMA, change, order
from golden_files import CAPTURES, messages

ONE = change(data=[order(1, "12.50")])
ONE_ROW = {"id": 1, "total": Decimal("12.50"), "placed_at": datetime(2024, 5, 6, 7, 8, 9)}


def test_the_contracts_first_example():
    decoder = towpath.Decoder("canal-json", schema=SCHEMA, database="shop", table="orders.*")
    [row] = decoder.decode(pa.array([ONE])).to_pylist()
    assert row["op"] == "insert"
    assert row["before"] is None
    assert row["after"] == ONE_ROW
    assert row["error"] is None


@pytest.mark.parametrize(
    "arrow",
    [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.string_view(), pa.binary_view()],
    ids=str,
)
def test_every_form_of_message_array(arrow):
    array = pa.array([ONE.decode(), None] if "string" in str(arrow) else [ONE, None], arrow)
    insert, tombstone = towpath.Decoder("canal-json", SCHEMA).decode(array).to_pylist()
    assert insert["after"] == ONE_ROW
    assert tombstone["op"] == "tombstone"


@pytest.mark.parametrize("more", [0, 1])
def test_declared_types_when_more_are_declared_than_are_remembered(more):
    """What was remembered is forgotten between two messages, and other types get the numbers of earlier ones."""
    kinds = [0] * more + [kind for other in range(1, 6000) for kind in (0, other)]
    messages = [change(data=[{"a": "1"}], mysqlType={"a": f"varchar({kind})"}) for kind in kinds]
    found = towpath.Decoder("canal-json", fields=["column_types"]).decode(messages).column("column_types")
    assert found.to_pylist() == [[("a", f"varchar({kind})")] for kind in kinds]


@pytest.mark.parametrize("type", [pa.int32(), pa.uint64(), pa.string(), pa.decimal128(20, 0)])
def test_an_offset_of_another_type_is_an_error_where_it_orders(type):
    batch = pa.record_batch([pa.array([7]).cast(type), pa.array([ONE])], names=["offset", "value"])
    decoder = towpath.Decoder("canal-json", SCHEMA, layout="upsert")
    with pytest.raises(ValueError, match=r"offset: _sequence requires Kafka offsets as int64, not "):
        decoder.decode(batch)
    for other in (
        towpath.Decoder("canal-json", SCHEMA, fields=["after"]),
        towpath.Decoder("canal-json", SCHEMA, layout="changelog"),
    ):
        assert other.decode(batch).num_rows == 1


@pytest.mark.parametrize("values", [[], [ONE]])
def test_offsets_without_a_value_have_no_type(values):
    batch = pa.record_batch([pa.nulls(len(values)), pa.array(values, pa.string())], names=["offset", "value"])
    assert towpath.Decoder("canal-json", SCHEMA, layout="upsert").decode(batch).num_rows == len(values)


def test_a_slice_is_read_from_its_offset():
    decoder = towpath.Decoder("canal-json", SCHEMA, fields=["after"])
    array = pa.array([b"broken", ONE, b"broken"])
    assert decoder.decode(array[1:2]).to_pylist() == [{"after": ONE_ROW}]


@pytest.mark.parametrize("name", ["value", "payload"])
@pytest.mark.parametrize("container", [pa.RecordBatch.from_arrays, pa.StructArray.from_arrays])
def test_record_batches_and_struct_arrays_by_column_name(container, name):
    batch = container([pa.array([7]), pa.array([ONE])], names=["offset", name])
    decoder = towpath.Decoder("canal-json", SCHEMA, fields=["after"], keep=["offset"], value=name)
    assert decoder.decode(batch).to_pylist() == [{"after": ONE_ROW, "offset": 7}]


def test_a_batch_without_the_value_column_is_refused():
    batch = pa.record_batch({"payload": [ONE]})
    with pytest.raises(ValueError, match=r"value.*payload"):
        towpath.Decoder("canal-json").decode(batch)


@pytest.mark.parametrize("values", [pa.array([1, 2]), [1, 2], None, 5], ids=["ints", "list", "none", "int"])
def test_input_that_is_no_array_of_messages_is_refused(values):
    with pytest.raises((TypeError, ValueError)):
        towpath.Decoder("canal-json").decode(values)


@pytest.mark.parametrize(
    ("layout", "schema"), [("change", None), ("change", SCHEMA), ("changelog", SCHEMA), ("upsert", SCHEMA)]
)
def test_schema_is_that_of_the_output(layout, schema):
    decoder = towpath.Decoder("canal-json", schema, layout=layout, keep=("topic", "partition", "offset", "timestamp"))
    batch = pa.record_batch(
        [
            pa.array([ONE]),
            pa.array(["t"]),
            pa.array([0], pa.int32()),
            pa.array([5]),
            pa.array([0], pa.timestamp("us", "UTC")),
        ],
        names=["value", "topic", "partition", "offset", "timestamp"],
    )
    assert decoder.decode(batch).schema.equals(decoder.schema)
    assert decoder.schema.names[-4:] == ["topic", "partition", "offset", "timestamp"]


@pytest.mark.parametrize("layout", ["changelog", "upsert"])
def test_flat_layouts_without_a_schema_are_refused(layout):
    with pytest.raises(ValueError, match="schema"):
        towpath.Decoder("canal-json", layout=layout)


def test_an_empty_batch_and_a_batch_of_errors():
    decoder = towpath.Decoder("canal-json", SCHEMA)
    empty = decoder.decode(pa.array([], pa.binary()))
    assert (len(empty), empty.schema) == (0, decoder.schema)
    assert decoder.decode(pa.array([b"{", b"nonsense"])).column("op").to_pylist() == ["error", "error"]


def test_fields_choose_and_order_the_columns():
    decoder = towpath.Decoder("canal-json", SCHEMA, fields=["after", "op"])
    assert decoder.schema.names == ["after", "op"]


def test_changelog_writes_an_update_as_two_rows():
    decoder = towpath.Decoder("canal-json", SCHEMA, layout="changelog", mode="DROPMALFORMED", table="orders")
    rows = decoder.decode(pa.array(MIXED)).to_pylist()
    assert [(row["_change_type"], row["id"], row["total"]) for row in rows] == [
        ("insert", 1, Decimal("12.50")),
        ("update_preimage", 1, Decimal("12.50")),
        ("update_postimage", 1, Decimal("13.00")),
    ]


def test_upsert_moves_a_key_by_delete_and_insert():
    decoder = towpath.Decoder("canal-json", SCHEMA, layout="upsert")
    move = change("UPDATE", data=[order(2, "1.00")], old=[{"id": "1"}], pkNames=["id"], es=1700000000000)
    rows = decoder.decode(pa.array([move])).to_pylist()
    assert [(row["_op"], row["id"]) for row in rows] == [("delete", 1), ("insert", 2)]
    deleted, inserted = (tuple(row["_sequence"].values()) for row in rows)
    assert deleted < inserted


def test_permissive_keeps_malformed_rows_among_valid_ones():
    decoder = towpath.Decoder("canal-json", SCHEMA, table="orders")
    first, bad_value, unreadable, last = decoder.decode(pa.array(MIXED)).to_pylist()
    assert first["after"] == ONE_ROW
    assert last["before"] == ONE_ROW
    assert last["after"]["total"] == Decimal("13.00")
    assert bad_value["after"] == {**ONE_ROW, "id": 2, "total": None}
    assert bad_value["error"]["kind"] == "type"
    assert bad_value["error"]["column"] == "total"
    assert bad_value["error"]["message"] == 'canal-json: after.total: "12,50" is not a decimal(10,2)'
    assert bad_value["_corrupt_record"] == MIXED[1]
    assert unreadable["op"] == "error"
    assert unreadable["error"]["kind"] == "syntax"
    assert unreadable["_corrupt_record"] == MIXED[3]


def test_dropmalformed_drops_and_counts():
    decoder = towpath.Decoder("canal-json", SCHEMA, table="orders", mode="DROPMALFORMED")
    assert decoder.decode(pa.array(MIXED)).column("op").to_pylist() == ["insert", "update"]
    assert decoder.metrics == {
        "messages": 5,
        "rows": 2,
        "filtered": 1,
        "dropped": 2,
        "errors": {"type": 1, "syntax": 1},
        "missing_columns": {},
        "zero_dates": {},
        "absent_columns": {},
    }


def test_failfast_raises_with_the_place():
    decoder = towpath.Decoder("canal-json", SCHEMA, table="orders", mode="FAILFAST")
    with pytest.raises(towpath.DecodeError, match="12,50") as caught:
        decoder.decode(pa.array(MIXED))
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.kind, error.column, error.row, error.dialect) == ("type", "total", 1, "canal-json")
    assert error.message in str(error)
    assert MIXED[1][error.byte :].startswith((b'"12,50"', b"12,50"))


def test_filtered_tables_are_not_converted():
    decoder = towpath.Decoder("canal-json", SCHEMA, database="shop", table="customers|nothing", mode="FAILFAST")
    with pytest.raises(towpath.DecodeError, match="not a number"):
        decoder.decode(pa.array(MIXED[2:3]))
    orders = towpath.Decoder("canal-json", SCHEMA, table="orders", mode="FAILFAST")
    assert len(orders.decode(pa.array(MIXED[2:3]))) == 0


def test_names_match_whole():
    decoder = towpath.Decoder("canal-json", table="order")
    assert len(decoder.decode(pa.array([ONE]))) == 0


@pytest.mark.parametrize("column", ["value", "offset", "key", "topic"])
def test_kept_columns_repeat_for_every_row_of_a_message(column):
    two_rows = change(data=[order(1, "1.00"), order(2, "2.00")])
    batch = pa.record_batch(
        {"value": [two_rows, b"broken"], "offset": [10, 11], "key": [b"k", None], "topic": ["t", "u"]}
    )
    rows = towpath.Decoder("canal-json", fields=["op"], keep=[column]).decode(batch)
    first, second = batch.column(column).to_pylist()
    assert rows.column(column).to_pylist() == [first, first, second]


def test_the_type_of_an_unknown_kept_column_is_required():
    with pytest.raises(ValueError, match="headers"):
        _ = towpath.Decoder("canal-json", keep=["headers"]).schema
    decoder = towpath.Decoder("canal-json", keep={"headers": pa.list_(pa.string())})
    assert decoder.schema.field("headers").type == pa.list_(pa.string())


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("capture", CAPTURES)
def test_a_pickled_decoder_decodes_the_same(capture, protocol):
    decoder = towpath.Decoder(
        "canal-json", pa.schema({"s": pa.string()}), keep={}, labels={"s": ["a", "b"]}, lenient=True
    )
    copy = pickle.loads(pickle.dumps(decoder, protocol))
    assert type(copy) is towpath.Decoder
    assert repr(copy) == repr(decoder)
    assert copy.decode(messages(capture)).equals(decoder.decode(messages(capture)))


def test_subclasses_pickle_as_themselves():
    assert type(pickle.loads(pickle.dumps(Shouting("canal-json")))) is Shouting


class Shouting(towpath.Decoder):
    """A user's subclass."""


def test_repr_says_what_was_asked():
    decoder = towpath.Decoder("canal-json", "id int", table="orders", keep=("offset",))
    assert repr(decoder) == "towpath.Decoder(dialect='canal-json', schema='id int', table='orders', keep=('offset',))"
    assert repr(towpath.Decoder()) == "towpath.Decoder()"
    assert "id int64" in repr(towpath.Decoder(schema=pa.schema({"id": pa.int64()})))


def test_a_notebook_shows_arguments_columns_and_counts():
    decoder = towpath.Decoder("canal-json", "`a<b` int", layout="upsert", fields=["_op"], table="x&y")
    decoder.decode([b"{"])
    shown = decoder._repr_html_()
    assert "table=&#x27;x&amp;y&#x27;" in shown
    cells = dict(re.findall("<tr><td>(.*?)</td><td>(.*?)</td></tr>", shown))
    assert (cells["_op"], cells["a&lt;b"]) == ("string", "int32")
    assert (cells["messages"], cells["rows"], cells["filtered"]) == ("1", "1", "0")
    assert cells["errors"] == "{&#x27;syntax&#x27;: 1}"


def test_a_notebook_shows_a_decoder_whose_columns_are_not_known_yet():
    assert "the type of &quot;shard&quot; is unknown" in towpath.Decoder(keep=["shard"])._repr_html_()


def test_calls_keep_nothing_but_counts():
    decoder = towpath.Decoder("canal-json")
    array = messages("tencent/small.jsonl")
    first, second = decoder.decode(array), decoder.decode(array)
    assert first.equals(second)
    assert decoder.metrics["messages"] == 2 * len(array)
    assert decoder.metrics["rows"] == 2 * len(first)


def test_several_threads_share_a_decoder():
    decoder = towpath.Decoder("canal-json")
    wanted = [decoder.decode(messages(capture)) for capture in CAPTURES]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            got = pool.map(lambda capture: decoder.decode(messages(capture)), CAPTURES)
            assert all(one.equals(other) for one, other in zip(wanted, got, strict=True))
    assert decoder.metrics["messages"] == 4 * sum(len(messages(capture)) for capture in CAPTURES)


def test_the_gil_is_released():
    """With switching turned off, another thread can only run while this one is inside `decode` without the GIL."""
    many = pa.concat_arrays([messages(CAPTURES[3])] * 40)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        assert any(_ran_during(many) for _ in range(10))
    finally:
        sys.setswitchinterval(interval)


def _ran_during(many):
    decoder, started, done = towpath.Decoder("canal-json"), threading.Event(), []

    def decode():
        started.set()
        decoder.decode(many)
        done.append(True)

    thread = threading.Thread(target=decode)
    thread.start()
    started.wait()
    beside = not done
    thread.join()
    return beside


def test_called_with_batches_it_decodes_each():
    decoder = towpath.Decoder("canal-json", SCHEMA, fields=["op"])
    batches = [pa.record_batch({"value": [message]}) for message in (ONE, b"broken")]
    decoded = decoder(iter(batches))
    assert [batch.to_pylist() for batch in decoded] == [[{"op": "insert"}], [{"op": "error"}]]


def test_bytes_that_another_thread_writes_give_no_invalid_array():
    message = ONE.replace(b"12.50", "é客户".encode() * 50)
    count = 2000
    raw = np.frombuffer(bytearray(message * count), dtype=np.uint8).copy()
    offsets = np.arange(0, len(message) * (count + 1), len(message), dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw)]
    many = pa.Array.from_buffers(pa.large_binary(), count, buffers)
    hot, clean, stop = np.flatnonzero(raw >= 0x80), raw.copy(), threading.Event()

    def write():
        rng = np.random.default_rng(1)
        while not stop.is_set():
            raw[rng.choice(hot, 500)] = rng.integers(0, 256, 500, dtype=np.uint8)
            raw[hot] = clean[hot]

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(40):
            towpath.Decoder("canal-json", layout="change").decode(many).validate(full=True)
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"dialect": "canal"}, "canal-json"),
        ({"dialect": "Canal-JSON"}, "canal-json"),
        ({"dialect": "maxwel"}, "maxwell-json"),
        ({"mode": "permissive"}, "PERMISSIVE"),
        ({"layout": "upserts"}, "upsert"),
        ({"tabel": "a"}, "table"),
        ({"shema": "id int"}, "schema"),
        ({"zero_dates": "error"}, "zero_date"),
        ({"Unwrapped": True}, "unwrapped"),
        ({"fields": ["evnt_time"]}, "event_time"),
        ({"dialect": "x" * 100_000}, None),
        ({"compression": "brotli"}, None),
    ],
)
def test_an_unknown_name_is_compared_with_those_that_exist(arguments, meant):
    with pytest.raises(ValueError, match="unknown") as raised:
        towpath.Decoder(**arguments)
    assert re.findall(r"did you mean (\S+)\?", str(raised.value)) == ([meant] if meant else [])
