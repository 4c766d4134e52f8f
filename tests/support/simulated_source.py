"""A database that is simulated, and what canal would send of it: changes that captures of a quiet server lack.

Each table has a topic of several partitions, and a message is in the partition of its key. So a key that is changed
moves to another partition, and its old and new rows are ordered across partitions. Some statements wait for a lock:
their event time, which is that of the statement's start, is earlier than that of the change before. A column is added
meanwhile.
"""

import json
import random
import zlib
from typing import Any

from exactly_once import Case, Record, Row

PARTITIONS = 3
UNREADABLE = b"no JSON"
_TYPES = {"id": "int", "name": "varchar(40)", "count": "bigint unsigned"}
_START = 1_700_000_000_000


class Table:
    """A table, and the messages of its changes."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name = name
        self.rows: dict[int, Row] = {}
        self.records: list[Record] = []
        self._rng = rng
        self._types = dict(_TYPES)

    def change(self, at: int) -> None:
        """Change a row; `at` is the number of the change, of which there are four a second."""
        rng = self._rng
        key = rng.randrange(1, 60)
        if key not in self.rows:
            self._insert(at, key)
        elif (what := rng.random()) < 0.2:
            self._send(at, "DELETE", self.rows.pop(key))
        elif what < 0.4 and (new := rng.randrange(60, 120)) not in self.rows:
            self._move(at, key, new)
        elif what < 0.55 and key + 60 in self.rows:
            self._move(at, key + 60, key + 120)
        else:
            self._update(at, key, waited=rng.random() < 0.3)

    def add_column(self, at: int) -> None:
        """Add a column that is null in all rows."""
        self._types["note"] = "varchar(20)"
        for row in self.rows.values():
            row["note"] = None
        sql = f"ALTER TABLE {self.name} ADD COLUMN note varchar(20)"
        self._message(at, "ALTER", None, None, {"sql": sql, "isDdl": True}, 0)

    def _insert(self, at: int, key: int) -> None:
        self.rows[key] = {"id": key, **self._values(at)}
        self._send(at, "INSERT", self.rows[key])

    def _update(self, at: int, key: int, *, waited: bool) -> None:
        old = self.rows[key]
        self.rows[key] = {"id": key, **self._values(at)}
        self._send(at, "UPDATE", self.rows[key], old, seconds_waited=self._rng.randrange(1, 9) if waited else 0)

    def _move(self, at: int, key: int, new: int) -> None:
        if new in self.rows or key not in self.rows:
            return
        old = self.rows.pop(key)
        self.rows[new] = {**old, "id": new}
        self._send(at, "UPDATE", self.rows[new], old)

    def _values(self, at: int) -> Row:
        values: Row = {"name": f"客户 {at}", "count": 2**64 - at}
        return values if "note" not in self._types else {**values, "note": self._rng.choice([None, "", f"note {at}"])}

    def _send(self, at: int, kind: str, row: Row, old: Row | None = None, *, seconds_waited: int = 0) -> None:
        changed = old and {name: _text(value) for name, value in old.items() if row[name] != value}
        data = {name: _text(value) for name, value in row.items()}
        partition = zlib.crc32(str(row["id"]).encode()) % PARTITIONS
        more: dict[str, Any] = {"pkNames": ["id"], "mysqlType": self._types, "isDdl": False}
        self._message(at, kind, data, changed, more, partition, seconds_waited)

    def _message(
        self,
        at: int,
        kind: str,
        data: dict[str, Any] | None,
        old: dict[str, Any] | None,
        more: dict[str, Any],
        partition: int,
        seconds_waited: int = 0,
    ) -> None:
        message = {"database": "shop", "table": self.name, "type": kind, "id": 1 + at, "ts": _START + at * 250 + 40}
        message |= {"es": _START + (at // 4 - seconds_waited) * 1000, "data": data and [data], "old": old and [old]}
        value = json.dumps(message | more, ensure_ascii=False).encode()
        self.records.append(Record(self.name, None, value, partition))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def moved_keys(changes: int, tables: int, limit: int, seed: int, unreadable: int = 0) -> Case:
    """A case with so many changes of so many tables, and messages that cannot be read."""
    rng = random.Random(seed)
    simulated = [Table(f"moved_{number}", rng) for number in range(tables)]
    for at in range(changes):
        table = rng.choice(simulated)
        table.change(at)
        if at == changes // 2:
            for one in simulated:
                one.add_column(at)
    records = [record for table in simulated for record in table.records]
    for _ in range(unreadable):
        at = rng.randrange(len(records))
        records.insert(at, Record(records[at].topic, None, UNREADABLE, rng.randrange(PARTITIONS)))
    return Case(
        "canal-json",
        records,
        {f"shop.{table.name}": list(table.rows.values()) for table in simulated},
        {f"shop.{table.name}": ["id"] for table in simulated},
        limit=limit,
    )
