"""Zero dates that become null are counted, by column, whichever reader reads them and whatever the layout."""

import json
import random

import pyarrow as pa
import pytest

import towpath

SCHEMA = "id int, day date, at timestamp_ntz, instant timestamp, told string"
TYPES = {"id": "int", "day": "date", "at": "datetime", "instant": "timestamp", "told": "datetime"}
DATES = ("day", "at", "instant", "told")


def cell(randoms, column):
    """A text of MySQL, and whether it is a zero date: its month or its day is zero."""
    year, month, day = randoms.choice([0, 2021]), randoms.choice([0, 10]), randoms.choice([0, 7])
    if randoms.random() < 0.1:
        return None, False
    if month and day:
        year = 2021
    text = f"{year:04}-{month:02}-{day:02}" + ("" if column == "day" else " 00:00:00")
    return text, not (month and day)


def message(randoms, kind, counts):
    """A change of one row, whose zero dates are added to the counts of each image."""
    images = []
    for _ in range(2 if kind == "UPDATE" else 1):
        cells = {column: cell(randoms, column) for column in DATES}
        images.append({"id": "1"} | {column: text for column, (text, _) in cells.items()})
        for column, (_, is_zero) in cells.items():
            counts[column] = counts.get(column, 0) + is_zero
    old = [images[1]] if kind == "UPDATE" else None
    return json.dumps(
        {
            "data": [images[0]],
            "old": old,
            "database": "s",
            "table": "t",
            "type": kind,
            "mysqlType": TYPES,
            "isDdl": False,
        }
    )


@pytest.mark.parametrize("layout", ["change", "changelog"])
@pytest.mark.parametrize("templates", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_zero_dates_are_counted(seed, templates, layout):
    randoms, counts = random.Random(seed), {}
    values = [message(randoms, randoms.choice(["INSERT", "UPDATE", "DELETE"]), counts) for _ in range(50)]
    # One message in a batch is never read by a template.
    batches = [values] if templates else [[value] for value in values]
    decoder = towpath.Decoder("canal-json", SCHEMA, layout=layout)
    for batch in batches:
        rows = decoder.decode(pa.array(batch)).to_pylist()
        assert all((row.get("error") or row.get("_error")) is None for row in rows)
    assert decoder.metrics["zero_dates"] == {column: count for column, count in counts.items() if count}


@pytest.mark.parametrize(
    ("zero_date", "counted"), [("null", {"day": 1, "told": 1}), ("text", {"day": 1}), ("error", {})]
)
def test_only_nulls_are_counted(zero_date, counted):
    row = {"id": "1", "day": "0000-00-00", "at": None, "told": "0000-00-00 00:00:00"}
    value = json.dumps({"data": [row], "database": "s", "table": "t", "type": "INSERT", "mysqlType": TYPES})
    decoder = towpath.Decoder("canal-json", SCHEMA, zero_date=zero_date)
    decoder.decode(pa.array([value]))
    assert decoder.metrics["zero_dates"] == counted


def test_dates_in_json_and_in_upsert_are_counted():
    row = {"id": "1", "day": "0000-00-00", "j": '{"day": "0000-00-00", "all": ["0000-00-00", "2021-01-01"]}'}
    value = json.dumps(
        {"data": [row], "database": "s", "table": "t", "type": "INSERT", "mysqlType": {"day": "date", "j": "json"}}
    )
    schema = "id int, day date, j struct<day: date, `all`: array<date>>"
    for layout in ("change", "upsert"):
        decoder = towpath.Decoder("canal-json", schema, layout=layout)
        decoder.decode(pa.array([value, value]))
        assert decoder.metrics["zero_dates"] == {"day": 2, "j": 4}


def test_dates_in_lists_are_counted_before_rows_that_are_null():
    """The batch has more than a chunk of messages, whose columns are not filled up at its end."""
    message = {"data": [{"id": "1", "days": '["0000-00-00"]'}], "database": "s", "table": "t", "type": "INSERT"}
    deleted = message | {"data": [{"id": "1", "days": "[]"}], "type": "DELETE"}
    decoder = towpath.Decoder("canal-json", "id int, days array<date>")
    decoder.decode(pa.array([json.dumps(message)] * 3_000 + [json.dumps(deleted)]))
    assert decoder.metrics["zero_dates"] == {"days": 3_000}
