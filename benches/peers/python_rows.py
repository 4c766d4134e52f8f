"""The half that the two Python JSON parsers share: parsed messages to columns of text, then pyarrow's own casts.

Appending to one list a column and casting a whole column is the fastest plain way; `Table.from_pylist` and a Python
conversion for each value are slower.
"""

import pyarrow as pa

from peers import COLUMNS, ENVELOPE, OUTPUT, cast, millis


def decode(values, loads):
    operations, executed, produced = [], [], []
    columns = [(name, []) for name in COLUMNS.names]
    for value in values.to_pylist():
        message = loads(value)
        for row in message["data"]:
            operations.append(message["type"])
            executed.append(message["es"])
            produced.append(message["ts"])
            for name, column in columns:
                column.append(row.get(name))
    envelope = [pa.array(operations, ENVELOPE.field("op").type), millis(pa.array(executed)), millis(pa.array(produced))]
    typed = [cast(pa.array(column, pa.string()), COLUMNS.field(name).type) for name, column in columns]
    return pa.table(envelope + typed, schema=OUTPUT)
