"""What the messages of a batch say: the changes of tables, and events that change no row."""

from __future__ import annotations

import pyarrow as pa

from towpath.lakehouse.reading.changes import ERROR, READ, SOURCE

CHANGE, BLOCK, DDL, WATERMARK, DEAD = "change", "block", "ddl", "watermark", "dead"
"""The kinds of events. A block has the changes of several messages. Heartbeats and the like have no event."""

EVENT_SOURCE = {**SOURCE, "operation": pa.string(), "watermark_ts": pa.int64(), "connector": pa.string()}
"""The fields of the column `source`."""

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
"""The columns of an event. One of kind `change` is for all row changes of a table in a message, or for those that are
after the same statements about it: `slice` says after which.

`messages`, `rows` and `size` count its messages, their row changes, and their bytes. The `value` of a block is an Arrow
stream of changes.

`table` has the schema in it, unless that is the default one (`schemas.table_name`); `schema` is as in the message.

`declaration` is JSON text of the table's key and types, at the first event of a record batch that declares them;
`declared` is its hash, at each event.
"""
