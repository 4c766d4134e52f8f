"""Avro as console consumers print it, whose JSON fastavro writes: refused, and never the text of a union's value."""

import io
import json
import random
from functools import cache

import pyarrow as pa
import pytest

import avro_captures
import towpath
from connect_avro import avro_schema, avro_value, flattened

fastavro = pytest.importorskip("fastavro")


def printed(schema, value) -> str:
    """A value in Avro's JSON encoding."""
    out = io.StringIO()
    fastavro.json_writer(out, fastavro.parse_schema(schema), [value])
    return out.getvalue()


@cache
def messages(*, flat):
    """A capture's row changes, printed."""
    found = []
    for record in avro_captures.json_records("mysql-default", "mixed"):
        message = json.loads(record.value) if record.value else {"payload": None}
        if not message["payload"] or "op" not in message["payload"]:
            continue
        message = flattened(message) if flat else message
        schema = json.loads(avro_schema(message["schema"]))
        found.append(printed(schema, avro_value(message["schema"], message["payload"])))
    return found


def decode(text, schema=None, dialect="debezium-json", **options):
    [row] = towpath.Decoder(dialect, schema, **options).decode(pa.array([text])).to_pylist()
    return row


@pytest.mark.parametrize("dialect", ["debezium-json", "auto"])
@pytest.mark.parametrize("schema", [None, "id bigint", "id bigint, no_such_column string"])
def test_no_printed_envelope_is_a_row(dialect, schema):
    texts = messages(flat=False)
    assert len(texts) > 100
    rows = towpath.Decoder(dialect, schema).decode(pa.array(texts)).to_pylist()
    assert {row["op"] for row in rows} == {"error"}
    assert {row["error"]["kind"] for row in rows} == {"envelope"}
    assert all("read the topic itself with dialect debezium-avro" in row["error"]["message"] for row in rows)


@pytest.mark.parametrize("schema", [None, "id bigint, note string"])
@pytest.mark.parametrize("seed", range(20))
def test_added_fields_of_printed_rows_are_no_text(seed, schema):
    randoms = random.Random(seed)
    name, kind = randoms.choice(
        [("op", "string"), ("deleted", "string"), ("table", "string"), ("source_ts_ms", "long")]
    )
    value = "true" if kind == "string" else 1714979289512
    fields = [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": f"__{name}", "type": ["null", kind]},
    ]
    randoms.shuffle(fields)
    schema_of_row = {"type": "record", "name": "Value", "fields": fields}
    row = decode(printed(schema_of_row, {"id": 7, "note": None, f"__{name}": value}), schema)
    assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
    assert f"__{name}" in row["error"]["message"]


UNIONS = [
    ("string", "Tom"),
    ("bytes", b"\x00\xff"),
    ("boolean", False),
    ("int", -3),
    ("long", 1 << 40),
    ("float", 0.5),
    ("double", -1e300),
    ({"type": "array", "items": "string"}, ["x"]),
    ({"type": "map", "values": "int"}, {"a": 1}),
    ({"type": "enum", "name": "io.debezium.data.Enum", "symbols": ["a", "b"]}, "a"),
]


@pytest.mark.parametrize(("branch", "value"), UNIONS)
@pytest.mark.parametrize("schema", [None, "id bigint, c string", "c string", "c binary", "id bigint, c int"])
def test_a_row_with_a_value_of_a_union_is_an_error(branch, value, schema):
    fields = [{"name": "id", "type": "long"}, {"name": "c", "type": ["null", branch]}]
    text = printed({"type": "record", "name": "Value", "fields": fields}, {"id": 7, "c": value})
    text = text.rstrip("}") + "}" * (text.count("{") - 1) + ', "__deleted": "false"}'
    # A second message of the table is read by a template.
    batch = pa.array([text, '{"id": 7, "c": null, "__deleted": "false"}', text])
    first, plain, again = towpath.Decoder("debezium-json", schema).decode(batch).to_pylist()
    assert plain["error"] is None
    for row in (first, again):
        assert (row["op"], row["error"]["kind"]) == ("error", "type")
        assert "after.c: " in row["error"]["message"]
        assert "column_types" in row["error"]["message"]
        assert text[row["error"]["byte"] :].startswith("{")


@pytest.mark.parametrize("seed", range(50))
def test_json_of_one_member_is_kept(seed):
    """Where the name is none of Avro's types, or the user says that the column is JSON."""
    randoms = random.Random(seed)
    name = "".join(randoms.choices("abcdefgh_", k=randoms.randint(1, 8)))
    cell = json.dumps({name: randoms.choice(["x", 1, None, {"string": "x"}, [1], True])})
    text = f'{{"id": 7, "c": {cell}, "__deleted": "false"}}'
    assert decode(text, "id bigint, c string")["after"]["c"] == cell
    assert dict(decode(text)["after"])["c"] == cell
    told = '{"id": 7, "c": {"string": "Tom"}, "__deleted": "false"}'
    row = decode(told, "id bigint, c string", column_types={"c": "json"})
    assert (row["error"], row["after"]["c"]) == (None, '{"string": "Tom"}')
    row = decode(told, "id bigint, c struct<string: string>")
    assert (row["error"], row["after"]["c"]) == (None, {"string": "Tom"})
