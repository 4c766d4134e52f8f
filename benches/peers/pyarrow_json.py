"""pyarrow's own JSON reader with an explicit schema of what is asked for; flattening and casts are pyarrow kernels."""

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from peers import COLUMNS, OUTPUT, cast, millis

ROW = pa.struct([(name, pa.string()) for name in COLUMNS.names])
SCHEMA = pa.schema([("type", pa.string()), ("es", pa.int64()), ("ts", pa.int64()), ("data", pa.list_(ROW))])


def parsed(values):
    """The reader wants one text of lines."""
    lines = b"\n".join(values.to_pylist())
    options = json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")
    reading = json.ReadOptions(use_threads=False, block_size=16 << 20)
    return json.read_json(pa.BufferReader(lines), read_options=reading, parse_options=options).combine_chunks()


def decode(values):
    messages = parsed(values)
    data = messages["data"].combine_chunks()
    parents = pc.list_parent_indices(data)
    rows = pc.list_flatten(data)
    envelope = messages.select(["type", "es", "ts"]).take(parents)
    typed = [cast(pc.struct_field(rows, name), COLUMNS.field(name).type) for name in COLUMNS.names]
    return pa.table([envelope["type"], millis(envelope["es"]), millis(envelope["ts"]), *typed], schema=OUTPUT)
