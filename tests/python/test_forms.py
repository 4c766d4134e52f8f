"""Forms of messages in other projects' tests, documents and issues, with the meaning that their owners state.

`tests/golden/forms/README.md` describes the files.
"""

import json
from base64 import b64decode
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import towpath

Form = dict[str, Any]
Row = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "golden" / "forms"
FORMS: list[Form] = [
    json.loads(line) for file in sorted(FOLDER.glob("*.jsonl")) for line in file.open(encoding="utf-8")
]
# Enough that the later ones are compared with the first instead of being read on their own.
COPIES = 4


def plain(value: Any) -> Any:
    """A value as the files write it."""
    match value:
        case Decimal():
            return f"{value:f}"
        case timedelta():
            return value // timedelta(microseconds=1)
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return f"0x{value.hex()}"
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case [(_, _), *_]:  # a map
            return {name: plain(item) for name, item in value}
        case list():
            return [plain(item) for item in value]
    return value


def bytes_of(form: Form, member: str) -> bytes | None:
    if f"{member}64" in form:
        return b64decode(form[f"{member}64"])
    return form[member].encode() if member in form else None


def decode(dialect: str, forms: list[Form], schema: str | None, options: dict[str, Any]) -> list[Row]:
    messages = pa.record_batch(
        {
            "key": pa.array([bytes_of(form, "key") for form in forms], pa.binary()),
            "value": pa.array([bytes_of(form, "message") for form in forms], pa.binary()),
            "index": range(len(forms)),
        }
    )
    rows: list[Row] = towpath.Decoder(dialect, schema, keep=["index"], **options).decode(messages).to_pylist()
    return rows


def stated(row: Row, expected: Row) -> Row:
    """What a row has where the form states something."""
    found = {name: plain(row[name]) for name in expected}
    if found.get("error"):
        found["error"] = found["error"]["kind"]
    if "source" in expected:
        found["source"] = {name: (found["source"] or {}).get(name) for name in expected["source"]}
    return found


def check(rows: list[Row], expected: list[Row]) -> None:
    expected = [{"error": None, **row} for row in expected]
    assert [stated(*pair) for pair in zip(rows, expected, strict=False)] == expected, rows
    assert len(rows) == len(expected), rows


def expected_rows(form: Form, by: str) -> list[Row]:
    rows: list[Row] = form["auto"] if by == "auto" and "auto" in form else form["rows"]
    return rows


@pytest.mark.parametrize("by", ["name", "auto"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form['dialect']}-{form['form']}")
def test_form(form: Form, by: str) -> None:
    dialect = "auto" if by == "auto" else form["dialect"]
    rows = decode(dialect, [form] * COPIES, form["schema"], form["options"])
    for copy in range(COPIES):
        check([row for row in rows if row["index"] == copy], expected_rows(form, by))


@pytest.mark.parametrize("by", ["name", "auto"])
@pytest.mark.parametrize("dialect", sorted({form["dialect"] for form in FORMS}))
def test_forms_do_not_change_their_neighbours(dialect: str, by: str) -> None:
    """All forms of a dialect in one batch, in two orders, give what each gives alone."""
    forms = [form for form in FORMS if form["dialect"] == dialect and form["schema"] is None]
    forms = [*forms, *reversed(forms)] * 2
    rows = decode("auto" if by == "auto" else dialect, forms, None, {"key": "key"})
    for index, form in enumerate(forms):
        if set(form["options"]) <= {"key"}:
            check([row for row in rows if row["index"] == index], expected_rows(form, by))


def test_forms_have_names_and_sources_of_their_own() -> None:
    names = [(form["dialect"], form["form"]) for form in FORMS]
    assert len(set(names)) == len(names)
    assert all(form["source"] for form in FORMS)
