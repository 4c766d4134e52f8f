"""A database whose tables are created, emptied, dropped, altered and migrated, and what canal sends of it.

canal sends the rows to the partition of their key, and all statements to partition 0. So nothing but time and canal's
batch orders a statement and a row, and both may be the same. The time is that of the start: whatever waited for a lock
is later in the binlog than its time says.
"""

import json
import random
import zlib
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

PARTITIONS = 3
_START = 1_700_000_000_000

Message = dict[str, Any]

_CHANGES = {
    "int": ["bigint", "varchar(20)"],
    "bigint": ["int", "decimal(6,2)"],
    "decimal(6,2)": ["decimal(6,0)", "int"],
    "decimal(6,0)": ["decimal(6,2)"],
    "varchar(20)": ["varchar(40)"],
    "varchar(40)": ["varchar(20)"],
}
"""The types that a column may get."""


class Source:
    """The tables of a database, and the messages of their changes in the order of the binlog."""

    def __init__(self, rng: random.Random, *, has_batches: bool, migrates: bool) -> None:
        """Create a database without tables.

        Args:
            rng: Where the steps come from.
            has_batches: Whether messages have canal's batch and time, as those of other producers have not.
            migrates: Whether tables and columns are renamed and types change, and changes wait for locks. Such a target
                is often said to be stale.
        """
        self.tables: dict[str, dict[int, dict[str, Any]]] = {}
        self.messages: list[Message] = []
        self._columns: dict[str, dict[str, str]] = {}
        """The types of the columns of each table, but the key."""
        self._named = 0
        self._rng = rng
        self._has_batches, self._migrates = has_batches, migrates
        self._second, self._batch = 0, 1

    def step(self, name: str) -> None:
        """A random change of a table."""
        self._pass_time()
        if name not in self.tables:
            self._create(name)
            return
        changes = {
            self._write: 16,
            self._delete: 4,
            self._truncate: 1,
            self._recreate: 1,
            self._add_column: 2,
        }
        if self._migrates:
            changes |= {self._rename_column: 1, self._modify_column: 1, self._migrate: 1}
        self._rng.choices(list(changes), list(changes.values()))[0](name)

    def _pass_time(self) -> None:
        self._second += self._rng.random() < 0.4
        self._batch += self._rng.random() < 0.5

    def _create(self, name: str) -> None:
        self.tables[name], self._columns[name] = {}, {"v": "int"}
        self._statement(name, "CREATE", f"CREATE TABLE {name} (id int PRIMARY KEY, v int)")

    def _recreate(self, name: str) -> None:
        self._statement(name, "ERASE", f"DROP TABLE {name}")
        self._pass_time()
        self._create(name)

    def _truncate(self, name: str) -> None:
        self.tables[name].clear()
        self._statement(name, "TRUNCATE", f"TRUNCATE TABLE {name}")

    def _new_name(self) -> str:
        self._named += 1
        return f"c{self._named}"

    def _add_column(self, name: str) -> None:
        added, value = self._new_name(), self._rng.randrange(100)
        self._columns[name][added] = "int"
        for row in self.tables[name].values():
            row[added] = value
        self._statement(name, "ALTER", f"ALTER TABLE {name} ADD COLUMN {added} int DEFAULT {value}")

    def _rename_column(self, name: str) -> None:
        old, new = self._rng.choice(list(self._columns[name])), self._new_name()
        for row in [self._columns[name], *self.tables[name].values()]:
            row[new] = row.pop(old)
        self._statement(name, "ALTER", f"ALTER TABLE {name} RENAME COLUMN {old} TO {new}")

    def _modify_column(self, name: str) -> None:
        column = self._rng.choice(list(self._columns[name]))
        kind = self._rng.choice(_CHANGES[self._columns[name][column]])
        self._columns[name][column] = kind
        for row in self.tables[name].values():
            row[column] = _converted(row[column], kind)
        self._statement(name, "ALTER", f"ALTER TABLE {name} MODIFY COLUMN {column} {kind}")

    def _migrate(self, name: str) -> None:
        """What gh-ost does: a copy with one more column is filled, and takes the place of the table."""
        copy, away, added = f"_{name}_gho", f"_{name}_del", self._new_name()
        self._statement(copy, "ERASE", f"DROP TABLE IF EXISTS {copy}")
        self._statement(copy, "CREATE", f"CREATE TABLE {copy} LIKE {name}")
        self._columns[copy] = {**self._columns[name], added: "int"}
        self._statement(copy, "ALTER", f"ALTER TABLE {copy} ADD COLUMN {added} int DEFAULT 0")
        self._pass_time()
        rows = {key: {**row, added: 0} for key, row in self.tables[name].items()}
        for row in rows.values():
            self._row(copy, "INSERT", row, None)
        if rows and self._rng.random() < 0.5:  # a change meanwhile
            key = self._rng.choice(sorted(rows))
            self._row(name, "DELETE", self.tables[name][key], None)
            self._row(copy, "DELETE", rows.pop(key), None)
        self._pass_time()
        self._statement(name, "RENAME", f"RENAME TABLE {name} TO {away}, {copy} TO {name}")
        self.tables[name], self._columns[name] = rows, self._columns.pop(copy)
        if self._rng.random() < 0.5:
            self._statement(away, "ERASE", f"DROP TABLE IF EXISTS {away}")

    def _write(self, name: str) -> None:
        key = self._rng.randrange(8)
        old = self.tables[name].get(key)
        row = {"id": key} | {column: self._value(kind) for column, kind in self._columns[name].items()}
        self.tables[name][key] = row
        self._row(name, "UPDATE" if old else "INSERT", row, old)

    def _value(self, kind: str) -> Any:
        return _converted(Decimal(self._rng.randrange(10_000)) / 100, kind)

    def _delete(self, name: str) -> None:
        if rows := self.tables[name]:
            key = self._rng.choice(sorted(rows))
            self._row(name, "DELETE", rows.pop(key), None)

    def _row(self, name: str, kind: str, row: dict[str, Any], old: dict[str, Any] | None) -> None:
        changed = old and {column: str(value) for column, value in old.items() if row[column] != value}
        partition = zlib.crc32(str(row["id"]).encode()) % PARTITIONS
        data = {column: str(value) for column, value in row.items()}
        types = {"id": "int", **self._columns[name]}
        more = {"pkNames": ["id"], "mysqlType": {column: types[column] for column in row}, "isDdl": False}
        self._send(name, kind, partition, more | {"data": [data], "old": [changed or {}] if old else None})

    def _statement(self, name: str, kind: str, text: str) -> None:
        self._send(name, kind, 0, {"sql": text, "isDdl": True, "data": None, "old": None})

    def _send(self, name: str, kind: str, partition: int, more: dict[str, Any]) -> None:
        waited = self._rng.choice([0, 0, 0, 1, 3]) if self._has_batches and self._migrates else 0
        started = _START + (self._second - waited) * 1000
        message = {"database": "shop", "table": name, "type": kind, "es": started, **more}
        if self._has_batches:
            message |= {"id": self._batch, "ts": _START + self._second * 1000 + 400}
        offset = sum(one["partition"] == partition for one in self.messages)
        value = json.dumps(message).encode()
        written = datetime.fromtimestamp(_START / 1000 + self._second + 0.5, timezone.utc)
        place = {"partition": partition, "offset": offset, "timestamp": written}
        self.messages.append({**place, "value": value})


def micro_batches(messages: list[Message], rng: random.Random, count: int) -> Iterator[list[Message]]:
    """The messages in so many batches. Some partitions lag behind; a partition's messages stay in their order."""
    batches: list[list[Message]] = [[] for _ in range(count)]
    for partition in range(PARTITIONS):
        found = [one for one in messages if one["partition"] == partition]
        cuts = [0, *sorted(rng.randint(0, len(found)) for _ in range(count - 1)), len(found)]
        for batch, begin, end in zip(batches, cuts, cuts[1:], strict=False):
            batch += found[begin:end]
    for batch in batches:
        rng.shuffle(batch)
        yield batch


def _converted(value: Any, kind: str) -> Any:
    """A value with another type, as MySQL converts it."""
    if kind.startswith("varchar"):
        return str(_converted(value, "int"))
    digits = Decimal("0.01") if kind == "decimal(6,2)" else Decimal(1)
    rounded = Decimal(value).quantize(digits, ROUND_HALF_UP)
    return rounded if kind.startswith("decimal") else int(rounded)
