"""Schemas as DDL text in the form that `towpath.Decoder` and Spark accept."""

from __future__ import annotations

import re

import pyarrow as pa

# All types that `infer_schema` returns, except decimals.
_TYPE_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.duration("us"): "interval day to second",
}


def ddl(schema: pa.Schema) -> str:
    """Return the DDL text of a schema from `infer_schema`, one column per line."""
    return ",\n".join(f"{_name(field.name)} {_type_name(field.type)}" for field in schema)


def quoted(name: str) -> str:
    """Return an identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else quoted(name)


def _type_name(arrow: pa.DataType) -> str:
    return f"decimal({arrow.precision},{arrow.scale})" if pa.types.is_decimal(arrow) else _TYPE_NAMES[arrow]
