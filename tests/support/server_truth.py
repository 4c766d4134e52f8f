"""The truth of the captures of real servers: row changes, declared types, statements."""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import truth
from fidelity import lines, objects

Table = tuple[str, str]


@dataclass(frozen=True)
class Column:
    """A column as the server described it."""

    name: str
    declared: str
    charset: str
    in_key: bool


@dataclass
class Server:
    """The contents of one server."""

    is_maria: bool
    events: dict[Table, list[dict[str, Any]]]
    statements: list[dict[str, Any]]
    versions: dict[Table, dict[int, list[Column]]] = field(default_factory=lambda: defaultdict(dict))

    def version(self, table: Table, seq: int) -> int:
        """The table's last definition at this point of the history."""
        return max(at for at in self.versions[table] if at <= seq)

    def written_under(self, table: Table, version: int) -> Callable[[dict[str, Any]], bool]:
        """Whether an event was written under a definition of its table."""
        return lambda event: self.version(table, event["seq"]) == version


def load(folder: Path, is_maria: bool) -> Server:
    """Reads a folder of truth files."""
    events = defaultdict(list)
    for line in lines(folder / "truth.jsonl.zst"):
        event = json.loads(line)
        events[event["db"], event["table"]].append(event)
    server = Server(is_maria, dict(events), objects(folder / "ddl.jsonl"))
    for entry in objects(folder / "columns.jsonl"):
        column = Column(entry["column"], entry["type"], entry["charset"] or "", entry["key"] == "PRI")
        server.versions[entry["db"], entry["table"]].setdefault(entry["at_seq"], []).append(column)
    return server


def schema(columns: list[Column]) -> pa.Schema:
    """The types that hold every value of these columns."""
    return pa.schema([(column.name, truth.asked(column.declared)) for column in columns])


# Python's names of MySQL's character sets that canal reads as if they were UTF-8.
CODECS = {
    "gbk": "gbk",
    "gb2312": "gb2312",
    "gb18030": "gb18030",
    "big5": "big5",
    "sjis": "shift_jis",
    "latin1": "cp1252",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
}


def destroyed(server: Server, column: Column, text: str | None) -> tuple[str, Any] | None:
    """For a value that canal 1.1.8 changes: why, and what it sends instead.

    canal decodes every text with `canal.instance.connectionCharset`, UTF-8, whatever the column's charset is.
    """
    if text is None:
        return None
    word = truth.base(column.declared)
    if word in ("enum", "set"):
        return None  # sent as numbers; the labels are those of the DDL
    if column.charset in CODECS and text.encode(CODECS[column.charset]) != text.encode():
        return f"read as UTF-8 by canal, but {column.charset}", _as_utf8(text.encode(CODECS[column.charset]))
    if column.name == "bn":
        stored = bytes.fromhex(text)
        return "read as UTF-8 by canal, but varchar of charset binary", _as_utf8(stored).encode()
    if word == "uuid":
        stored = bytes.fromhex(text.replace("-", "")).rstrip(b"\0")
        return "read as UTF-8 by canal, but the bytes of a uuid", _as_utf8(stored)
    return _destroyed_json(server, column, text)


def _destroyed_json(server: Server, column: Column, text: str) -> tuple[str, Any] | None:
    """JSON as canal writes it: MariaDB's text is decoded as Latin-1, MySQL's binary JSON is formatted by canal."""
    word_is_json = truth.base(column.declared) == "json"
    if server.is_maria and column.name in JSON_IN_DDL and not text.isascii():
        return "MariaDB's JSON, read as Latin-1 by canal", text.encode().decode("latin-1")
    if word_is_json and "\\u0000" in text:
        return "MySQL's JSON with NUL, left out by canal", text.replace("\\u0000", "")
    if word_is_json and OPAQUE[0][0] in text:
        return "MySQL's JSON with opaque values, printed by canal", truth.Json(_replaced(text, OPAQUE))
    return None


# canal prints a BLOB within JSON as text, and a DATE with a time of day.
OPAQUE = [('"base64:type15:AQL/"', '"\\u0001\\u0002\ufffd"'), ('"2020-02-03"', '"2020-02-03 00:00:00.000000"')]


def _replaced(text: str, pairs: list[tuple[str, str]]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text


# MariaDB says `longtext` of a column that the DDL, and so canal, calls `json`.
JSON_IN_DDL = {"c_json", "j", "g", "o_json"}


def _as_utf8(stored: bytes) -> str:
    return stored.decode("utf-8", errors="replace")
