"""Alibaba canal reading real servers: every cell equals the result of SELECT before and after the statement."""

import json
import random
import re
from collections import Counter
from datetime import datetime, timezone

import pyarrow as pa
import pytest

import server_truth
import towpath
import truth
from canal_captures import JSON, PROTOBUF
from fidelity import Score, beside, lines, messages, objects, row_changes, unique
from golden_files import GOLDEN

CAPTURES = JSON | PROTOBUF
HASHED = ["canal-mysql", "canal-maria"]


def load(folder):
    return server_truth.load(GOLDEN / folder, is_maria="maria" in folder)


def zone(name):
    """The zone of canal's JVM, in which it prints a TIMESTAMP."""
    return {"time_zone": "Asia/Shanghai"} if "shanghai" in name else {}


def decoder_of(table, columns, dialect="canal-json", **options):
    database, name = map(re.escape, table)
    return towpath.Decoder(dialect, server_truth.schema(columns), database=database, table=name, **options)


def tables_and_versions(server):
    """Every table, once for each definition under which rows were written."""
    for table, events in sorted(server.events.items()):
        for version in unique(server.version(table, event["seq"]) for event in events):
            yield table, version


@pytest.mark.parametrize("name", CAPTURES)
def test_cells_of_both_images(name, score):
    capture = CAPTURES[name]
    server, array = load(capture.folder), capture.messages()
    for table, version in tables_and_versions(server):
        columns, events = server.versions[table][version], server.events[table]
        rows = decoder_of(table, columns, capture.dialect, **zone(name)).decode(array)
        for event, row in beside(events, rows, server.written_under(table, version)):
            compare(score, server, columns, event, row)
    score.check_all()


def test_a_wrong_zone_makes_wrong_cells_and_nothing_else():
    """The test itself: in another time zone the TIMESTAMP columns are wrong, and only they."""
    capture = CAPTURES["canal-maria-shanghai"]
    server, array, score = load(capture.folder), capture.messages(), Score()
    table, columns = ("types_a", "all_types"), server.versions["types_a", "all_types"]
    [columns] = columns.values()
    rows = row_changes(decoder_of(table, columns, time_zone="UTC").decode(array))
    for event, row in zip(server.events[table], rows, strict=True):
        compare(score, server, columns, event, row)
    assert score.total - score.right == len(score.wrong) > 100
    assert all(" column c_timestamp" in wrong for wrong in score.wrong)


def compare(score: Score, server, columns, event, row):
    """Counts one row change: its op, its key, no error, nothing missing, and both images."""
    place = f"seq {event['seq']} {event['db']}.{event['table']} {event['op']}"
    envelope = {
        "op": event["op"],
        "database": event["db"],
        "table": event["table"],
        "primary_key": None if event["table"] in UNIQUE_KEY else key_of(columns),
        "missing_columns": None,
        "error": None,
    }
    for field, want in envelope.items():
        score.cell(place, field, want, row[field])
    for image in ("before", "after"):
        score.image(f"{place} {image}", wanted(score, server, columns, event, image), row[image])


# MySQL describes the unique key of a table without primary key as if it were one.
UNIQUE_KEY = ("uk_only", "uk_copy")


def key_of(columns):
    return [column.name for column in columns if column.in_key] or None


def wanted(score, server, columns, event, image):
    """The typed values of an image, or what the producer sends instead."""
    texts, exact = event[image], (event.get("float_exact") or {}).get(image) or {}
    if texts is None:
        return None
    values = {}
    for column in columns:
        text = texts[column.name]
        if lost := server_truth.destroyed(server, column, text):
            reason, values[column.name] = lost
            score.producer_destroyed(reason)
        else:
            values[column.name] = truth.value(column.declared, text, exact.get(column.name))
    return values


@pytest.mark.parametrize("folder", HASHED)
def test_cells_of_rows_spread_over_partitions(folder, score):
    """With partitionHash, canal splits a message's rows by key; within a partition they keep their order."""
    server = load(folder)
    partitions = [messages(lines(GOLDEN / folder / f"mixed.flat_hash3.p{number}.jsonl.zst")) for number in range(3)]
    for table, version in tables_and_versions(server):
        columns, events = server.versions[table][version], server.events[table]
        decoder = decoder_of(table, columns)
        queues = [row_changes(decoder.decode(partition)) for partition in partitions]
        if score.same_length(".".join(table), events, [row for queue in queues for row in queue]):
            for event in events:
                row = next_row(server, columns, event, queues)
                if server.version(table, event["seq"]) == version:
                    compare(score, server, columns, event, row)
    score.check_all()


def next_row(server, columns, event, queues):
    """Takes the row of this event: the one among the partitions' next rows with the most correct cells."""
    known = [column for column in columns if column.name in (event["after"] or event["before"])]

    def rightness(queue):
        trial = Score()
        compare(trial, server, known, event, queue[0])
        return trial.right

    return max(filter(None, queues), key=rightness).pop(0)


REPLAYED = [("shop_a", "pkmove"), ("shop_a", "gen"), ("types_a", "all_types"), ("wide_a", "wide")]


@pytest.mark.parametrize("name", ["canal-mysql", "canal-maria", "protobuf-mysql", "protobuf-maria-raw"])
@pytest.mark.parametrize("table", REPLAYED, ids=".".join)
def test_upserts_in_the_order_of_their_sequence_give_the_final_table(name, table, score):
    """The rows are shuffled first, so `_sequence` alone tells their order; an update of a key removes the old row."""
    capture = CAPTURES[name]
    server, array = load(capture.folder), capture.messages()
    [columns] = server.versions[table].values()
    columns = [column for column in columns if column.declared != "float"]  # of which the final rows have six digits
    [key] = key_of(columns)
    decoder = decoder_of(table, columns, capture.dialect, layout="upsert", mode="FAILFAST")
    rows = decoder.decode(array).to_pylist()
    random.Random(1).shuffle(rows)
    held = {}
    for row in sorted(rows, key=lambda row: tuple(row["_sequence"].values())):
        held.pop(row[key], None)
        if row["_op"] in ("insert", "update"):
            held[row[key]] = row
    final = [
        entry["row"] for entry in objects(GOLDEN / capture.folder / "final_mixed.jsonl.zst") if of_table(entry, table)
    ]
    assert score.same_length(str(table), final, list(held))
    for texts in final:
        want = wanted(score, server, columns, {"row": texts}, "row")
        score.image(f"{table} {texts[key]}", want, held.get(want[key]))
    score.check_all()


def of_table(entry, table):
    return (entry["db"], entry["table"]) == table


@pytest.mark.parametrize("name", JSON)
def test_envelopes(name, score):
    """Names, times and statements of every message, compared with Python's JSON reader."""
    values = JSON[name].values()
    rows = iter(towpath.Decoder("canal-json").decode(messages(values)).to_pylist(maps_as_pydicts="strict"))
    for number, value in enumerate(values):
        message = json.loads(value)
        for index in range(len(message["data"] or [None])):
            compare_envelope(score, f"message {number}", message, index, next(rows))
    assert next(rows, None) is None
    score.check_all()


def compare_envelope(score, place, message, index, row):
    envelope = {
        "database": unquoted(message["database"]),
        "schema": None,
        "table": unquoted(message["table"]),
        "event_time": of_millis(message["es"]),
        "produced_time": of_millis(message["ts"]),
        "sql": message["sql"] if message["isDdl"] else None,
        "table_changes": None,
        "column_types": renamed(message["mysqlType"]),
        "jdbc_types": renamed(message["sqlType"]),
        "row": index,
        "error": None,
        "_corrupt_record": None,
    }
    for field, want in envelope.items():
        score.cell(place, field, want, row[field])
    source = {
        "dialect": "canal-json",
        "operation": message["type"],
        "message_id": message["id"],
        "gtid": message["gtid"] or None,
    }
    score.image(f"{place} source", dict.fromkeys(row["source"]) | source, row["source"])


def unquoted(name):
    """A name without the backticks that canal leaves around a quoted database, and doubled within names."""
    return name.removeprefix("`").removesuffix("`").replace("``", "`")


def renamed(types):
    return types and {unquoted(name): kind for name, kind in types.items()}


def of_millis(millis):
    return datetime.fromtimestamp(millis // 1000, timezone.utc).replace(microsecond=millis % 1000 * 1000)


# canal has no message for these, says its README: it parses the statement and finds no table that changed.
NO_MESSAGE = ("CREATE VIEW", "DROP VIEW", "ALTER DATABASE", "CREATE TEMPORARY", "DROP TEMPORARY")
# The server writes these to its binlog in another form.
REWRITTEN = ("DROP TABLE", "CREATE TABLE `shop_a`.ctas AS SELECT")


@pytest.mark.parametrize("name", CAPTURES)
def test_statements(name, score):
    """Every DDL statement that was sent is there, verbatim, except those named above."""
    capture = CAPTURES[name]
    server = load(capture.folder)
    decoder = towpath.Decoder(capture.dialect, database="[^c].*|charsets.*|`.*", fields=["op", "sql"])
    rows = decoder.decode(capture.messages()).to_pylist()
    found = Counter(row["sql"] for row in rows if row["op"] in ("ddl", "truncate", "query"))
    for statement in server.statements:
        sql = statement["sql"]
        if not sql.startswith(NO_MESSAGE + REWRITTEN) and "bulk_a" not in sql:
            score.count(found[sql] > 0, f"seq {statement['seq']}", "sql", sql, "no such statement")
            found[sql] -= 1
    score.check_all()
    assert all(re.match(r"DROP TABLE|CREATE TABLE `ctas`", sql) for sql in found.elements())


@pytest.mark.parametrize("name", ["canal-mysql", "canal-gtid", "protobuf-mysql", "protobuf-gtid"])
def test_inferred_types_are_those_of_the_declared_ones(name):
    """MariaDB is left out: its `json` is `longtext` for the server, and its DDL's integers have no width."""
    capture = CAPTURES[name]
    server, array = load(capture.folder), capture.messages()
    for table in server.events:
        [columns] = [*server.versions[table].values()][-1:]
        if len(server.versions[table]) == 1 and table[1] != "t_mix":  # which has a varchar of charset binary
            inferred = towpath.infer_schema(
                array, capture.dialect, database=re.escape(table[0]), table=re.escape(table[1])
            )
            assert inferred.equals(pa.schema([(column.name, inferable(column.declared)) for column in columns])), table


def inferable(declared):
    """A decimal that Spark cannot represent is a string."""
    kind = truth.asked(declared)
    return pa.string() if pa.types.is_decimal256(kind) else kind
