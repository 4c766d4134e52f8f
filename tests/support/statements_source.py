"""A database whose tables are created, emptied, dropped and altered, and what canal sends of it.

canal sends the rows to the partition of their key, and all statements to partition 0. So nothing but time and canal's
batch orders a statement and a row, and both may be the same.
"""

import json
import random
import zlib
from collections.abc import Iterator
from typing import Any

PARTITIONS = 3
_START = 1_700_000_000_000

Message = dict[str, Any]


class Source:
    """The tables of a database, and the messages of their changes in the order of the binlog."""

    def __init__(self, rng: random.Random, *, has_batches: bool) -> None:
        """`has_batches`: whether messages have canal's batch and time, as those of other producers have not."""
        self.tables: dict[str, dict[int, dict[str, Any]]] = {}
        self.messages: list[Message] = []
        self._columns: dict[str, list[str]] = {}
        self._rng = rng
        self._has_batches = has_batches
        self._second, self._batch = 0, 1

    def step(self, name: str) -> None:
        """A random change of a table."""
        self._pass_time()
        if name not in self.tables:
            self._create(name)
            return
        change = self._rng.choices(
            [self._write, self._delete, self._truncate, self._recreate, self._add_column], [12, 3, 1, 1, 1]
        )[0]
        change(name)

    def _pass_time(self) -> None:
        self._second += self._rng.random() < 0.4
        self._batch += self._rng.random() < 0.5

    def _create(self, name: str) -> None:
        self.tables[name], self._columns[name] = {}, ["v"]
        self._statement(name, "CREATE", f"CREATE TABLE {name} (id int PRIMARY KEY, v int)")

    def _recreate(self, name: str) -> None:
        self._statement(name, "ERASE", f"DROP TABLE {name}")
        self._pass_time()
        self._create(name)

    def _truncate(self, name: str) -> None:
        self.tables[name].clear()
        self._statement(name, "TRUNCATE", f"TRUNCATE TABLE {name}")

    def _add_column(self, name: str) -> None:
        added, value = f"c{len(self._columns[name])}", self._rng.randrange(100)
        self._columns[name].append(added)
        for row in self.tables[name].values():
            row[added] = value
        self._statement(name, "ALTER", f"ALTER TABLE {name} ADD COLUMN {added} int DEFAULT {value}")

    def _write(self, name: str) -> None:
        key = self._rng.randrange(8)
        old = self.tables[name].get(key)
        row = {"id": key} | {column: self._rng.randrange(100) for column in self._columns[name]}
        self.tables[name][key] = row
        self._row(name, "UPDATE" if old else "INSERT", row, old)

    def _delete(self, name: str) -> None:
        if rows := self.tables[name]:
            key = self._rng.choice(sorted(rows))
            self._row(name, "DELETE", rows.pop(key), None)

    def _row(self, name: str, kind: str, row: dict[str, Any], old: dict[str, Any] | None) -> None:
        changed = old and {column: str(value) for column, value in old.items() if row[column] != value}
        partition = zlib.crc32(str(row["id"]).encode()) % PARTITIONS
        data = {column: str(value) for column, value in row.items()}
        more = {"pkNames": ["id"], "mysqlType": dict.fromkeys(row, "int"), "isDdl": False}
        self._send(name, kind, partition, more | {"data": [data], "old": [changed or {}] if old else None})

    def _statement(self, name: str, kind: str, text: str) -> None:
        self._send(name, kind, 0, {"sql": text, "isDdl": True, "data": None, "old": None})

    def _send(self, name: str, kind: str, partition: int, more: dict[str, Any]) -> None:
        message = {"database": "shop", "table": name, "type": kind, "es": _START + self._second * 1000, **more}
        if self._has_batches:
            message |= {"id": self._batch, "ts": _START + self._second * 1000 + 400}
        offset = sum(one["partition"] == partition for one in self.messages)
        value = json.dumps(message).encode()
        self.messages.append({"partition": partition, "offset": offset, "value": value})


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
