"""The events of a batch's messages: changes of tables, and events that change no row."""

from __future__ import annotations

import pyarrow as pa

from towpath.lakehouse.reading.changes import ERROR, READ, SOURCE

CHANGE, BLOCK, EXAMPLE, DDL, WATERMARK, DEAD = "change", "block", "example", "ddl", "watermark", "dead"
"""Kinds of events. Heartbeats and similar messages produce no event.

A block has the changes of several messages. An example is one of these messages, with its declaration.
"""

EVENT_SOURCE = {**SOURCE, "operation": pa.string(), "watermark_ts": pa.int64(), "connector": pa.string()}
"""Fields of the column `source`."""

EVENT = pa.schema(
    [
        ("kind", pa.string()),
        ("database", pa.string()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("op", pa.string()),
        ("messages", pa.int64()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("commit_ts", pa.int64()),
        ("in_log", pa.bool_()),
        ("declared", pa.int64()),
        ("declaration", pa.string()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("produced_time", pa.timestamp("us", "UTC")),
        ("sql", pa.string()),
        ("table_changes", pa.string()),
        ("source", pa.struct(list(EVENT_SOURCE.items()))),
        ("row", pa.int32()),
        ("error", pa.struct(list(ERROR.items()))),
        *READ.items(),
        ("slice", pa.string()),
    ]
)
"""Columns of an event. An event of kind `change` stands for all row changes of a table in a message.

With statements about the table, it stands for the changes after the same statements. `slice` identifies these.

`messages`, `rows` and `size` count its messages, their row changes, and their bytes. The `value` of a block is an Arrow
stream of changes.

`table` contains the schema, unless it is the default schema (`schemas.table_name`). `schema` is as in the message.

`declaration` is JSON text of the table's key and types. It is set at the first event of a record batch with this
declaration. `declared` is its hash, at each event.
"""
