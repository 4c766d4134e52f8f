"""Each scalar member of Debezium's envelope, in every form in which Debezium writes it.

The page "Debezium connector for MySQL" lists the members; other connectors add `schema`, TiCDC adds `commit_ts`. The
pages "New Record State Extraction" and "Exporting CloudEvents" define the forms. Each form gives the same columns.
"""

import json
import random
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

import towpath

MICROS = 1_714_979_289_123_456


def at(micros):
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)


# Member, its value, and the columns that have it; fields of the column `source` follow a dot.
MEMBERS = [
    ("op", "u", {"op": "update", "source.operation": "u"}),
    ("ts_ms", MICROS // 1000, {"produced_time": at(MICROS // 1000 * 1000)}),
    ("ts_us", MICROS, {"produced_time": at(MICROS)}),
    ("ts_ns", MICROS * 1000 + 789, {"produced_time": at(MICROS)}),
    ("source.version", "3.2.1.Final", {"source.version": "3.2.1.Final"}),
    ("source.connector", "mysql", {"source.connector": "mysql"}),
    ("source.name", "srv", {}),
    ("source.ts_ms", MICROS // 1000 - 5, {"event_time": at(MICROS // 1000 * 1000 - 5000)}),
    ("source.ts_us", MICROS - 5, {"event_time": at(MICROS - 5)}),
    ("source.ts_ns", (MICROS - 5) * 1000 + 789, {"event_time": at(MICROS - 5)}),
    ("source.snapshot", "false", {}),
    ("source.db", "shop", {"database": "shop"}),
    ("source.schema", "sales", {"schema": "sales"}),
    ("source.table", "orders", {"table": "orders"}),
    ("source.server_id", 223344, {"source.server_id": 223344}),
    ("source.gtid", "3e11fa47:23", {"source.gtid": "3e11fa47:23"}),
    ("source.file", "binlog.000007", {"source.file": "binlog.000007"}),
    ("source.pos", 4711, {"source.position": 4711}),
    ("source.row", 2, {}),
    ("source.thread", 7, {}),
    ("source.query", "UPDATE t SET n = 1", {}),
    ("source.sequence", "[1]", {}),
    ("source.commit_ts", 447984099186180098, {"source.commit_ts": 447984099186180098}),
    ("transaction.id", "file=binlog.000007,pos=4", {"source.transaction_id": "file=binlog.000007,pos=4"}),
    ("transaction.total_order", 1, {}),
    ("transaction.data_collection_order", 1, {}),
]
EXPECTED = {path: columns for path, _, columns in MEMBERS}


def envelope(members):
    """An envelope with these members, by their paths."""
    message = {"before": None, "after": {"id": 1}}
    for path, value in members.items():
        record, _, name = path.rpartition(".")
        (message.setdefault(record, {}) if record else message)[name] = value
    return message


def backwards(value):
    return {name: backwards(value[name]) for name in reversed(value)} if isinstance(value, dict) else value


def escaped(message):
    """The text of a message in which each name has escapes."""
    if not isinstance(message, dict):
        return json.dumps(message)
    names = {name: "".join(f"\\u{ord(letter):04x}" for letter in name) for name in message}
    return "{" + ",".join(f'"{names[name]}":{escaped(value)}' for name, value in message.items()) + "}"


def flat(members, *, is_short=False):
    """A flattened row: `add.fields` names members with their record, or without it."""
    own = ("ts_ms", "ts_us", "ts_ns")  # those in `source` need the record
    short = {path: path.removeprefix("source.") for path in members}
    short = {path: path if name in own or not is_short else name for path, name in short.items()}
    return {"id": 1} | {"__" + short[path].replace(".", "_"): value for path, value in members.items()}


ATTRIBUTES = {"transaction.id": "txid", "op": "op"}


def cloud_event(members):
    """A CloudEvent: attributes for the operation, the transaction and `source`; all else is in `data`."""
    of_source = {path: path.removeprefix("source.").replace("_", "") for path in members if path.startswith("source.")}
    names = of_source | {path: ATTRIBUTES[path] for path in members if path in ATTRIBUTES}
    attributes = {f"iodebezium{name}": str(members[path]) for path, name in names.items()}
    data = envelope({path: value for path, value in members.items() if path not in names})
    return {"id": "name:srv", "source": "/debezium/mysql/srv", "specversion": "1.0", **attributes, "data": data}


def avro_schema(value, name):
    """The schema of a record with these members."""
    if not isinstance(value, dict):
        return "long" if isinstance(value, int) else "string" if value is not None else "null"
    fields = [{"name": member, "type": avro_schema(one, f"{name}_{member}")} for member, one in value.items()]
    return {"type": "record", "name": name, "fields": fields}


def zigzag(number):
    """A positive long in Avro."""
    number, out = number * 2, b""
    while number > 127:
        number, out = number >> 7, out + bytes([number & 127 | 128])
    return out + bytes([number])


def avro(value):
    """The datum of such a record."""
    if isinstance(value, dict):
        return b"".join(map(avro, value.values()))
    if isinstance(value, int):
        return zigzag(value)
    return b"" if value is None else zigzag(len(value)) + value.encode()


JSON_FORMS = {
    "envelope": lambda members: json.dumps(envelope(members)),
    "in a wrapper": lambda members: json.dumps({"schema": None, "payload": envelope(members)}),
    "sorted": lambda members: json.dumps(envelope(members), sort_keys=True),
    "backwards": lambda members: json.dumps(backwards(envelope(members))),
    "indented": lambda members: json.dumps(envelope(members), indent=2),
    "escaped": lambda members: escaped(envelope(members)),
    "flat": lambda members: json.dumps(flat(members)),
    "flat, without records": lambda members: json.dumps(flat(members, is_short=True)),
    "flat, sorted": lambda members: json.dumps(flat(members), sort_keys=True),
    "cloud event": lambda members: json.dumps(cloud_event(members)),
}
AVRO_FORMS = {"avro envelope": (envelope, "s.d.t.Envelope"), "avro flat": (flat, "s.d.t.Value")}


def decode(form, members):
    """Three copies, since the later ones are compared with the first."""
    if form in JSON_FORMS:
        decoder = towpath.Decoder("debezium-json", "id bigint")
        return decoder.decode([JSON_FORMS[form](members).encode()] * 3).to_pylist()
    make, name = AVRO_FORMS[form]
    schemas = {7: json.dumps(avro_schema(make(members), name))}
    decoder = towpath.Decoder("debezium-avro", "id bigint", writer_schemas=schemas)
    return decoder.decode(pa.array([b"\0\0\0\0\x07" + avro(make(members))] * 3, pa.binary())).to_pylist()


def check(form, members):
    expected = {column: value for path in members for column, value in EXPECTED[path].items()}
    for time, record in (("produced_time", ""), ("event_time", "source.")):
        # The finest of the times that there are.
        finest = [f"{record}{name}" for name in ("ts_ns", "ts_us", "ts_ms") if f"{record}{name}" in members]
        expected |= EXPECTED[finest[0]] if finest else {time: None}
    for row in decode(form, members):
        assert (row["error"], row["after"]) == (None, {"id": 1})
        found = {column: row["source"][column[7:]] if column[:7] == "source." else row[column] for column in expected}
        assert found == expected, form


ALL = {path: value for path, value, _ in MEMBERS}


@pytest.mark.parametrize("form", [*JSON_FORMS, *AVRO_FORMS])
def test_a_member_gives_the_same_columns_in_each_form(form):
    check(form, ALL)
    for path, value in ALL.items():
        # A message without `op` is no envelope; without a table its rows have none.
        check(form, {"op": "u", "source.table": "orders", path: value})


def test_random_members_give_the_same_columns_in_each_form():
    rng = random.Random(20261129)
    for _ in range(200):
        paths = rng.sample([*ALL], rng.randint(1, len(ALL)))
        members = {path: ALL[path] for path in ALL if path in {*paths, "op"}}
        for form in [*JSON_FORMS, *AVRO_FORMS]:
            check(form, members)


def union(value):
    """The value as console consumers print it, if its schema is a union."""
    return {"long" if isinstance(value, int) else "string": value}


@pytest.mark.parametrize("form", ["envelope", "sorted", "escaped", "flat", "flat, without records"])
def test_a_printed_member_is_refused_in_each_form(form):
    """A member without a column is skipped in an envelope."""
    for path, value in ALL.items():
        if EXPECTED[path] or "flat" in form:
            row = decode(form, {"op": "u", "source.table": "orders", path: union(value)})[0]
            assert (row["op"], row["error"]["kind"]) == ("error", "envelope"), path
            assert "read the topic itself with dialect debezium-avro" in row["error"]["message"]
