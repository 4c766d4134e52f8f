"""fastavro, then pyarrow: Aliyun DTS records to one flat row each, as the other peers give it but for `ts`."""

import io
import json
from datetime import date, datetime
from pathlib import Path

import fastavro
import pyarrow as pa

from peers import COLUMNS, OUTPUT, UTC_MICROS, cast, millis

SCHEMA = fastavro.parse_schema(json.loads((Path(__file__).parent / "dts_record.avsc").read_text()))
ROW = OUTPUT.remove(OUTPUT.get_field_index("ts"))


def decode(values):
    operations, executed = [], []
    columns = [[] for _ in COLUMNS.names]
    for value in values.to_pylist():
        record = fastavro.schemaless_reader(io.BytesIO(value), SCHEMA)
        operations.append(record["operation"])
        executed.append(record["sourceTimestamp"] * 1000)
        for column, cell in zip(columns, record["afterImages"] or record["beforeImages"], strict=True):
            column.append(cell)
    envelope = [pa.array(operations), millis(pa.array(executed))]
    typed = [array(column, field.type) for column, field in zip(columns, COLUMNS, strict=True)]
    return pa.table(envelope + typed, schema=ROW)


# How Avro's records become what pyarrow takes, where they hold no text.
VALUES = {
    pa.date32(): lambda cell: date(cell["year"], cell["month"], cell["day"]),
    pa.timestamp("us"): lambda cell: datetime(
        cell["year"], cell["month"], cell["day"], cell["hour"], cell["minute"], cell["second"], cell["millis"]
    ),
    UTC_MICROS: lambda cell: cell["timestamp"] * 1_000_000 + cell["millis"],
}


def array(cells, wanted):
    if value := VALUES.get(wanted):
        return pa.array([cell and value(cell) for cell in cells], wanted)
    texts = [cell and cell["value"] for cell in cells]
    return cast(pa.array(texts, pa.binary() if wanted == pa.string() else pa.string()), wanted)
