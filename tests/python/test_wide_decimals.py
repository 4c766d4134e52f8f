"""What `docs/values.md` says about decimals beyond 38 digits, by the installed polars and DuckDB."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest

import towpath

DIGITS = "1234567890123456789012345678901234567890.25"
MESSAGE = json.dumps(
    {
        "type": "INSERT",
        "database": "shop",
        "table": "t",
        "isDdl": False,
        "data": [{"d": DIGITS}],
        "mysqlType": {"d": "decimal(60,2)"},
    }
).encode()


def column(type_: pa.DataType) -> pa.Table:
    """The column `d` of the message, requested as a type."""
    decoder = towpath.Decoder("canal-json", pa.schema([("d", type_)]))
    after = decoder.decode([MESSAGE])["after"]
    return pa.table({"d": pa.array(after.to_pylist()[0:1], after.type).field("d")})


def test_decimal256_is_exact_in_pyarrow() -> None:
    assert column(pa.decimal256(60, 2))["d"].to_pylist() == [Decimal(DIGITS)]


def test_duckdb_needs_text() -> None:
    duckdb = pytest.importorskip("duckdb")
    wide, text = column(pa.decimal256(60, 2)), column(pa.string())
    with pytest.raises(duckdb.NotImplementedException):
        duckdb.from_arrow(wide).fetchall()
    assert duckdb.from_arrow(text).fetchall() == [(DIGITS,)]


def test_polars_needs_text() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(BaseException, match="Int256"):  # a panic is not an Exception
        polars.from_arrow(column(pa.decimal256(60, 2)))
    assert polars.from_arrow(column(pa.string()))["d"].to_list() == [DIGITS]
