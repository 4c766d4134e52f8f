"""Before images are the rows as they were, whatever share of a batch are updates and whichever images are asked for."""

import json
import random
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

import towpath

SCHEMA = (
    "id bigint, name string, total decimal(10,2), flag boolean, tags array<int>, raw binary, day date, `中文` string"
)
TYPES = {
    "id": "bigint",
    "name": "varchar(20)",
    "total": "decimal(10,2)",
    "flag": "tinyint(1)",
    "tags": "json",
    "raw": "blob",
    "day": "date",
    "中文": "text",
}
ZERO_DATE = "0000-00-00"
MAKERS = {
    "id": lambda randoms: str(randoms.randrange(-5, 10**12)),
    "name": lambda randoms: "".join(randoms.choices('ab "\\é中', k=randoms.randrange(40))),
    "total": lambda randoms: f"{randoms.randrange(-(10**6), 10**6) / 100:.2f}",
    "flag": lambda randoms: randoms.choice("01"),
    "tags": lambda randoms: json.dumps([randoms.randrange(100) for _ in range(randoms.randrange(4))]),
    "raw": lambda randoms: "".join(chr(randoms.randrange(256)) for _ in range(randoms.randrange(20))),
    "day": lambda randoms: randoms.choice([ZERO_DATE, "2021-10-07", "1999-12-31"]),
    "中文": lambda randoms: "".join(randoms.choices("甲乙丙丁", k=randoms.randrange(30))),
}
READ = {
    "day": lambda text: None if text == ZERO_DATE else date.fromisoformat(text),
    "id": int,
    "total": Decimal,
    "flag": "1".__eq__,
    "tags": json.loads,
    "raw": lambda text: text.encode("latin-1"),
}


def value(randoms, name):
    return None if randoms.random() < 0.15 else MAKERS[name](randoms)


def change(randoms, updates):
    """A message of one to three rows, and the rows before and after it."""
    kind = "UPDATE" if randoms.random() < updates else randoms.choice(["INSERT", "DELETE"])
    data, old = [], []
    for _ in range(randoms.randrange(1, 4)):
        data.append({name: value(randoms, name) for name in MAKERS})
        changed = [name for name in MAKERS if randoms.random() < 0.3] or ["id"]
        old.append({name: value(randoms, name) for name in randoms.sample(changed, len(changed))})
    message = {"data": data, "database": "s", "old": old if kind == "UPDATE" else None, "mysqlType": TYPES}
    before = {"INSERT": [None] * len(data), "DELETE": data}.get(
        kind, [row | was for row, was in zip(data, old, strict=True)]
    )
    text = json.dumps({**message, "table": "t", "type": kind}, ensure_ascii=False, separators=(",", ":"))
    return text, before, [None if kind == "DELETE" else row for row in data]


def read(row):
    if row is None:
        return None
    return {name: None if text is None else READ.get(name, str)(text) for name, text in row.items()}


@pytest.mark.parametrize("fields", [["before"], ["after", "before"], None])
@pytest.mark.parametrize("updates", [0, 0.1, 0.9, 1])
@pytest.mark.parametrize("seed", range(3))
def test_the_rows_before(seed, updates, fields):
    randoms = random.Random(f"{seed} {updates}")
    texts, before, after = zip(*(change(randoms, updates) for _ in range(400)), strict=True)
    decoder = towpath.Decoder("canal-json", SCHEMA, fields=fields)
    found = decoder.decode(pa.array(texts)).column("before").to_pylist()
    assert found == [read(row) for rows in before for row in rows]
    images = [*before] if fields == ["before"] else [*before, *after]
    zeros = sum(row is not None and row["day"] == ZERO_DATE for rows in images for row in rows)
    assert decoder.metrics["zero_dates"] == {"day": zeros}


@pytest.mark.parametrize("updates", [0.1, 0.9])
def test_the_rows_before_in_a_changelog(updates):
    randoms = random.Random(updates)
    texts, before, _ = zip(*(change(randoms, updates) for _ in range(400)), strict=True)
    rows = (
        towpath.Decoder("canal-json", SCHEMA, layout="changelog", mode="FAILFAST").decode(pa.array(texts)).to_pylist()
    )
    found = [
        {name: row[name] for name in MAKERS} for row in rows if row["_change_type"] in ("delete", "update_preimage")
    ]
    assert found == [read(row) for rows in before for row in rows if row is not None]


def omitting(randoms, old_first):
    """An update as Maxwell writes it with `output_nulls` off, and its rows."""
    before = {"id": 1} | {name: randoms.choice([None, "x", "y"]) for name in "abcde"}
    after = {name: randoms.choice([was, None, "z"]) if name != "id" else was for name, was in before.items()}
    data = {name: value for name, value in after.items() if value is not None}
    old = {name: was for name, was in before.items() if was not in (None, after[name])}
    images = {"old": old, "data": data} if old_first else {"data": data, "old": old}
    return {"database": "s", "table": "t", "type": "update", "ts": 1, "xid": 2} | images, before, after


@pytest.mark.parametrize("old_first", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_columns_that_maxwell_omits_as_null(seed, old_first):
    """A column in `old` that `data` lacks became NULL; of one in neither the message says nothing."""
    randoms = random.Random(seed)
    messages, before, after = zip(*(omitting(randoms, old_first) for _ in range(200)), strict=True)
    values = pa.array([json.dumps(message, separators=(",", ":")) for message in messages])
    names = list(before[0])
    # NULL in `before` is not sent: it has the value after the change.
    was = [
        {name: new[name] if old[name] is None else old[name] for name in names}
        for old, new in zip(before, after, strict=True)
    ]
    silent = [[name for name in names if not {name} & {*m["data"], *m["old"]}] or None for m in messages]
    schema = "id int, " + ", ".join(f"{name} string" for name in names[1:])

    def rows(schema, layout):
        return towpath.Decoder("maxwell-json", schema, layout=layout, mode="FAILFAST").decode(values).to_pylist()

    typed = rows(schema, "change")
    assert [(r["before"], r["after"], r["missing_columns"]) for r in typed] == list(
        zip(was, after, silent, strict=True)
    )
    upserts = rows(schema, "upsert")
    assert [({n: r[n] for n in names}, r["_missing_columns"]) for r in upserts] == list(zip(after, silent, strict=True))
    feed = [{n: r[n] for n in names} for r in rows(schema, "changelog") if r["_change_type"] == "update_postimage"]
    assert feed == list(after)
    texts = [dict(row["after"]) for row in rows(None, "change")]
    known = [
        {n: v and str(v) for n, v in new.items() if n not in (s or [])} for new, s in zip(after, silent, strict=True)
    ]
    assert texts == known


@pytest.mark.parametrize("order", [["data", "old"], ["old", "data"]])
@pytest.mark.parametrize("old", [{"a": "y"}, {"id": "0", "a": "y"}], ids=["changes", "row"])
def test_a_column_that_only_old_of_canal_has_is_an_error(order, old):
    """No encoder of this envelope omits a changed column, and `old` may be a whole row."""
    rows = {"data": [{"id": "1", "a": "x"}], "old": [old]}
    message = {"database": "s", "table": "t", "type": "UPDATE"}
    lacking = rows | {"data": [{"id": "1"}]}
    messages = [{name: m[name] for name in order} | message for m in [rows] * 20 + [lacking] + [rows]]
    values = [json.dumps(message, separators=(",", ":")) for message in messages]
    for layout, op in [("change", "op"), ("upsert", "_op")]:
        for schema in (None, "id int, a string") if layout == "change" else ("id int, a string",):
            found = towpath.Decoder("canal-json", schema, layout=layout).decode(values).to_pylist()
            assert [row[op] for row in found] == ["update"] * 20 + ["error", "update"]
            error = found[20]["error" if op == "op" else "_error"]
            assert (error["kind"], "data.a: is missing, although old has it" in error["message"]) == ("envelope", True)
