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
