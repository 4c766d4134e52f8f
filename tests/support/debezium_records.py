"""Records of a topic as Debezium writes them for databases that have schemas."""

import json

FIELDS = [{"field": "id", "type": "int32"}, *({"field": name, "type": "string", "optional": True} for name in "ab")]
IMAGES = [{"field": image, "type": "struct", "optional": True, "fields": FIELDS} for image in ("before", "after")]


def record(at, op, row, *, declared=True, schema="public", connector="postgresql"):
    source = {
        "connector": connector,
        "db": "shop",
        "schema": schema,
        "table": "t",
        "lsn": at,
        "ts_ms": 1_700_000_000_000 + at,
    }
    image = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    message = {**image, "source": source, "op": op, "ts_ms": 1_700_000_000_000 + at}
    if declared:
        message = {"schema": {"type": "struct", "fields": IMAGES}, "payload": message}
    return {
        "key": json.dumps({"id": row["id"]}).encode(),
        "value": json.dumps(message, separators=(",", ":")).encode(),
        "partition": 0,
        "offset": at,
    }


def row_of(key, text):
    return {"id": key, "a": text, "b": None}


def schema_change(at, *changes, sql=None, schema="dbo", connector="sqlserver", table="t", partition=1):
    """A record of the topic of schema changes: pairs of a type and a table's identifier, such as `"shop"."dbo"."t"`."""
    source = {"connector": connector, "db": "shop", "schema": schema, "table": table, "ts_ms": 1_700_000_000_000 + at}
    listed = [{"type": kind, "id": identifier, "table": None} for kind, identifier in changes]
    message = {"source": source, "ts_ms": source["ts_ms"], "databaseName": "shop", "schemaName": schema, "ddl": sql}
    return {
        "value": json.dumps({**message, "tableChanges": listed}).encode(),
        "partition": partition,
        "offset": at,
    }
