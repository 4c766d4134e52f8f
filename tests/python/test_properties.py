"""Invariants of every message: neighbours, order, spelling and the form of the input have no effect."""

import json
import pickle
import random
import re
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import towpath
from fidelity import lines, row_changes
from golden_files import CAPTURES, GOLDEN

ROWS = [*CAPTURES, "ticdc/canal_json_content_compatible.jsonl.zst", "canal-mysql/mixed.flat_hash3.p1.jsonl.zst"]

# Columns of several captures' tables, of every family of types.
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "order_id": pa.int64(),
        "c_dec_10_4": pa.decimal128(10, 4),
        "c_float": pa.float32(),
        "c_date": pa.date32(),
        "c_datetime6": pa.timestamp("us"),
        "c_timestamp6": pa.timestamp("us", "UTC"),
        "c_time6": pa.duration("us"),
        "c_bit10": pa.binary(),
        "c_enum": pa.string(),
        "c_json": pa.string(),
        "c_blob": pa.binary(),
        "c_point": pa.binary(),
        "name": pa.string(),
        "status": pa.string(),
    }
)


def options_of(kind):
    return {
        "maps": {},
        "typed": {"schema": SCHEMA},
        "changelog": {"schema": SCHEMA, "layout": "changelog"},
        "upsert": {"schema": SCHEMA, "layout": "upsert", "fields": ["_op", "_event_time", "_source", "_row", "_error"]},
    }[kind]


def decoder_of(kind):
    return towpath.Decoder("canal-json", **options_of(kind))


KINDS = ["maps", "typed", "changelog", "upsert"]


def messages_of(name):
    """A capture's messages, without the few very large ones, and with some bad ones between them."""
    values = [line for line in lines(GOLDEN / name) if len(line) < 20_000]
    return [*values[:20], b"{", b"", b"\xff", *values[20:], None]


def array_of(values):
    return pa.array(values, pa.binary())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ROWS)
def test_a_batch_is_its_messages_one_behind_the_other(name, kind):
    values, decoder = messages_of(name), decoder_of(kind)
    whole = decoder.decode(array_of(values))
    apart = pa.concat_batches([decoder.decode(array_of([value])) for value in values])
    assert apart.equals(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_of_other_producers_change_nothing(kind):
    values = [value for name in ROWS for value in messages_of(name)]
    order = random.Random(5).sample(range(len(values)), 600)
    decoder = decoder_of(kind)
    mixed = decoder.decode(array_of([values[place] for place in order]))
    apart = pa.concat_batches([decoder.decode(array_of([values[place]])) for place in order])
    assert apart.equals(mixed)


def escaped(value):
    """JSON text in which every character of every string is an escape by its number."""
    if isinstance(value, str):
        units = value.encode("utf-16-be").hex()
        return '"' + "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)) + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(escaped, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{escaped(key)}:{escaped(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


SPELLINGS = {
    "indented": lambda message: json.dumps(message, indent=2),
    "spaced": lambda message: json.dumps(message, separators=(" , ", "\r\n:\t")),
    "ascii": lambda message: json.dumps(message, separators=(",", ":")),
    "raw": lambda message: json.dumps(message, ensure_ascii=False),
    "every character escaped": escaped,
    "slashes escaped": lambda message: json.dumps(message, ensure_ascii=False).replace("/", r"\/"),
}


SPELLED = ["canal-mysql/mixed.flat.jsonl.zst", "ticdc/canal_json_stream_ext.jsonl.zst", "tencent/small.jsonl"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("kind", ["maps", "typed"])
@pytest.mark.parametrize("name", SPELLED)
def test_the_spelling_of_json_changes_nothing(name, kind, spelling):
    values = [value for value in messages_of(name)[23:] if value and b'"tableChanges"' not in value]
    respelled = [SPELLINGS[spelling](json.loads(value)).encode() for value in values]
    decoder, of_spelling = decoder_of(kind), ["error", "_corrupt_record"]  # an error tells the byte
    got, want = (decoder.decode(array_of(list(of))).drop_columns(of_spelling) for of in (respelled, values))
    assert got.equals(want)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_may_be_mixed_in_one_batch_and_in_one_message(spelling):
    """An escaped name is the same column as the plain one."""
    plain = {"type": "UPDATE", "data": [{"id": "2", "name": "b"}], "old": [{"id": "1"}], "pkNames": ["id"]}
    parts = [f'"{key}":{SPELLINGS[spelling](plain[key])}' for key in ("old", "pkNames")]
    mixed = f'{{"type":"UPDATE","data":{json.dumps(plain["data"])},{",".join(parts)}}}'.encode()
    for kind in KINDS:
        decoder = decoder_of(kind)
        want = decoder.decode(array_of([json.dumps(plain).encode()]))
        assert decoder.decode(array_of([mixed])).equals(want)


FORMS = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_the_form_of_the_input_changes_nothing(name, form):
    values = [value for value in messages_of(name) if value != b"\xff"]
    texts = [value and value.decode() for value in values]
    decoder = decoder_of("maps")
    want = decoder.decode(array_of(values))
    array = pa.array(texts if "string" in str(form) else values, form)
    assert decoder.decode(array).equals(want)
    assert decoder.decode(pa.record_batch({"value": array})).equals(want)
    assert decoder.decode(pa.StructArray.from_arrays([array], ["value"])).equals(want)


@pytest.mark.parametrize("form", FORMS[:3], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_a_slice_decodes_like_a_copy_of_it(name, form):
    values = messages_of(name)
    array, decoder = pa.array(values, form), decoder_of("typed")
    for start, length in ((0, 5), (3, 17), (21, 4), (len(values) - 3, 3), (7, 0)):
        copy = array_of(values[start : start + length])
        want = decoder.decode(copy)
        assert decoder.decode(array.slice(start, length)).equals(want)
        assert decoder.decode(pa.record_batch({"value": array}).slice(start, length)).equals(want)
        sliced = pa.StructArray.from_arrays([array], ["value"]).slice(start, length)
        assert decoder.decode(sliced).equals(want)


def test_a_struct_that_is_null_is_a_message_that_is_null():
    values = pa.array(lines(GOLDEN / "tencent/small.jsonl")[:3], pa.binary())
    masked = pa.StructArray.from_arrays([values], ["value"], mask=pa.array([False, True, False]))
    ops = towpath.Decoder("canal-json", fields=["op"]).decode(masked).column("op").to_pylist()
    assert ops[1] == "tombstone"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ROWS)
def test_each_field_alone_is_that_column_of_all_fields(name, kind):
    array, whole = array_of(messages_of(name)), decoder_of(kind).decode(array_of(messages_of(name)))
    options = {key: value for key, value in options_of(kind).items() if key != "fields"}
    images = ["before", "after"] if kind in ("maps", "typed") else []
    for column in whole.schema.names:
        if column in ("error", "_corrupt_record"):  # a value that is not decoded is not an error
            alone = towpath.Decoder("canal-json", fields=[*images, column], **options)
        elif column not in SCHEMA.names:
            alone = towpath.Decoder("canal-json", fields=[column], **options)
        assert alone.decode(array).column(column).equals(whole.column(column)), column


@pytest.mark.parametrize("name", ROWS)
def test_each_column_alone_is_that_column_of_the_whole_schema(name):
    array = array_of(messages_of(name))
    whole = decoder_of("typed").decode(array)
    for field in SCHEMA:
        alone = towpath.Decoder("canal-json", pa.schema([field])).decode(array)
        for image in ("before", "after"):
            assert alone.column(image).field(0).equals(whole.column(image).field(field.name)), field
        assert alone.column("op").equals(whole.column("op"))


@pytest.mark.parametrize("name", ROWS)
def test_a_filter_gives_the_rows_of_its_table(name):
    array = array_of(messages_of(name))
    whole = decoder_of("maps").decode(array)
    for table in filter(None, pc.unique(whole.column("table")).to_pylist()):
        filtered = towpath.Decoder("canal-json", table=re.escape(table)).decode(array)
        mine = pc.or_(pc.equal(whole.column("table"), table), nameless(whole))
        assert filtered.equals(whole.filter(pc.fill_null(mine, True)))


def nameless(batch):
    """Errors, tombstones, watermarks and messages without a database pass every filter."""
    names = [pc.fill_null(batch.column(field), "") for field in ("database", "table")]
    return pc.and_(pc.equal(names[0], ""), pc.equal(names[1], ""))


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_share_a_decoder_and_pickled_copies_give_the_same(kind):
    decoder = decoder_of(kind)
    copy = pickle.loads(pickle.dumps(decoder))
    arrays = [array_of(messages_of(name)) for name in ROWS]
    wanted = [decoder_of(kind).decode(array) for array in arrays]
    with ThreadPoolExecutor(2) as pool:
        shared = list(pool.map(decoder.decode, arrays * 3))
    assert all(got.equals(want) for got, want in zip(shared, wanted * 3, strict=True))
    assert all(copy.decode(array).equals(want) for array, want in zip(arrays, wanted, strict=True))


@pytest.mark.parametrize("name", ROWS)
def test_layouts_tell_the_same_story(name):
    """The flat layouts have the images of the `change` layout, in its order."""
    array = array_of(messages_of(name))
    changes = row_changes(decoder_of("typed").decode(array))
    flat = decoder_of("changelog").decode(array).to_pylist()
    wanted = [image for row in changes for image in (row["before"], row["after"]) if image is not None]
    assert [{name: row[name] for name in SCHEMA.names} for row in flat if row["_change_type"] != "error"] == wanted
