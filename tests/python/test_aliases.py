"""Columns that messages have under other names, such as those of before a RENAME COLUMN."""

import json
import re

import pyarrow as pa
import pytest

import all_golden
import towpath

DIALECTS = [dialect["name"] for dialect in towpath.dialects()]
SCHEMAS = {"debezium-avro": "shop.avsc", "ticdc-avro": "orders.avsc"}
INSERT = (
    b'{"database":"d","table":"t","type":"INSERT","isDdl":false,"mysqlType":null,"old":null,"data":[%s],"es":1,"ts":2}'
)


def writer_schemas(dialect):
    """The schemas of a dialect's captures, if their messages refer to some."""
    if dialect not in SCHEMAS:
        return {}
    found = json.loads((all_golden.GOLDEN / dialect / SCHEMAS[dialect]).read_text())
    return {"writer_schemas": {number: json.dumps(schema) for number, schema in found.items()}}


def tables(batch, dialect):
    """The first tables of a batch, as arguments of a decoder."""
    known = writer_schemas(dialect)
    found = towpath.Decoder(dialect, key="key", fields=["database", "table", "op"], **known).decode(batch).to_pylist()
    rows = dict.fromkeys((row["database"], row["table"]) for row in found if row["op"] in ("insert", "update"))
    names = [(re.escape(database), re.escape(table)) for database, table in list(rows)[:3] if table]
    return [{"database": database, "table": table, **known} for database, table in names]


def schema_of(batch, dialect, names):
    """The declared columns, or else those of the row images, as text."""
    try:
        return towpath.infer_schema(batch, dialect, **names)
    except ValueError:
        images = towpath.Decoder(dialect, key="key", fields=["before", "after"], **names).decode(batch).to_pylist()
        found = dict.fromkeys(name for row in images for image in row.values() for name, _ in image or ())
        return pa.schema([(name, pa.string()) for name in found])


def renamed(schema):
    return pa.schema([one.with_name(f"now {one.name}") for one in schema])


def names_of(rows, *, now):
    """The columns of each row by their current names, and the missing ones; of errors only the kind."""
    prefix = "" if now else "now "
    for row in rows:
        cells = {prefix + name: value for name, value in (row["row"] or {}).items()}
        kind = row["_error"] and row["_error"]["kind"]
        yield row["_op"], row["_row"], cells, [prefix + name for name in row["_missing_columns"] or ()], kind


@pytest.mark.parametrize("dialect", DIALECTS)
def test_columns_of_other_names_have_the_same_values(dialect):
    compared = 0
    for capture in all_golden.captures(dialect):
        batch = capture.batch()
        for names in tables(batch, dialect):
            schema = schema_of(batch, dialect, names)
            aliases = {one.name: f"now {one.name}" for one in schema}
            options = {**names, "layout": "upsert", "row_column": "row", "key": "key"}
            options["fields"] = ["_op", "_row", "_missing_columns", "_error"]
            plain = towpath.Decoder(dialect, schema, **options).decode(batch).to_pylist()
            found = towpath.Decoder(dialect, renamed(schema), aliases=aliases, **options).decode(batch).to_pylist()
            assert list(names_of(found, now=True)) == list(names_of(plain, now=False)), (capture.name, names)
            compared += len(found)
    assert compared


def test_messages_of_both_names_and_their_row_images():
    messages = [INSERT % b'{"id":"1","name":"a"}', INSERT % b'{"id":"2","TITLE":"b"}', INSERT % b'{"id":"3"}']
    update = b'{"id":"1","name":"c"}],"old":[{"name":"a"}'
    messages.append((INSERT % update).replace(b"INSERT", b"UPDATE").replace(b'"old":null,', b"").replace(b"}]]", b"}]"))
    decoder = towpath.Decoder("canal-json", "id int, title string", aliases={"name": "title"}, case_sensitive=False)
    rows = decoder.decode(messages).to_pylist()
    titles = [(row["before"] or {}).get("title") for row in rows], [row["after"]["title"] for row in rows]
    assert titles == ([None, None, None, "a"], ["a", "b", None, "c"])
    assert [row["error"] for row in rows] == [None] * 4


@pytest.mark.parametrize(
    ("aliases", "problem"),
    [
        ({"id": "title"}, 'aliases: "id" is already a column of the schema or another alias'),
        ({"ID": "title"}, 'aliases: "ID" is already a column of the schema or another alias'),
        ({"a": "title", "A": "id"}, "is already a column of the schema or another alias"),
        ({"name": "heading"}, 'aliases: "heading" is not a column of the schema'),
        ({"name": 1}, "aliases"),
        ("name", "aliases"),
    ],
)
def test_aliases_that_name_no_column(aliases, problem):
    with pytest.raises((ValueError, TypeError), match=problem):
        towpath.Decoder("canal-json", "id int, title string", aliases=aliases, case_sensitive=False)
