"""polars: json_decode with the dtype of what is asked for, explode, unnest, casts."""

import polars as pl

from peers import COLUMNS, OUTPUT

ROW = pl.Struct(dict.fromkeys(COLUMNS.names, pl.String))
MESSAGE = pl.Struct({"type": pl.String, "es": pl.Int64, "ts": pl.Int64, "data": pl.List(ROW)})
UTC_MICROS = pl.Datetime("us", "UTC")


def typed():
    text = pl.col
    return [
        text("id").cast(pl.Int64),
        text("user_id").cast(pl.Int64),
        text("status").cast(pl.Int8),
        text("quantity").cast(pl.Int32),
        text("total").cast(pl.Decimal(10, 2)),
        text("shipped_on").str.to_date("%Y-%m-%d"),
        text("placed_at").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us"),
        text("updated_at").str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us").dt.replace_time_zone("UTC"),
    ]


def decode(values):
    text = pl.from_arrow(values).cast(pl.String)
    messages = text.str.json_decode(MESSAGE).struct.unnest()
    rows = messages.explode("data").unnest("data").with_columns(typed())
    times = [pl.from_epoch(name, "ms").cast(pl.Datetime("us")).dt.replace_time_zone("UTC") for name in ("es", "ts")]
    return rows.with_columns(times).rename({"type": "op"}).select(OUTPUT.names).to_arrow().cast(OUTPUT)
