"""The truth of TiCDC's captures: the events that were passed to its encoder."""

import json
import struct
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import truth
from fidelity import lines

Table = tuple[str, str]
UNSIGNED = pa.decimal128(20, 0)


@dataclass(frozen=True)
class Naming:
    """What a capture, or the user, declares about enum, set and bit columns."""

    labels: bool  # whether members of enums and sets are known
    widths: bool  # whether the width of a bit column is known


NUMBERS = Naming(labels=False, widths=False)
LABELS = Naming(labels=True, widths=False)
DECLARED = Naming(labels=True, widths=True)


class Encoder:
    """Tables, and events in the order in which they were encoded."""

    def __init__(self, path: Path) -> None:
        self.tables: dict[Table, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        for line in lines(path):
            entry = json.loads(line)
            if isinstance(entry, list):
                self.events.append(self._of_bulk(entry))
            elif entry["msg"] == "SCHEMA":
                self.tables[entry["db"], entry["table"]] = entry
            else:
                self.events.append(entry)

    def _of_bulk(self, entry: list[Any]) -> dict[str, Any]:
        """The abbreviated lines of the bulk capture's one table."""
        [(db, table)] = self.tables
        op, commit_ts, row, old = entry
        return {"msg": "DML", "db": db, "table": table, "op": op, "commit_ts": commit_ts, "row": row, "old": old}

    def columns(self, table: Table) -> list[dict[str, Any]]:
        return self.tables[table]["cols"]

    def handle_key(self, table: Table) -> list[str]:
        """What identifies a row: the primary key, else the unique one."""
        return self.tables[table]["pk"] or self.tables[table]["uk"] or []


def clock_of(tso: int) -> datetime:
    """The physical part of a TiDB timestamp: milliseconds above 18 bits of a counter."""
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=tso >> 18)


def asked(column: dict[str, Any], naming: Naming) -> pa.DataType:
    """The type for the schema; a number if the message has no more information."""
    if column["kind"] in ("enum", "set"):
        return pa.string() if naming.labels else UNSIGNED
    if column["kind"] == "bit" and not naming.widths:
        return UNSIGNED
    return truth.asked(column["type"])


def value(column: dict[str, Any], raw: Any, naming: Naming) -> Any:
    """The value of a truth file's cell."""
    if isinstance(raw, dict):
        return _encoded(raw)
    if raw is None:
        return None
    if column["kind"] in ("enum", "set"):
        return _label(column, int(raw)) if naming.labels else Decimal(raw)
    if column["kind"] == "bit":
        return _bits(column["type"], int(raw)) if naming.widths else Decimal(raw)
    return truth.value(column["type"], raw)


def _encoded(raw: dict[str, str]) -> Any:
    """Text and bytes as hex, floats as their bits."""
    if "utf8" in raw:
        return bytes.fromhex(raw["utf8"]).decode()
    if "hex" in raw:
        return bytes.fromhex(raw["hex"])
    return struct.unpack(">f" if "f32" in raw else ">d", bytes.fromhex(raw["bits"]))[0]


def _label(column: dict[str, Any], number: int) -> str:
    members = column["elems"]
    if column["kind"] == "enum":
        return members[number - 1] if number else ""
    return ",".join(member for bit, member in enumerate(members) if number >> bit & 1)


def _bits(declared: str, number: int) -> Any:
    [width] = truth.arguments(declared)
    return bool(number) if width == 1 else number.to_bytes((width + 7) // 8, "big")
