"""A schema as the DDL text that `towpath.Decoder` and Spark take."""

from __future__ import annotations

import re

import pyarrow as pa

# Every type that `infer_schema` gives, decimals aside.
_WORDS = {
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
    """The columns of a schema that `infer_schema` made, one on each line."""
    return ",\n".join(f"{_quoted(field.name)} {_word(field.type)}" for field in schema)


def _quoted(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    return name if plain else "`" + name.replace("`", "``") + "`"


def _word(arrow: pa.DataType) -> str:
    return f"decimal({arrow.precision},{arrow.scale})" if pa.types.is_decimal(arrow) else _WORDS[arrow]
