"""The truth of Debezium's captures. They are of the same binlogs as canal's, so they share canal's truth.

Values that the connector changes are listed here with what it sends instead and the reason: the captures'
notes name each of them, and Debezium's documentation or code says why.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import server_truth
import truth
from fidelity import ROOT, unique
from server_truth import Column, Server, Table

Event = dict[str, Any]
Destroyed = tuple[str, Any]

# The connectors' settings, by the names of the captures' folders. Messages do not contain them.
SETTINGS = {
    "default": {
        "decimal_handling_mode": "precise",
        "time_precision_mode": "adaptive_time_microseconds",
        "binary_handling_mode": "bytes",
        "bigint_unsigned_handling_mode": "long",
    },
    "stringconnect": {
        "decimal_handling_mode": "string",
        "time_precision_mode": "connect",
        "binary_handling_mode": "hex",
        "bigint_unsigned_handling_mode": "precise",
    },
}


@dataclass(frozen=True)
class Capture:
    """One file, its producer, and what its messages contain."""

    server: Server
    settings: dict[str, str]
    has_schemas: bool = True
    is_snapshot: bool = False

    @property
    def is_connect(self) -> bool:
        """Whether times are Connect's own types, which have milliseconds."""
        return self.settings["time_precision_mode"] == "connect"


def load(server: str) -> Server:
    """The truth of `mysql` or `maria`."""
    folder = ROOT / "tests" / "golden" / "canal-json" / f"canal-{server}"
    return server_truth.load(folder, is_maria=server == "maria")


def tables_and_versions(server: Server) -> Iterator[tuple[Table, int]]:
    """Every table, once for each definition under which rows were written."""
    for table, events in sorted(server.events.items()):
        for version in unique(server.version(table, event["seq"]) for event in events):
            yield table, version


def split_key_changes(server: Server, events: list[Event]) -> Iterator[Event]:
    """Debezium sends an update of the key as a delete of the old row, a tombstone and a create of the new row."""
    for event in events:
        if event["op"] == "update" and _moves(server, event):
            yield event | {"op": "delete", "after": None}
            yield event | {"op": "insert", "before": None}
        else:
            yield event


def _moves(server: Server, event: Event) -> bool:
    table = event["db"], event["table"]
    columns = server.versions[table][server.version(table, event["seq"])]
    return any(event["before"][column.name] != event["after"][column.name] for column in columns if column.in_key)


def destroyed(capture: Capture, table: str, column: Column, text: str | None) -> Destroyed | None:
    """For a value that Debezium 3.5 changes: why, and what it sends instead."""
    if text is None:
        return DEFAULTED.get((table, column.name))
    rule = RULES.get(truth.base(column.declared))
    return rule and rule(capture, column, text)


# JsonConverter's replace.null.with.default is true by default.
DEFAULTED = {("gen", "a"): ("NULL, sent as the column's default", 7)}

SIGN_BIT = 2**63


def _bigint(capture: Capture, column: Column, text: str) -> Destroyed | None:
    """`bigint.unsigned.handling.mode=long` is a signed long. With the declared type the value can be restored."""
    is_long = capture.settings["bigint_unsigned_handling_mode"] == "long"
    if is_long and capture.has_schemas and int(text) >= SIGN_BIT:
        return "BIGINT UNSIGNED from 2^63 on, negative in mode long", Decimal(int(text) - 2 * SIGN_BIT)
    return None


TWO_DIGITS = 100  # years


def _date(capture: Capture, column: Column, text: str) -> Destroyed | None:
    """`enable.time.adjuster` interprets the years 1 to 99 as two-digit years, although MySQL did not."""
    if "00" in (text[5:7], text[8:10]):
        return None
    year = int(text[:4])
    if year == 0 and capture.is_snapshot:
        year = 1  # MySQL's driver knows no year 0
    if 0 < year < TWO_DIGITS:
        adjusted = f"{year + (2000 if year < 70 else 1900)}{text[4:]}"
        return "year of two digits, adjusted", truth.value(column.declared, adjusted)
    return None


def _datetime(capture: Capture, column: Column, text: str) -> Destroyed | None:
    if lost := _date(capture, column, text):
        return lost
    if capture.is_connect and _micros(text) % 1000:
        cut = text[: text.index(".") + 4]
        return "microseconds, cut by Connect's milliseconds", truth.clock(cut)
    return None


def _timestamp(capture: Capture, column: Column, text: str) -> Destroyed | None:
    if truth.is_zero(text) and not capture.is_snapshot:
        return "zero TIMESTAMP, sent as 1970", truth.instant("1970-01-01 00:00:00")
    return None


def _time(capture: Capture, column: Column, text: str) -> Destroyed | None:
    if not capture.is_connect:
        return None
    span = truth.span(text)
    if not timedelta(0) <= span < timedelta(days=1):
        return "TIME outside of a day, null in Connect's type", None
    if _micros(text) % 1000:
        return "microseconds, cut by Connect's milliseconds", span - timedelta(microseconds=_micros(text) % 1000)
    return None


def _micros(text: str) -> int:
    """The fraction of a clock or time."""
    found = re.search(r"\.(\d+)$", text)
    return int(found[1].ljust(6, "0")) if found else 0


def _year(capture: Capture, column: Column, text: str) -> Destroyed | None:
    """The binlog has years since 1900, and 0 for year 0. The snapshot's 0 is interpreted as a two-digit year."""
    sent = 2000 if capture.is_snapshot else 1900
    return (f"YEAR 0, sent as {sent}", sent) if int(text) == 0 else None


def _enum(capture: Capture, column: Column, text: str) -> Destroyed | None:
    """The stream's labels are those of the schema's parameter, whose commas within a label have a backslash."""
    if capture.is_snapshot or "," not in text:
        return None
    return "ENUM with a comma, sent with a backslash", text.replace(",", r"\,")


def _json(capture: Capture, column: Column, text: str) -> Destroyed | None:
    """The stream's JSON is formatted by the connector, the snapshot's by the server."""
    if capture.is_snapshot or OPAQUE[0][0] not in text:
        return None
    for of_server, of_connector in OPAQUE:
        text = text.replace(of_server, of_connector)
    return "JSON with opaque values, printed by Debezium", truth.Json(text)


# A BLOB, a negative TIME and a DATETIME within JSON.
OPAQUE = [
    ("base64:type15:AQL/", "AQL/"),
    ("-12:13:14.000005", "13:0-14:0-15.00000-5"),
    ("04:05:06.123000", "04:05:06.123"),
]


def _uuid(capture: Capture, column: Column, text: str) -> Destroyed | None:
    """MariaDB's binlog has the bytes without trailing zeros; the connector pads them at the front."""
    digits = text.replace("-", "")
    stored = bytes.fromhex(digits).rstrip(b"\0").rjust(16, b"\0").hex()
    if capture.is_snapshot or stored == digits:
        return None
    groups = (stored[:8], stored[8:12], stored[12:16], stored[16:20], stored[20:])
    return "UUID that ends in zeros, moved", "-".join(groups)


Rule = Callable[[Capture, Column, str], Destroyed | None]
RULES: dict[str, Rule] = {
    "bigint": _bigint,
    "date": _date,
    "datetime": _datetime,
    "timestamp": _timestamp,
    "time": _time,
    "year": _year,
    "enum": _enum,
    "json": _json,
    "uuid": _uuid,
}
