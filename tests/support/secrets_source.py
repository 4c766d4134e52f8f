"""A database whose tables have columns that nobody may read, and what canal sends of it while its tables are migrated.

Every value of such a column contains `SECRET`, and no other value does. The migrations write what gh-ost's and
pt-online-schema-change's logs show: the copy is created, altered and filled, and gets the name in a RENAME TABLE.
"""

import json
import random
import zlib
from collections.abc import Iterator
from typing import Any

SECRET = "SECRET"
_START = 1_700_000_000_000
_LETTERS = "abcdefgxyzé_0"

Message = dict[str, Any]


class Table:
    """A table: the names of its columns with what they hold, and its rows."""

    def __init__(self, columns: dict[str, str], rows: dict[int, dict[str, str]] | None = None) -> None:
        """`columns`: "plain", "excluded" or "masked" for each of them, but `id`."""
        self.columns, self.rows = columns, rows or {}

    def copy(self) -> "Table":
        """It with its rows."""
        return Table(dict(self.columns), {key: dict(row) for key, row in self.rows.items()})


class Source:
    """The tables of a database, and the messages of their changes in the order of the binlog."""

    def __init__(self, rng: random.Random, *, tables: int, partitions: int) -> None:
        """`partitions`: rows go to that of their key, statements to the first."""
        self._rng, self._partitions = rng, partitions
        self._names: set[str] = set()
        self._second = 0
        self.first: list[Message] = []
        """Those from which the names of columns in the rules are known: the first rows of each table."""
        self.messages: list[Message] = []
        self.tables: dict[str, Table] = {}
        self.rules: dict[str, dict[str, Any]] = {}
        """The argument `columns` of `replicate`."""
        self.rules_of: dict[str, dict[str, Any]] = {}
        """The rules that each table has by its history."""
        self.unruled: set[str] = set()
        """Tables in which a column lost its rule: the source renamed it."""
        for _ in range(tables):
            self._create()
        self.first, self.messages = self.messages, []

    def _name(self) -> str:
        while True:
            name = "".join(self._rng.choice(_LETTERS) for _ in range(self._rng.choice([3, 6, 59])))
            if name.lower() not in self._names and name != "id" and not name[0].isdigit():
                self._names.add(name.lower())
                return name

    def _create(self) -> None:
        name = self._name()
        columns = {self._name()[:12]: kind for kind in ["plain", "excluded", "masked", "plain"]}
        of = {kind: [column for column in columns if columns[column] == kind] for kind in columns.values()}
        mask = dict.fromkeys(of["masked"], "sha2(value, 256)")
        self.tables[name] = Table(columns)
        self.rules[f"shop.{name}"] = self.rules_of[name] = {"exclude": of["excluded"], "mask": mask}
        for _ in range(3):
            self._write(name)

    def step(self) -> None:
        """A random change of a random table."""
        self._second += 1
        name = self._rng.choice(sorted(self.tables))
        changes = [self._write, self._migrate, self._rename_column, self._add_column]
        if self._partitions == 1:  # what its rows have under a new name is not known before the statement is read
            changes += [self._rename_table, self._exchange]
        self._rng.choices(changes, [8, 2, 1, 1, 1, 1][: len(changes)])[0](name)

    def _add_column(self, name: str) -> None:
        table, column = self.tables[name], self._name()[:12]
        self._statement(name, "ALTER", f"ALTER TABLE {name} ADD COLUMN {column} varchar(40)")
        self._gets(table, column)

    def _gets(self, table: Table, column: str) -> None:
        table.columns[column] = "plain"
        for row in table.rows.values():
            row[column] = None

    def _rename_column(self, name: str) -> None:
        table = self.tables[name]
        old, new = self._rng.choice(sorted(table.columns)), self._name()[:12]
        forms = [f"RENAME COLUMN {old} TO {new}", f"CHANGE COLUMN {old} {new} varchar(40)"]
        self._statement(name, "ALTER", f"ALTER TABLE {name} {self._rng.choice(forms)}")
        self._renamed(name, table, old, new)

    def _renamed(self, name: str, table: Table, old: str, new: str) -> None:
        if table.columns[old] != "plain":
            self.unruled.add(name)
        table.columns = {new if one == old else one: kind for one, kind in table.columns.items()}
        table.rows = {
            key: {new if one == old else one: value for one, value in row.items()} for key, row in table.rows.items()
        }

    def _rename_table(self, name: str) -> None:
        new = self._name()
        forms = [f"RENAME TABLE {name} TO {new}", f"ALTER TABLE {name} RENAME TO {new}"]
        self._statement(name, "RENAME", self._rng.choice(forms))
        self._move(name, new)

    def _move(self, old: str, new: str) -> None:
        self.tables[new], self.rules_of[new] = self.tables.pop(old), self.rules_of[old]
        if old in self.unruled:
            self.unruled.add(new)

    def _exchange(self, name: str) -> None:
        """A copy with another name than those of the tools takes the place of a table, which goes on under a name."""
        away, copy = self._name(), _fit("_{}_gho", name)
        table = self._copy(name, copy)
        for row in table.rows.values():
            self._send_row(copy, "INSERT", row, table)
        self._statement(name, "RENAME", f"RENAME TABLE {name} TO {away}, {copy} TO {name}")
        self._send_row(away, "INSERT", {"id": 99, **{c: self._value(k) for c, k in self.tables[name].columns.items()}})

    def _migrate(self, name: str) -> None:
        copy, away = self._rng.choice(_FORMS)
        copy, away = _fit(copy, name), _fit(away, name)
        table = self._copy(name, copy)
        for _ in range(2):
            change = self._rng.choice(["ADD", "DROP", "CHANGE", "NONE"])
            self._alter_copy(name, copy, table, change)
        for row in table.rows.values():
            self._send_row(copy, "INSERT", row, table)
        self.tables[name] = table
        self._statement(name, "RENAME", f"RENAME TABLE {name} TO {away}, {copy} TO {name}")
        if self._rng.random() < 0.5:
            self._statement(away, "ERASE", f"DROP TABLE IF EXISTS {away}")

    def _copy(self, name: str, copy: str) -> Table:
        self._statement(copy, "ERASE", f"DROP TABLE IF EXISTS {copy}")
        self._statement(copy, "CREATE", f"CREATE TABLE {copy} LIKE {name}")
        return self.tables[name].copy()

    def _alter_copy(self, name: str, copy: str, table: Table, change: str) -> None:
        column, new = self._rng.choice(sorted(table.columns)), self._name()[:12]
        if change == "ADD":
            self._statement(copy, "ALTER", f"ALTER TABLE {copy} ADD COLUMN {new} varchar(40)")
            self._gets(table, new)
        elif change == "CHANGE":
            self._statement(copy, "ALTER", f"ALTER TABLE {copy} CHANGE {column} {new} varchar(40)")
            self._renamed(name, table, column, new)
        elif change == "DROP" and len(table.columns) > 2:
            self._statement(copy, "ALTER", f"ALTER TABLE {copy} DROP COLUMN {column}")
            del table.columns[column]
            for row in table.rows.values():
                del row[column]

    def _write(self, name: str) -> None:
        table, key = self.tables[name], self._rng.randrange(6)
        row = {column: self._value(kind) for column, kind in table.columns.items()}
        kind = "UPDATE" if key in table.rows else "INSERT"
        table.rows[key] = row
        self._send_row(name, kind, {"id": key, **row}, table)

    def _value(self, kind: str) -> str:
        number = self._rng.randrange(10**9)
        return f"plain{number}" if kind == "plain" else f"{SECRET}{number}"

    def _send_row(self, name: str, kind: str, row: dict[str, Any], table: Table | None = None) -> None:
        key = row.get("id")
        if key is None:
            key = next(number for number, one in (table or self.tables[name]).rows.items() if one is row)
        cells = {"id": str(key), **{column: value for column, value in row.items() if column != "id"}}
        types = {column: "int" if column == "id" else "varchar(40)" for column in cells}
        partition = zlib.crc32(str(key).encode()) % self._partitions
        more = {"pkNames": ["id"], "mysqlType": types, "isDdl": False, "data": [cells]}
        self._send(name, kind, partition, {**more, "old": [{}] if kind == "UPDATE" else None})

    def _statement(self, name: str, kind: str, text: str) -> None:
        self._second += 1
        self._send(name, kind, 0, {"sql": text, "isDdl": True, "data": None, "old": None})
        self._second += 1

    def _send(self, name: str, kind: str, partition: int, more: dict[str, Any]) -> None:
        message = {"database": "shop", "table": name, "type": kind, "es": _START + self._second * 1000, **more}
        offset = sum(one["partition"] == partition for one in [*self.first, *self.messages])
        value = json.dumps(message, ensure_ascii=False).encode()
        self.messages.append({"partition": partition, "offset": offset, "value": value})


_FORMS = [
    ("_{}_gho", "_{}_del"),
    ("_{}_gho", "_{}_20240131235959_del"),
    ("_{}_new", "_{}_old"),
    ("___{}_new", "__{}_old"),
]


def _fit(form: str, name: str) -> str:
    """The name of a copy, which the tools shorten to MySQL's 64 characters."""
    full = form.format(name)
    return full if len(full) <= 64 else form.format(name[: 64 - len(full)])


def micro_batches(messages: list[Message], rng: random.Random, count: int) -> Iterator[list[Message]]:
    """Split messages into `count` batches. Partitions lag at random, and each keeps its order."""
    batches: list[list[Message]] = [[] for _ in range(count)]
    for partition in range(3):
        found = [one for one in messages if one["partition"] == partition]
        cuts = [0, *sorted(rng.randint(0, len(found)) for _ in range(count - 1)), len(found)]
        for batch, begin, end in zip(batches, cuts, cuts[1:], strict=False):
            batch += found[begin:end]
    for batch in batches:
        rng.shuffle(batch)
        yield batch
