"""DuckDB: from_json with a structure of what is asked for, unnest, casts; one thread, one connection."""

import functools

import duckdb
import pyarrow as pa

from peers import COLUMNS, OUTPUT, cast

ROW = "{" + ",".join(f'"{name}":"VARCHAR"' for name in COLUMNS.names) + "}"
MESSAGE = f'{{"type":"VARCHAR","es":"BIGINT","ts":"BIGINT","data":[{ROW}]}}'
TYPES = {
    "id": "BIGINT",
    "user_id": "BIGINT",
    "status": "TINYINT",
    "quantity": "INTEGER",
    "total": "DECIMAL(10,2)",
    "shipped_on": "DATE",
    "placed_at": "TIMESTAMP",
    "updated_at": "TIMESTAMP",
}
TYPED = ", ".join(f"row.{name}::{TYPES.get(name, 'VARCHAR')} AS {name}" for name in COLUMNS.names)
QUERY = f"""
    WITH parsed AS (SELECT from_json(decode(value), '{MESSAGE}') AS message FROM messages),
         rows AS (SELECT message.type AS op, make_timestamp(message.es * 1000) AS es,
                         make_timestamp(message.ts * 1000) AS ts, unnest(message.data) AS row FROM parsed)
    SELECT op, es, ts, {TYPED} FROM rows
"""


@functools.cache
def connection():
    return duckdb.connect(config={"threads": 1})


def decode(values):
    database = connection()
    database.register("messages", pa.table({"value": values}))
    result = database.sql(QUERY).to_arrow_table()
    return pa.table([cast(result[field.name], field.type) for field in OUTPUT], schema=OUTPUT)
