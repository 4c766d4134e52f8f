"""Rows that are older than statements: the columns and values that MySQL gave them."""

import pyarrow as pa

from lake_topic import canal
from towpath.lakehouse.following.carried_rows import CarriedReader
from towpath.lakehouse.reading.changes import COLUMNS, READ, ChangeDecoder, change_schema
from towpath.lakehouse.statements import Column

TYPES = {"id": "int", "v": "varchar(9)"}
NOW = pa.struct({"id": pa.int32(), "w": pa.string(), "c": pa.decimal128(9, 2), "d": pa.string(), "dropped": pa.int32()})


def carried(*messages, declared="id int, v string", added=()):
    """What changes are after `RENAME COLUMN v TO w`, with the columns of all parts of the batch."""
    decoder = ChangeDecoder("canal-json", declared, {"table": "a"}, ("shop", "a"))
    names = {one.name: {"v": "w"}.get(one.name, one.name) for one in decoder.schema.field(COLUMNS).type}
    reader = CarriedReader(decoder, change_schema(NOW), names, added)
    rows = pa.RecordBatch.from_pylist([{"topic": "k", **one} for one in messages], pa.schema(list(READ.items())))
    found = [one for part in reader.decode_batches(rows) for one in part.to_pylist()]
    return [(one["op"], one[COLUMNS], one["missing"]) for one in found]


def test_a_row_gets_the_columns_that_later_statements_gave_its_table():
    added = (Column("C", "decimal(9,2)", initial="7"), Column("d", "varchar(9)"))
    sent = canal(1, "INSERT", "a", {"id": "1", "v": "x"}, TYPES), canal(2, "DELETE", "a", {"id": "1", "v": "x"}, TYPES)
    row = {"id": 1, "w": "x", "c": 7, "d": None, "dropped": None}
    assert carried(*sent, added=added) == [("insert", row, ["dropped"]), ("delete", row, ["dropped"])]


def test_a_row_keeps_the_value_that_its_message_has():
    """Messages before and after ADD COLUMN may be of one part: both are in the second of the statement."""
    types = {**TYPES, "d": "varchar(9)"}
    sent = (
        canal(1, "INSERT", "a", {"id": "1", "v": "x"}, TYPES),
        canal(2, "INSERT", "a", {"id": "2", "v": "x", "d": None}, types),
        canal(3, "DELETE", "a", {"id": "3", "v": "x"}, TYPES),
    )
    found = carried(*sent, declared="id int, v string, d string", added=[Column("d", "varchar(9)", initial="e")])
    assert [one["d"] for _, one, _ in found] == ["e", None, None]
    assert [lacks for *_, lacks in found] == [["c", "dropped"], ["c", "dropped"], ["c", "d", "dropped"]]
