"""What the peers have to produce: one flat row a changed row, typed, from a canal FlatMessage of the wide corpus.

Each peer is one file with `decode(values) -> pyarrow.Table`: `values` is a binary array, one message an element. They
give the row of `data` (the after image; of a DELETE the deleted row) and leave `old` alone, which is less than towpath
does: it gives both images whole.
"""

import pyarrow as pa

UTC_MICROS = pa.timestamp("us", "UTC")
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("user_id", pa.int64()),
        ("order_no", pa.string()),
        ("status", pa.int8()),
        ("quantity", pa.int32()),
        ("total", pa.decimal128(10, 2)),
        ("address", pa.string()),
        ("country", pa.string()),
        ("remark", pa.string()),
        ("shipped_on", pa.date32()),
        ("placed_at", pa.timestamp("us")),
        ("updated_at", UTC_MICROS),
    ]
)
ENVELOPE = pa.schema([("op", pa.string()), ("es", UTC_MICROS), ("ts", UTC_MICROS)])
OUTPUT = pa.schema([*ENVELOPE, *COLUMNS])

# The same columns as Spark's and towpath's DDL.
DDL = (
    "id bigint, user_id bigint, order_no string, status tinyint, quantity int, total decimal(10,2), address string, "
    "country string, remark string, shipped_on date, placed_at timestamp_ntz, updated_at timestamp"
)


def cast(column, wanted):
    """Text to a typed array. The text of a TIMESTAMP has no zone: read it as UTC, which pyarrow does in two steps."""
    if wanted == UTC_MICROS:
        return column.cast(pa.timestamp("us")).cast(wanted)
    return column.cast(wanted)


def millis(column):
    """Epoch milliseconds to the envelope's times."""
    return column.cast(pa.timestamp("ms", "UTC")).cast(UTC_MICROS)
