"""Decoded rows compared with the truth of the golden messages, from the database or the producer's input."""

from collections import Counter
from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

import towpath
from golden_files import lines, messages, truth


@pytest.mark.parametrize("producer", ["cloudcanal", "tencent"])
def test_documented_producers_line_by_line(producer):
    decoder = towpath.Decoder("canal-json", mode="FAILFAST")
    rows = decoder.decode(messages(f"{producer}/small.jsonl")).to_pylist(maps_as_pydicts="strict")
    for row, want in zip(rows, truth(f"{producer}/small.truth.jsonl"), strict=True):
        assert (row["database"], row["table"]) == (want["db"], want["table"])
        assert row["sql"] == want["ddl"]
        if want["op"] == "DDL":
            assert row["op"] == ("truncate" if want["ddlType"] == "TRUNCATE" else "ddl")
            assert row["before"] is row["after"] is None
        else:
            assert row["op"] == want["op"].lower()
            assert row["after"] == _image(want, "row")
            assert row["before"] == _image(want, "old")


def _image(want, name):
    return want[name] and dict(zip(want["cols"], want[name], strict=True))


ORDERS = {
    "order_id": ("bigint", int),
    "user_id": ("decimal(20,0)", Decimal),
    "order_no": ("string", str),
    "status": ("string", str),
    "total_amount": ("decimal(12,2)", Decimal),
    "item_count": ("smallint", int),
    "created_at": ("timestamp_ntz", datetime.fromisoformat),
    "updated_at": ("timestamp", lambda text: datetime.fromisoformat(text).replace(tzinfo=timezone.utc)),
}


@pytest.mark.parametrize("producer", ["cloudcanal", "tencent"])
def test_typed_orders_equal_the_truth(producer):
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _) in ORDERS.items())
    decoder = towpath.Decoder("canal-json", ddl, database="shop", table="orders", mode="FAILFAST")
    rows = decoder.decode(messages(f"{producer}/small.jsonl")).to_pylist()
    wanted = [want for want in truth(f"{producer}/small.truth.jsonl") if want["table"] == "orders"]
    for row, want in zip(rows, wanted, strict=True):
        assert row["after"] == _typed(_image(want, "row"))
        assert row["before"] == _typed(_image(want, "old"))


def _typed(image):
    return image and {
        name: None if image[name] is None else convert(image[name]) for name, (_, convert) in ORDERS.items()
    }


ORDER_LINE = {"order_id": int, "line_no": int, "sku": str, "qty": int, "price": Decimal, "note": str}


@pytest.mark.parametrize("server", ["canal-mysql", "canal-maria", "canal-gtid"])
def test_order_lines_of_a_real_server(server):
    schema = "order_id int, line_no smallint, sku string, qty int, price decimal(12,2), note string"
    decoder = towpath.Decoder("canal-json", schema, database="shop_a", table="order_line", mode="FAILFAST")
    rows = decoder.decode(messages(f"{server}/mixed.flat.jsonl.zst")).to_pylist()
    got = Counter(
        _change(row["op"], row["before"], row["after"]) for row in rows if row["op"] not in ("ddl", "truncate")
    )
    wanted = Counter(
        _change(want["op"], _line(want["before"]), _line(want["after"]))
        for want in truth(f"{server}/truth.jsonl.zst")
        if want["table"] == "order_line"
    )
    assert wanted.total() > 100
    assert got == wanted


def _change(op, before, after):
    return op, before and tuple(before.values()), after and tuple(after.values())


def _line(image):
    return image and {name: None if image[name] is None else kind(image[name]) for name, kind in ORDER_LINE.items()}


@pytest.mark.parametrize("kind", ["ddl_default", "ddl_ext", "stream_ext"])
def test_ticdc_ddl_and_watermarks(kind):
    decoder = towpath.Decoder("ticdc-canal-json", fields=["op", "database", "table", "sql", "source"], mode="FAILFAST")
    suffix = ".zst" if kind == "stream_ext" else ""
    rows = decoder.decode(messages(f"ticdc/canal_json_{kind}.jsonl{suffix}")).to_pylist()
    for row, want in zip(rows, truth(f"ticdc/truth_{kind}.jsonl"), strict=True):
        if want["msg"] == "DDL":
            assert (row["database"], row["table"], row["sql"]) == (want["db"], want["table"], want["sql"])
            assert row["op"] in ("ddl", "query", "truncate")
        else:
            assert row["op"] in {"WATERMARK": ("watermark",), "DML": ("insert", "update", "delete")}[want["msg"]]
        for field in ("commit_ts", "watermark_ts"):
            if field in want and kind != "ddl_default":
                assert str(row["source"][field]) == want[field]


def test_messages_joined_by_crlf_decode_like_single_ones():
    decoder = towpath.Decoder("ticdc-canal-json")
    [path] = ["ticdc/cloudstorage_crlf.json.zst"]
    joined = decoder.decode(pa.array([b"\r\n".join(lines(path)) + b"\r\n"]))
    assert joined.drop_columns(["row"]).equals(decoder.decode(messages(path)).drop_columns(["row"]))
    assert len(joined) == 624
