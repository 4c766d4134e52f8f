"""The output of a message is bounded by its bytes: see `docs/errors.md`."""

import json

import pyarrow as pa
import pytest

import towpath

MIB = 1 << 20
ALLOWANCE = 16 * MIB


def canal(rows, **members):
    message = {"type": "INSERT", "database": "d", "table": "t", **members}
    return (json.dumps(message, separators=(",", ":"))[:-1] + ',"data":[' + ",".join(rows) + "]}").encode()


def decode(*values, dialect="canal-json", **options):
    return towpath.Decoder(dialect, **options).decode(pa.array(values, pa.large_binary()))


def lines(number, **members):
    """Debezium messages in one Kafka value."""
    message = {"op": "c", "source": {}, "after": {"c": "x"}, **members}
    return b"\n".join([json.dumps(message, separators=(",", ":")).encode()] * number)


def insert_row(value="1"):
    return json.dumps({"c": value})


WIDE = ",".join(f"c{number} bigint" for number in range(500))
LABEL = "x" * 20_000

BEYOND = {
    "a name": (canal(["{}"] * 4_000, database="x" * 20_000), {}),
    "a statement": (canal(["{}"] * 4_000, sql="x" * 20_000), {}),
    "a gtid": (canal(["{}"] * 4_000, gtid="x" * 20_000), {}),
    "key names": (canal(["{}"] * 4_000, pkNames=[f"{number:06}" for number in range(4_000)]), {}),
    "jdbc types": (canal(["{}"] * 4_000, sqlType={f"{number:06}": 4 for number in range(4_000)}), {}),
    "declared types": (canal(["{}"] * 4_000, mysqlType={f"{number:06}": "int" for number in range(4_000)}), {}),
    "labels": (canal([insert_row()] * 4_000, mysqlType={"c": f"enum('{LABEL}')"}), {"schema": "c string"}),
    "empty rows of a wide table": (canal(["{}"] * 20_000), {"schema": WIDE}),
    "missing columns": (canal(["{}"] * 20_000), {"schema": WIDE, "fields": ["missing_columns"]}),
    "bad rows": (canal([insert_row("x")] * 6_000), {"schema": "c int"}),
    "bad rows of several messages": (lines(1_500), {"schema": "c int", "dialect": "debezium-json"}),
}


@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.parametrize("layout", ["change", "changelog", "upsert"])
def test_a_message_beyond_the_bound_is_one_error_row(name, layout):
    value, options = BEYOND[name]
    if layout != "change":
        plain = ["database", "sql", "source", "primary_key", "jdbc_types", "column_types"]
        fields = [f"_{field}" for field in plain] + ["_missing_columns", "_error", "_corrupt_record"]
        options = {"schema": "c string", **options, "layout": layout, "fields": fields}
        if name == "missing columns":
            options["fields"] = ["_missing_columns", "_error", "_corrupt_record"]
    else:
        fields = options.get("fields")
        options = options | ({"fields": [*fields, "error", "_corrupt_record"]} if fields else {})
    # A template of the same table must not lead around the bound.
    same = canal(['{"c":"1"}'], table="t") if "dialect" not in options else lines(1, after={"c": 1})
    rows = decode(same, same, value, same, **options).to_pylist()
    assert len(rows) == 4
    error = "error" if layout == "change" else "_error"
    assert [row[error] and row[error]["kind"] for row in rows] == [None, None, "size", None]
    bound = 256 * len(value) + ALLOWANCE
    assert f"more than {bound} (" in rows[2][error]["message"]
    assert "max_expansion" in rows[2][error]["message"]
    assert rows[2]["_corrupt_record"] == value
    assert {name for name, cell in rows[2].items() if cell is not None} <= {error, "_corrupt_record", "op", "_op"}


def test_the_option_raises_the_bound():
    value, _ = BEYOND["a name"]
    assert decode(value, fields=["database"]).num_rows == 1
    batch = decode(value, fields=["database"], max_expansion=4_000)
    assert batch.num_rows == 4_000
    assert set(batch["database"].to_pylist()) == {"x" * 20_000}
    with pytest.raises(ValueError, match="max_expansion"):
        towpath.Decoder("canal-json", max_expansion=-1)


def test_columns_that_are_not_requested_do_not_count():
    value, _ = BEYOND["a name"]
    assert decode(value, fields=["op", "error"]).num_rows == 4_000


def test_a_long_text_in_a_message_with_one_row_is_no_error():
    [row] = decode(canal(["{}"], sql="x" * 20 * MIB), fields=["sql", "error"], max_expansion=0).to_pylist()
    assert row["error"] is None
    assert len(row["sql"]) == 20 * MIB


def test_filtered_messages_are_not_errors():
    value, _ = BEYOND["a name"]
    decoder = towpath.Decoder("canal-json", table="other")
    assert decoder.decode(pa.array([value])).num_rows == 0
    assert decoder.metrics["filtered"] == 4_000
    assert decoder.metrics["errors"] == {}


def test_rows_that_are_long_themselves_are_not_errors():
    value = canal([insert_row("x" * 1_000)] * 5_000)
    batch = decode(value, value, value)
    assert batch.num_rows == 15_000
    assert batch["error"].null_count == 15_000


@pytest.mark.parametrize(("mode", "rows"), [("DROPMALFORMED", 0), ("FAILFAST", None)])
def test_modes(mode, rows):
    value, options = BEYOND["bad rows"]
    decoder = towpath.Decoder("canal-json", mode=mode, **options)
    if rows is None:
        with pytest.raises(towpath.DecodeError):
            decoder.decode(pa.array([value]))
        return
    assert decoder.decode(pa.array([value])).num_rows == rows
    assert decoder.metrics["dropped"] == 1
    assert decoder.metrics["errors"] == {"size": 1}


def test_every_bad_row_within_the_bound_has_its_message():
    value = canal([insert_row("x"), insert_row("1"), insert_row("y")])
    rows = decode(value, schema="c int", fields=["after", "error", "_corrupt_record"]).to_pylist()
    assert [row["_corrupt_record"] for row in rows] == [value, None, value]


def test_missing_columns_of_a_rejected_message_are_not_counted():
    decoder = towpath.Decoder("canal-json", "c int, other int")
    decoder.decode(pa.array([BEYOND["bad rows"][0], canal([insert_row("1")])]))
    assert decoder.metrics["missing_columns"] == {"other": 1}


def test_kept_columns_count():
    value = canal(["{}"] * 4_000)
    key = b"k" * 20_000
    batch = pa.record_batch({"value": pa.array([value, ONE]), "key": pa.array([key, key])})
    rows = towpath.Decoder("canal-json", keep=["key"], fields=["error"]).decode(batch).to_pylist()
    assert [row["error"] and row["error"]["kind"] for row in rows] == ["size", None]
    assert [row["key"] for row in rows] == [key, key]


ONE = canal(['{"c":"1"}'])


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_rows_are_bounded_by_the_compressed_bytes(codec):
    value = pa.compress(canal(["{}"] * 300_000), codec=codec, asbytes=True)
    [row] = decode(value, compression=codec, fields=["error"]).to_pylist()
    limit = (256 * len(value) + ALLOWANCE) // 256
    assert row["error"]["kind"] == "size"
    assert f"more than {limit} rows" in row["error"]["message"]
    batch = decode(value, compression=codec, fields=["error"], max_expansion=1_000_000)
    assert batch.num_rows == 300_000
    assert batch["error"].null_count == 300_000


def test_columns_beyond_an_array_are_an_error_of_the_call():
    values = pa.array([canal(["{}"] * 33, database="d" * 64 * MIB)], pa.large_binary())
    decoder = towpath.Decoder("canal-json", fields=["database"], max_expansion=64)
    with pytest.raises(ValueError, match="would exceed 2147483647 bytes; decode fewer messages"):
        decoder.decode(values)


def test_labels_of_the_caller_count():
    rows = [insert_row()] * 4_000
    [row] = decode(canal(rows), schema="c string", labels={"c": [LABEL]}, fields=["after", "error"]).to_pylist()
    assert row["error"]["kind"] == "size"
    assert (
        decode(canal(rows), schema="c string", labels={"c": ["small"] * 1_000}, fields=["after", "error"]).num_rows
        == 4_000
    )


def expanding(count):
    """Messages whose rows take much more than their bytes, but are within the bound."""
    value = canal(["{}"] * 1_000, database="x" * 10_000)
    return pa.record_batch({"value": [value] * count, "offset": range(count)})


def test_batches_end_when_their_rows_are_large():
    messages = expanding(200)
    decoder = towpath.Decoder("canal-json", fields=["database", "error"], keep=["offset"])
    batches = list(decoder.decode_batches(messages, max_bytes=32 * MIB))
    assert all(batch.schema == decoder.schema for batch in batches)
    # 128 KiB of messages are some ten of them, with 10 MB of rows each.
    assert len(batches) > 10
    assert max(batch.nbytes for batch in batches) < 200 * MIB
    whole = pa.Table.from_batches(batches)
    assert whole["offset"].to_pylist() == [offset for offset in range(200) for _ in range(1_000)]
    assert whole["error"].null_count == 200_000
    assert decoder.metrics["messages"] == 200
    assert decoder.metrics["rows"] == 200_000


def test_a_worker_decodes_to_batches_of_bounded_size():
    decoder = towpath.Decoder("canal-json", fields=["database"])
    sizes = [batch.nbytes for batch in decoder([expanding(60)])]
    assert len(sizes) == 2
    assert max(sizes) < 512 * MIB


def test_ordinary_messages_and_no_messages_are_one_batch():
    decoder = towpath.Decoder("canal-json", "c string")
    [batch] = decoder.decode_batches(pa.array([ONE, None, b"x"]))
    assert batch.equals(decoder.decode(pa.array([ONE, None, b"x"])))
    [batch] = decoder.decode_batches(pa.array([], pa.binary()))
    assert batch.num_rows == 0


def test_the_row_of_an_error_counts_from_the_first_message():
    decoder = towpath.Decoder("canal-json", fields=["database"], mode="FAILFAST")
    messages = [*expanding(40)["value"].to_pylist(), b"{"]
    with pytest.raises(towpath.DecodeError) as caught:
        list(decoder.decode_batches(pa.array(messages), max_bytes=MIB))
    assert caught.value.row == 40


def test_many_key_columns_take_linear_time():
    names = [f"{number:05}" for number in range(5_000)]
    update = {"type": "UPDATE", "database": "d", "table": "t", "pkNames": names, "old": [{"a": "0"}] * 5_000}
    value = json.dumps({**update, "data": [{"a": "1"}] * 5_000}).encode()
    rows = decode(value, schema="a int", layout="upsert", fields=["_op"]).to_pylist()
    assert rows == [{"_op": "update", "a": 1}] * 5_000


@pytest.mark.parametrize("layout", ["change", "changelog"])
def test_both_rows_of_an_update_count(layout):
    """The last message is read by a template of the earlier ones."""
    values = [
        canal([insert_row("new")], type="UPDATE", old=[{"c": "old"}], gtid="x" * length)
        for length in (1, 1, 1, 9 * MIB)
    ]
    flat = layout == "changelog"
    fields = ["_source", "_error"] if flat else ["source", "error"]
    options = {"schema": "c string", "layout": layout, "fields": fields, "max_expansion": 0}
    *_, last = decode(*values, **options).to_pylist()
    assert (last[fields[1]] or {}).get("kind") == ("size" if flat else None)
