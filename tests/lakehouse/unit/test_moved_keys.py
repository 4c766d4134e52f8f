"""Updates of a key that messages do not declare: a delete of the old key, and an insert of the new one."""

import json
import random

import pyarrow as pa
import pytest

from towpath.lakehouse.reading.changes import READ, ChangeDecoder

TYPES = {"id": "int", "code": "varchar(9)", "v": "decimal(9,2)"}


def canal(kind, row, old=None, keys=None):
    """A message of canal."""
    return {"type": kind, "data": [row], "old": [old] if old else None, "mysqlType": TYPES, "pkNames": keys}


def maxwell(kind, row, old=None, keys=None):
    """A message of Maxwell, which declares no key by default."""
    return {"type": kind.lower(), "data": row, "ts": 1_700_000_000, **({"old": old} if old else {})}


def decoded(messages, dialect, keys, schema="id int, code string, v decimal(9,2)"):
    """The changes as a worker makes them, by their order."""
    values = [json.dumps({"database": "shop", "table": "t", **one}).encode() for one in messages]
    columns = {"value": pa.array(values, pa.binary()), "offset": pa.array(range(len(values)), pa.int64())}
    empty = {name: pa.nulls(len(values), kind) for name, kind in READ.items()}
    batch = pa.record_batch(empty | columns, pa.schema(list(READ.items())))
    decoder = ChangeDecoder(dialect, schema, {"table": "t"}, ("shop", "t"), keys)
    rows = [row for part in decoder.decode_batches(batch) for row in part.to_pylist()]
    return sorted(rows, key=lambda row: (row["offset"], row["row"], row["step"]))


def text(row):
    return {name: value if value is None else str(value) for name, value in row.items()}


@pytest.mark.parametrize("dialect", ["canal-json", "maxwell-json"])
@pytest.mark.parametrize("keys", [["code"], ["CODE"], ["code", "v"]])
@pytest.mark.parametrize("seed", range(5))
def test_random_updates_of_a_key(dialect, keys, seed):
    rng, message = random.Random(seed), canal if dialect == "canal-json" else maxwell
    names = [name.lower() for name in keys]
    source, messages = {}, []

    def key_of(row):
        return tuple(str(row[name]) for name in names)

    def row():
        return {"id": str(rng.randrange(9)), "code": rng.choice("abcd"), "v": rng.choice(["1.50", "2.00"])}

    for _ in range(60):
        new = row()
        if source and rng.random() < 0.7:
            old = source.pop(rng.choice(sorted(source)))
            new = old if rng.random() < 0.2 or key_of(new) in source else new
            changed = {name: value for name, value in old.items() if new[name] != value}
            messages.append(message("UPDATE", new, changed) if changed else message("DELETE", old))
            source |= {key_of(new): new} if changed else {}
        elif key_of(new) not in source:
            source[key_of(new)] = new
            messages.append(message("INSERT", new))
    found = {}
    for one in decoded(messages, dialect, keys):
        columns = text(one["columns"])
        key = key_of(columns)
        if one["op"] == "delete":
            del found[key]
        else:
            assert (one["op"] == "insert") is (key not in found)
            found[key] = columns
    assert found == source


def test_what_the_messages_declare_is_not_split_again():
    moved = canal("UPDATE", {"id": "2", "code": "b", "v": "1"}, {"id": "1", "code": "a"}, keys=["id"])
    rows = decoded([moved], "canal-json", ["code"])
    assert [(one["op"], one["columns"]["code"], one["step"]) for one in rows] == [
        ("delete", "a", 0),
        ("insert", "b", 1),
    ]


@pytest.mark.parametrize("declared", [True, False])
def test_a_moved_row_without_all_columns_is_not_a_row_of_nulls(declared):
    """With binlog_row_image=MINIMAL the rest is in no message."""
    moved = canal("UPDATE", {"code": "b"}, {"code": "a"}, keys=["code"] if declared else None)
    gone, new = decoded([moved], "canal-json", [] if declared else ["code"])
    assert (gone["op"], gone["columns"]["code"], gone["key_only"]) == ("delete", "a", False)
    assert (new["op"], new["columns"]["code"], new["key_only"], new["partial"]) == ("insert", "b", True, False)
    assert json.loads(new["message"])["type"] == "UPDATE"


def test_a_cell_with_an_error_does_not_keep_the_old_row():
    moved = canal("UPDATE", {"id": "1", "code": "b", "v": "x"}, {"code": "a", "v": "1"})
    gone, new = decoded([moved], "canal-json", ["code"])
    assert (gone["op"], gone["columns"]["code"], gone["error"]) == ("delete", "a", None)
    assert (new["op"], new["error"]["column"]) == ("insert", "v")
