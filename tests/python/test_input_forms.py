"""Columns of a schema that no message has, and messages in the forms that Python programs have them in."""

import mmap
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import towpath
from canal_messages import SCHEMA, change, order
from towpath import messages

MESSAGES = [change(data=[order(number, "1.00")]) for number in (1, 2, 3)]


@pytest.mark.parametrize("layout", ["change", "changelog", "upsert"])
@pytest.mark.parametrize("kind", ["INSERT", "UPDATE", "DELETE"])
def test_a_misspelled_column_has_the_nearest_name(layout, kind):
    decoder = towpath.Decoder("canal-json", "id bigint, totl double, colour string", layout=layout)
    assert decoder.metrics["absent_columns"] == {}
    old = [{"total": "2.00"}] * 2 if kind == "UPDATE" else None
    decoder.decode(pa.array([change(kind, [order(1, "1.00"), order(2, "1.00")], old)]))
    assert decoder.metrics["absent_columns"] == {"totl": "total", "colour": None}


def test_a_column_is_absent_until_a_message_has_it():
    decoder = towpath.Decoder("canal-json", "id bigint, note string")
    decoder.decode(pa.array(MESSAGES * 1000))
    assert decoder.metrics["absent_columns"] == {"note": None}
    # Every batch of a decoder, in any thread, and by either reader.
    decoder.decode(pa.array([change(data=[{"id": "1", "note": None}])]))
    assert decoder.metrics["absent_columns"] == {}
    assert decoder.metrics["missing_columns"] == {"note": 3000}
    assert pickle.loads(pickle.dumps(decoder)).metrics["absent_columns"] == {}


def test_messages_without_rows_have_no_absent_columns():
    decoder = towpath.Decoder("canal-json", "id bigint")
    decoder.decode(pa.array([b'{"type":"QUERY","isDdl":true,"sql":"x","database":"d","table":"t"}', None, b"{"]))
    assert decoder.metrics["absent_columns"] == {}


def test_rows_that_are_dropped_or_filtered_do_not_count():
    decoder = towpath.Decoder("canal-json", "totl double", table="orders", layout="upsert")
    decoder.decode(pa.array([*MESSAGES, change(data=[{"totl": "1"}], table="other")]))
    assert decoder.metrics["absent_columns"] == {"totl": "total"}


WANTED = towpath.Decoder("canal-json", SCHEMA).decode(pa.array(MESSAGES))


@pytest.mark.parametrize(
    "values",
    [
        MESSAGES,
        tuple(MESSAGES),
        iter(MESSAGES),
        [message.decode() for message in MESSAGES],
        [bytearray(message) for message in MESSAGES],
        [memoryview(message) for message in MESSAGES],
        np.array(MESSAGES, dtype=object),
        np.array(MESSAGES),
        pd.Series(MESSAGES),
        pd.DataFrame({"value": MESSAGES}),
        pa.array(MESSAGES),
        pa.chunked_array([MESSAGES[:1], MESSAGES[1:]]),
        pa.table({"value": pa.chunked_array([MESSAGES[:2], MESSAGES[2:]])}),
        pa.record_batch({"value": MESSAGES}),
    ],
    ids=lambda values: f"{type(values).__module__}.{type(values).__name__}",
)
def test_messages_in_any_form(values):
    decoder = towpath.Decoder("canal-json", SCHEMA)
    assert decoder.decode(values).equals(WANTED)


@pytest.mark.parametrize("value", [MESSAGES[0], MESSAGES[0].decode(), memoryview(MESSAGES[0])])
def test_one_message(value):
    assert towpath.Decoder("canal-json", SCHEMA).decode(value).equals(WANTED.slice(0, 1))
    [batch] = towpath.Decoder("canal-json", SCHEMA).decode_batches(value)
    assert batch.equals(WANTED.slice(0, 1))


def test_tombstones_and_nothing():
    decoder = towpath.Decoder("canal-json")
    assert decoder.decode([None]).column("op").to_pylist() == ["tombstone"]
    assert decoder.decode([None, MESSAGES[0]]).column("op").to_pylist() == ["tombstone", "insert"]
    assert len(decoder.decode([])) == 0


@pytest.mark.parametrize(
    "values", [None, 5, 1.5, [5], [MESSAGES[0], 5], [[MESSAGES[0]]], {"value": MESSAGES}, object()]
)
def test_other_things_are_a_type_error_that_says_what_is_expected(values):
    with pytest.raises(TypeError, match="expected messages as bytes or str, a list or an Arrow array"):
        towpath.Decoder("canal-json").decode(values)


def test_infer_schema_of_a_list():
    message = change(data=[{"id": "1"}], mysqlType={"id": "bigint"})
    assert towpath.infer_schema([message]) == pa.schema({"id": pa.int64()})


def test_a_key_needs_a_column():
    with pytest.raises(ValueError, match=r'key: "key" names a column, but the input is an array of messages; decode'):
        towpath.Decoder("ticdc-open", key="key").decode(pa.array([b"x"]))


@pytest.mark.parametrize("arguments", [{"lenient": "false"}, {"case_sensitive": 1}, {"max_expansion": True}])
def test_flags_and_numbers_have_their_types(arguments):
    with pytest.raises(TypeError, match=rf"{next(iter(arguments))}: expected (bool|int), not "):
        towpath.Decoder("canal-json", **arguments)


def test_a_list_of_more_than_2_gib_has_wide_offsets(monkeypatch):
    """Arrow makes a chunked array of such a list, as this one does of every list."""
    array = pa.array

    def chunked(values, kind):
        return pa.chunked_array([array(values, kind)]) if kind == pa.binary() else array(values, kind)

    monkeypatch.setattr(messages.pa, "array", chunked)
    found = messages.as_arrow(["a", b"b", None])
    assert found.type == pa.large_binary()
    assert found.to_pylist() == [b"a", b"b", None]


@pytest.mark.soak
def test_more_than_2_gib_in_a_list():
    message = change(data=[{"id": "x" * (256 << 20)}])
    decoder = towpath.Decoder("canal-json", fields=["op"])
    assert decoder.decode([message] * 9).num_rows == 9
    assert sum(batch.num_rows for batch in decoder.decode_batches([message] * 9)) == 9


@pytest.mark.parametrize("form", ["chunked", "table", "struct"])
def test_more_than_2_gib_in_chunks_is_a_value_error(form):
    """The memory is never touched, as the offsets are added first."""
    size = 3 << 29
    data = pa.py_buffer(mmap.mmap(-1, size))
    offsets = pa.array([0, size], pa.int32()).buffers()[1]
    chunk = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
    values = pa.chunked_array([chunk, chunk])
    if form != "chunked":
        values = pa.table({"value": values})
    if form == "struct":
        values = values.to_struct_array()
    with pytest.raises(ValueError, match="the messages have more than 2 GiB: decode fewer messages at once, or cast"):
        towpath.Decoder("canal-json").decode(values)
