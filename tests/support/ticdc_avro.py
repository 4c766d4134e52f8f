"""Records as TiCDC's encoder for the protocol `avro` writes them (`pkg/sink/codec/avro/avro.go`), by fastavro.

The schemas follow `columnToAvroSchema`, `columns2AvroSchema` and `schemaWithExtension` there, the values
`columnToAvroData`.
"""

import io
import json
import random
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

NAMESPACE = "default"
LABELS = ["a", "b,c", "it's", "1"]


@dataclass
class Column:
    """A column: TiDB's type, Avro's, further parameters, and what surrounds them."""

    name: str
    tidb: str
    avro: str
    parameters: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    nullable: bool = True

    def schema(self) -> dict[str, Any]:
        """The field of the record."""
        kind = {
            "type": self.avro,
            "connect.parameters": {"tidb_type": self.tidb, **self.parameters},
            **self.attributes,
        }
        if not self.nullable:
            return {"name": self.name, "type": kind}
        return {"name": self.name, "type": ["null", kind], "default": None}


ALLOWED = ",".join(label.replace(",", "\\,") for label in LABELS)
KEY = Column("id", "BIGINT", "long", nullable=False)
COLUMNS = [
    KEY,
    Column("tiny", "INT", "int"),
    Column("many", "INT UNSIGNED", "long"),
    Column("huge", "BIGINT UNSIGNED", "long"),
    Column("texty", "BIGINT UNSIGNED", "string"),
    Column("single", "FLOAT", "float"),
    Column("twice", "DOUBLE", "double"),
    Column("price", "DECIMAL", "bytes", attributes={"logicalType": "decimal", "precision": 10, "scale": 2}),
    Column("cost", "DECIMAL", "string"),
    Column("flags", "BIT", "bytes", {"length": "17"}),
    Column("note", "TEXT", "string"),
    Column("raw", "BLOB", "bytes"),
    Column("one", "ENUM", "string", {"allowed": ALLOWED}),
    Column("several", "SET", "string", {"allowed": ALLOWED}),
    Column("doc", "JSON", "string"),
    Column("day", "DATE", "string"),
    Column("at", "DATETIME", "string"),
    Column("instant", "TIMESTAMP", "string"),
    Column("span", "TIME", "string"),
    Column("year", "YEAR", "int"),
]

EXTENSION = [
    {"name": "_tidb_op", "type": "string", "default": ""},
    {"name": "_tidb_commit_ts", "type": "long", "default": 0},
    {"name": "_tidb_commit_physical_time", "type": "long", "default": 0},
]
CHECKSUM = [
    {"name": "_tidb_row_level_checksum", "type": "string", "default": ""},
    {"name": "_tidb_corrupted", "type": "boolean", "default": False},
    {"name": "_tidb_checksum_version", "type": "int", "default": 0},
]


def record(table: str, columns: list[Column], extension: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of a value, or of a key, which has no extension."""
    fields = [*(column.schema() for column in columns), *extension]
    return {"type": "record", "name": table, "namespace": f"{NAMESPACE}.shop", "fields": fields}


def values(randoms: random.Random) -> dict[str, Any]:
    """What MySQL has in a row, as Python has it."""
    clock = f"{randoms.randrange(24):02}:{randoms.randrange(60):02}:{randoms.randrange(60):02}"
    day = f"{randoms.randrange(1970, 2038)}-{randoms.randrange(1, 13):02}-{randoms.randrange(1, 29):02}"
    row = {
        "id": randoms.randrange(-(2**63), 2**63),
        "tiny": randoms.randrange(-128, 128),
        "many": randoms.randrange(2**32),
        "huge": randoms.randrange(2**64),
        "texty": randoms.randrange(2**64),
        "single": randoms.choice([0.5, -1.25, 2.0**35]),
        "twice": randoms.random() * 10 ** randoms.randrange(-300, 300),
        "price": Decimal(randoms.randrange(-(10**10) + 1, 10**10)).scaleb(-2),
        "cost": Decimal(randoms.randrange(-(10**30), 10**30)).scaleb(-5),
        "flags": randoms.randrange(2**17),
        "note": "".join(randoms.choices("aé'\"\\,日", k=randoms.randrange(5))),
        "raw": randoms.randbytes(randoms.randrange(5)),
        "one": randoms.choice(LABELS),
        "several": ",".join(label for label in LABELS[::2] if randoms.random() < 0.5),
        "doc": json.dumps({"string": randoms.randrange(9)}),
        "day": day,
        "at": f"{day} {clock}",
        "instant": f"{day} {clock}.123456",
        "span": f"-{randoms.randrange(839)}:{clock[3:]}",
        "year": randoms.randrange(1901, 2156),
    }
    return {name: value if name == "id" or randoms.random() < 0.9 else None for name, value in row.items()}


def native(name: str, value: Any) -> Any:
    """A value as the encoder gives it to Avro."""
    if value is None:
        return None
    match name:
        case "huge":
            return value - 2**64 if value >= 2**63 else value
        case "texty":
            return str(value)
        case "cost":
            return format(value, "f")
        case "flags":
            # NewBinaryLiteralFromUint(value, -1): without leading zeros, one byte at least.
            return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
    return value


def framed(number: int, schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    """A datum behind the id of its schema."""
    import fastavro

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return b"\x00" + number.to_bytes(4, "big") + out.getvalue()


def ddl(query: str, table: str, commit_ts: int) -> bytes:
    """`EncodeDDLEvent`."""
    event = {"query": query, "type": 3, "schema": "shop", "table": table, "commitTs": commit_ts}
    return b"\x01" + json.dumps(event).encode()


def checkpoint(commit_ts: int) -> bytes:
    """`EncodeCheckpointEvent`."""
    return b"\x02" + commit_ts.to_bytes(8, "big")
