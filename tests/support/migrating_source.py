"""A database whose tables are migrated at random: statements as text, and rows with the place of their change.

Places are total, as of TiCDC's commit times or of the binlog. A partition's events stay in their order.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import permutations
from typing import Any

PARTITIONS = 3

SECRET = 7654000
"""The least value of a column that is excluded or masked. No other column has such a value."""

KINDS = {"c": "varchar(20)", "d": "decimal(8,2)", "t": "datetime"}
"""The types of new columns by the first letter of their names.

A name keeps its type if shards share its column, or if its values may be secrets, which are numbers.
"""

WIDER = {"int": "bigint", "varchar(20)": "varchar(30)", "decimal(8,2)": "decimal(12,4)", "datetime": "datetime(3)"}


def first_type(column: str) -> str:
    """Return the type with which a column is added."""
    return KINDS.get(column[0].lower(), "int")


def stored(value: int, kind: str) -> str:
    """Return the text of a value in a column of a type."""
    return converted(f"2024-01-01 00:00:{value % 60:02}" if kind.startswith("datetime") else str(value), kind)


def converted(text: str, kind: str) -> str:
    """Return the text of a value after MySQL has widened its column to a type."""
    if kind.startswith("decimal"):
        return f"{Decimal(text):.{kind[-2]}f}"
    return f"{text}.000" if kind == "datetime(3)" and "." not in text else text


@dataclass(frozen=True)
class Event:
    """A DDL statement or a row change; `cells` is None for a delete."""

    place: int
    partition: int
    statement: str | None = None
    table: str = ""
    key: int = 0
    cells: dict[str, Any] | None = None
    old: dict[str, Any] | None = None
    """The former values of the changed columns, the key among them; None if the row was inserted."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The types of the columns in `cells`."""


class MigratingSource:
    """The tables of a database, and the events of their changes in the order of its log."""

    _PAUSE = 12
    """Number of places after which neither the second nor canal's batch is the same."""

    def __init__(
        self,
        rng: random.Random,
        *,
        is_copied: bool,
        are_shards: bool = False,
        has_secrets: bool = False,
        moves_keys: bool = True,
    ) -> None:
        """Create a database without tables.

        Args:
            rng: The source of its steps.
            is_copied: Whether each partition gets each statement, as TiCDC sends it, or only the first one.
            are_shards: Whether no two tables have rows with the same key.
            has_secrets: Whether a table `t` is created with the columns `s_t` and `m_t`, which nobody may read.
            moves_keys: Whether updates change keys.
        """
        self.tables: dict[str, dict[int, dict[str, Any]]] = {}
        self.events: list[Event] = []
        self.names: dict[str, dict[str, set[tuple[str, str]]]] = {}
        """By table and column the names that the table had with those of the column, in lower case."""
        self.dropped: dict[str, range] = {}
        """The keys of tables that were dropped and whose names no other table has: their rows stay in the target."""
        self._has_secrets, self._moves_keys = has_secrets, moves_keys
        self._columns: dict[str, list[str]] = {}
        self._former: dict[str, list[str]] = {}
        self._keys: dict[str, range] = {}
        self._types: dict[str, dict[str, str]] = {}
        self._rng, self._is_copied, self._are_shards = rng, is_copied, are_shards
        self._named = self._place = 0
        for name in "tuv" if has_secrets else ():
            self._create(name)
        self._created = len(self.events)

    def step(self) -> None:
        """Execute one random statement or change."""
        name = self._rng.choice("tuv")
        if name not in self.tables:
            self._create(name)
            return
        # Rows of a new name may be read before the statement. Then no rule tells what is secret.
        is_unnamed = self._has_secrets and not self._is_copied
        if not is_unnamed and f"{name}_old" in self.tables and self._rng.random() < 0.1:
            self._write(f"{name}_old")
            return
        kinds = {
            self._write: 16,
            self._move_key: 3 * self._moves_keys,
            self._delete: 4,
            self._drop_table: 1,
            self._add_again: 2,
            self._alter: 2,
            self._truncate: 1,
            self._recreate: 1,
            self._add: 2,
            self._drop: 1,
            self._drop_and_add: 1,
            self._rename: 1,
            self._rename_and_add: 1,
            self._rename_case: 1,
            self._shift: 1,
            self._exchange: 1,
            self._widen: 1,
            self._migrate: 1,
            self._rotate: 1,
            self._move: 0 if is_unnamed else 1,
        }
        self._rng.choices(list(kinds), list(kinds.values()))[0](name)

    def batches(self, rng: random.Random, count: int) -> list[list[Event]]:
        """Return the events in batches. Partitions lag, and some batches repeat the one before."""
        found: list[list[Event]] = [[] for _ in range(count)]
        for partition in range(PARTITIONS):
            own = [one for one in self.events if one.partition == partition]
            # Before its CREATE TABLE is read, a table may have renamed its secrets without a trace.
            least = self._created if self._has_secrets and not self._is_copied and partition == 0 else 0
            cuts = [0, *sorted(max(least, rng.randint(0, len(own))) for _ in range(count - 1)), len(own)]
            for at in range(count):
                begin = cuts[at - 1] if at and rng.random() < 0.3 else cuts[at]
                found[at] += own[begin : cuts[at + 1]]
        for batch in found:
            rng.shuffle(batch)
        return found

    def hides(self, prefix: str, name: str, column: str) -> bool:
        """Return whether a column, or what it was before, is that of a table with a prefix: `s_` or `m_`."""
        return any(one == prefix + re.sub("^_(.*)_(gho|del)$", r"\1", of) for of, one in self.names[name][column])

    def _new_place(self) -> int:
        self._place += 1
        return self._place

    def _execute(self, text: str) -> None:
        first = Event(self._new_place(), 0, text)
        self.events += [replace(first, partition=at) for at in range(PARTITIONS if self._is_copied else 1)]

    def _send(
        self, name: str, key: int, cells: dict[str, Any] | None, old: dict[str, Any] | None = None, place: int = 0
    ) -> None:
        copy = None if cells is None else dict(cells)
        place = place or self._new_place()
        self.events.append(Event(place, key % PARTITIONS, None, name, key, copy, old, dict(self._types[name])))

    def _new_column(self, letters: str = "IICDT") -> str:
        self._named += 1
        return f"{self._rng.choice(letters)}{self._named}"

    def _create(self, name: str) -> None:
        columns = ["v", f"s_{name}", f"m_{name}"] if self._has_secrets else ["v"]
        self.tables[name], self._columns[name], self._types[name] = {}, columns, dict.fromkeys(columns, "int")
        self.names[name] = {one: {(name, one)} for one in columns}
        self._keys[name] = self._new_keys()
        self.dropped.pop(name, None)
        self._execute(f"CREATE TABLE {name} (id int PRIMARY KEY, {', '.join(f'{one} int' for one in columns)})")

    def _write(self, name: str) -> None:
        key = self._rng.choice(self._keys[name])
        row, values = self.tables[name].get(key), {one: self._value(name, one) for one in self._columns[name]}
        if row is None:
            self.tables[name][key], old = values, None
        else:
            changed = self._rng.sample(self._columns[name], self._rng.randint(1, len(values)))
            old = {one: row[one] for one in changed}
            row.update({one: values[one] for one in changed})
        self._send(name, key, self.tables[name][key], old)

    def _move_key(self, name: str) -> None:
        """Give a row another key: TiCDC sends a delete and an insert, with one commit time."""
        free = sorted(set(self._keys[name]) - self.tables[name].keys())
        if free and self.tables[name]:
            old, new = self._rng.choice(sorted(self.tables[name])), self._rng.choice(free)
            self.tables[name][new] = self.tables[name].pop(old)
            if self._is_copied:
                self._send(name, old, None)
                self._send(name, new, self.tables[name][new], place=self._place)
            else:  # canal-json cannot order changes of a key in two partitions, if they have one second and one batch
                self._place += self._PAUSE
                self._send(name, new, self.tables[name][new], {"id": old})
                self._place += self._PAUSE

    def _value(self, name: str, column: str) -> str:
        least = SECRET if self._is_hidden(name, column) else 0
        return stored(self._rng.randrange(100) + least, self._types[name][column])

    def _is_hidden(self, name: str, column: str) -> bool:
        return any(self.hides(prefix, name, column) for prefix in ("s_", "m_"))

    def _delete(self, name: str) -> None:
        if self.tables[name]:
            key = self._rng.choice(sorted(self.tables[name]))
            del self.tables[name][key]
            self._send(name, key, None)

    def _truncate(self, name: str) -> None:
        self.tables[name].clear()
        self._execute(f"TRUNCATE TABLE {name}")

    def _recreate(self, name: str) -> None:
        self._execute(f"DROP TABLE {name}")
        self._create(name)

    def _add(self, name: str, column: str | None = None) -> None:
        column = column or self._new_column()
        is_any = column in self._former.get(name, ()) and not (self._are_shards or self._has_secrets)
        kind = self._rng.choice(["int", *KINDS.values()]) if is_any else first_type(column)
        value = stored(self._rng.randrange(100), kind)
        self._columns[name].append(column)
        self._types[name][column] = kind
        self.names[name][column] = {(name, column.lower())}
        for row in self.tables[name].values():
            row[column] = value
        self._execute(f"ALTER TABLE {name} ADD COLUMN {column} {kind} DEFAULT '{value}'")

    def _drop_table(self, name: str) -> None:
        self.dropped[name] = self._keys[name]
        for each in (self.tables, self._columns, self._keys, self._types, self.names):
            del each[name]
        self._execute(f"DROP TABLE {name}")

    def _add_again(self, name: str) -> None:
        """Add a column with the name of one that was dropped."""
        taken = {one.lower() for one in self._columns[name]}
        found = [one for one in self._former.get(name, ()) if one.lower() not in taken]
        if found:
            self._add(name, self._rng.choice(found))

    def _alter(self, name: str) -> None:
        """Change several columns in one statement."""
        at, clauses, named = len(self.events), [], set()
        for one in self._rng.sample([self._add, self._add_null, self._drop, self._rename, self._widen], 3):
            one(name)
        lead = f"ALTER TABLE {name} "
        for clause in self._taken_back(at, lead):
            words = {one.lower() for one in clause.split()} & set(map(str.lower, self._all))
            if words & named:  # MySQL refuses two changes of a column in a statement
                self._execute(lead + ", ".join(clauses))
                clauses, named = [], set()
            clauses.append(clause)
            named |= words
        if clauses:
            self._execute(lead + ", ".join(clauses))

    def _taken_back(self, at: int, lead: str) -> list[str]:
        """Remove the statements since an event. Return their texts after the lead."""
        texts = dict.fromkeys(one.statement for one in self.events[at:])
        del self.events[at:]
        return [text.removeprefix(lead) for text in texts if text]

    def _drop_and_add(self, name: str) -> None:
        """Replace a column by another of its name in one statement."""
        if len(self._columns[name]) > 1:
            at, lead = len(self.events), f"ALTER TABLE {name} "
            self._drop(name)
            self._add(name, self._former[name][-1])
            self._execute(lead + ", ".join(self._taken_back(at, lead)))

    @property
    def _all(self) -> list[str]:
        numbered = (f"{letter}{at}" for letter in "ICDT" for at in range(1, self._named + 1))
        return ["v", *numbered, *(f"{a}_{b}" for a in "sm" for b in "tuv")]

    def _add_null(self, name: str) -> None:
        column = self._new_column()
        kind = self._types[name][column] = first_type(column)
        implicit = {"int": "0", "varchar(20)": "", "decimal(8,2)": "0.00"}.get(kind)
        ends = [("", None), (" AFTER id", None), (" FIRST", None)]
        end, value = self._rng.choice(ends if implicit is None else [*ends, (" NOT NULL", implicit)])
        self._columns[name].append(column)
        self.names[name][column] = {(name, column.lower())}
        for row in self.tables[name].values():
            row[column] = value
        self._execute(f"ALTER TABLE {name} ADD COLUMN {column} {kind}{end}")

    def _drop(self, name: str) -> None:
        if len(self._columns[name]) > 1:
            column = self._rng.choice(self._columns[name])
            self._columns[name].remove(column)
            del self._types[name][column]
            self._former.setdefault(name, []).append(column)
            del self.names[name][column]
            for row in self.tables[name].values():
                del row[column]
            self._execute(f"ALTER TABLE {name} DROP COLUMN {column.lower()}")

    def _rename(self, name: str, new: str | None = None, *, old: str | None = None) -> str:
        old = old or self._rng.choice(self._columns[name])
        new = new or self._new_column(old[0].upper() if old[0].lower() in KINDS else "I")
        self._columns[name][self._columns[name].index(old)] = new
        for row in self.tables[name].values():
            row[new] = row.pop(old)
        self.names[name][new] = self.names[name].pop(old) | {(name, new.lower())}
        kind = self._types[name][new] = self._types[name].pop(old)
        how = self._rng.choice([f"RENAME COLUMN {old} TO {new}", f"CHANGE COLUMN {old.lower()} {new} {kind}"])
        self._execute(f"ALTER TABLE {name} {how}")
        return old

    def _widen(self, name: str) -> None:
        column = self._rng.choice(self._columns[name])
        former = self._types[name][column]
        kind = self._types[name][column] = WIDER.get(former, former)
        for row in self.tables[name].values():
            row[column] = row[column] and converted(row[column], kind)
        self._execute(f"ALTER TABLE {name} MODIFY COLUMN {column} {kind}")

    def _rename_and_add(self, name: str) -> None:
        """Give a former name to another column."""
        self._add(name, self._rename(name))

    def _rename_case(self, name: str) -> None:
        """Spell a column in another way."""
        column = self._rng.choice(self._columns[name])
        self._rename(name, column.swapcase(), old=column)

    def _shift(self, name: str) -> None:
        """Give a former name to a column that has another one."""
        former = self._rename(name)
        same = [one for one in self._columns[name] if not self._are_shards or first_type(one) == first_type(former)]
        self._rename(name, former, old=self._rng.choice(same))

    def _exchange(self, name: str) -> None:
        """Exchange the names of two columns in one statement."""
        is_any = not (self._are_shards or self._has_secrets)
        # If rows are read before the statement, nothing tells that a secret has another name.
        may_know = self._is_copied or not self._has_secrets
        columns = [one for one in self._columns[name] if may_know or not self._is_hidden(name, one)]
        pairs = permutations(columns, 2)
        found = [(one, other) for one, other in pairs if is_any or first_type(one) == first_type(other)]
        if found:
            first, other = self._rng.choice(found)
            at, lead = len(self.events), f"ALTER TABLE {name} "
            self._rename(name, "spare", old=first)
            self._rename(name, first, old=other)
            self._rename(name, other, old="spare")
            self._taken_back(at, lead)
            kinds, ways = self._types[name], ("RENAME COLUMN {0} TO {1}", "CHANGE COLUMN {0} {1} {2}")
            pairs = ((first, other), (other, first))
            clauses = (self._rng.choice(ways).format(old, new, kinds[new]) for old, new in pairs)
            self._execute(lead + ", ".join(clauses))

    def _take_away(self, old: str, new: str) -> None:
        for each in (self.tables, self._columns, self._keys, self._types, self.names):
            each[new] = each.pop(old)
        self.names[new] = {one: {*names, (new, one.lower())} for one, names in self.names[new].items()}
        self.dropped.pop(new, None)

    def _migrate(self, name: str) -> None:
        """Replace a table by a copy with one more column, as gh-ost does."""
        copy, away, added = f"_{name}_gho", f"_{name}_del", self._new_column("I")
        self._execute(f"DROP TABLE IF EXISTS {copy}, {away}")
        self._execute(f"CREATE TABLE {copy} LIKE {name}")
        self._execute(f"ALTER TABLE {copy} ADD COLUMN {added} int DEFAULT 0")
        self.tables[copy] = {}
        self._columns[copy], self._keys[copy] = [*self._columns[name], added], self._keys[name]
        self._types[copy] = {**self._types[name], added: "int"}
        self.names[copy] = {one: {*names, (copy, one.lower())} for one, names in self.names[name].items()}
        self.names[copy][added] = {(copy, added.lower())}
        waiting = sorted(self.tables[name])
        while waiting or self._rng.random() < 0.5:
            if waiting and self._rng.random() < 0.7:
                key = waiting.pop()
            else:  # the table changes meanwhile, and so does its copy
                self._rng.choice([self._write, self._write, self._delete])(name)
                key = self.events[-1].key
            row = self.tables[name].get(key)
            self._replace(copy, key, row and {**row, added: "0"})
        self._take_away(name, away)
        self._take_away(copy, name)
        self._execute(f"RENAME TABLE {name} TO {away}, {copy} TO {name}")

    def _replace(self, name: str, key: int, row: dict[str, Any] | None) -> None:
        """Write a row, or delete it, if there is one."""
        former = self.tables[name].pop(key, None)
        if row is not None:
            self.tables[name][key] = row
        if row is not None or former is not None:
            self._send(name, key, row, former if row is not None else None)

    def _rotate(self, name: str) -> None:
        """Rename a table, and give its name to an empty one: in one statement, or by CREATE TABLE."""
        old, empty = f"{name}_old", f"{name}_next"
        self._execute(f"DROP TABLE IF EXISTS {old}")
        if self._rng.random() < 0.5:
            self._take_away(name, old)
            self._execute(f"RENAME TABLE {name} TO {old}")
            self._create(name)
            return
        self._execute(f"CREATE TABLE {empty} LIKE {name}")
        self.tables[empty], self._columns[empty] = {}, list(self._columns[name])
        self._types[empty], self._keys[empty] = dict(self._types[name]), self._new_keys()
        self.names[empty] = {one: {(empty, one.lower())} for one in self._columns[name]}
        self._take_away(name, old)
        self._take_away(empty, name)
        self._execute(f"RENAME TABLE {name} TO {old}, {empty} TO {name}")

    def _new_keys(self) -> range:
        first = 10 * self._place if self._are_shards else 0
        return range(first, first + 6)

    def _move(self, name: str) -> None:
        """Rename a table to a free name."""
        free = [other for other in "tuv" if other not in self.tables]
        if free:
            self._take_away(name, free[0])
            self._execute(f"ALTER TABLE {name} RENAME TO {free[0]}")
