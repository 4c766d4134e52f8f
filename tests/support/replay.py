"""Replays the row changes of a bulk capture from its start: every before image and the final table must be right."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import truth
from fidelity import Score, objects
from server_truth import Column

Row = tuple[Any, ...]

# The tables of the bulk captures, and their keys.
TABLES = {"customer": ["c_w_id", "c_d_id", "c_id"], "orders": ["o_id"]}


def declared_columns(folder: Path, table: str) -> list[Column]:
    """The columns of a table of the bulk captures."""
    entries = objects(folder / "columns.jsonl")
    # MariaDB says `longtext` of what its DDL calls `json`.
    return [
        Column(
            entry["column"],
            "json" if entry["column"] == "o_json" else entry["type"],
            entry["charset"] or "",
            entry["key"] == "PRI",
        )
        for entry in entries
        if (entry["db"], entry["table"]) == ("bulk_a", table)
    ]


def changes(batch: pa.RecordBatch) -> Iterator[tuple[str, Row | None, Row | None]]:
    """Row changes as tuples of values in the columns' order."""
    ops = batch.column("op").to_pylist()
    yield from (
        change
        for change in zip(ops, tuples(batch.column("before")), tuples(batch.column("after")), strict=True)
        if change[0] in ("insert", "update", "delete")
    )


def tuples(images: pa.StructArray) -> list[Row | None]:
    rows = zip(*(column.to_pylist() for column in images.flatten()), strict=True)
    present = images.is_valid().to_pylist()
    return [row if there else None for there, row in zip(present, rows, strict=True)]


def key_reader(names: list[str], key: list[str]) -> Callable[[Row], Row]:
    places = [names.index(name) for name in key]
    return lambda row: tuple(row[place] for place in places)


class Replay:
    """The rows of one table, changed by one message after the other."""

    def __init__(self, score: Score, names: list[str], key: list[str]) -> None:
        self.score = score
        self.names = names
        self.key_of = key_reader(names, key)
        self.state: dict[Row, Row] = {}

    def apply(self, op: str, before: Row | None, after: Row | None) -> None:
        """Applies one change, after comparing its before image with the current row."""
        assert (before is None, after is None) == (op == "insert", op == "delete")
        if before is not None:
            held = self.state.pop(self.key_of(before), None)
            self._compare(f"{op} before {self.key_of(before)}", held, before)
        if after is not None:
            assert self.key_of(after) not in self.state
            self.state[self.key_of(after)] = after

    def _compare(self, place: str, want: Row | None, got: Row | None) -> None:
        if want == got:  # nearly always, and much faster
            self.score.right += len(self.names)
            self.score.total += len(self.names)
            return
        self.score.image(place, self._named(want), self._named(got))

    def _named(self, row: Row | None) -> dict[str, Any] | None:
        return None if row is None else dict(zip(self.names, row, strict=True))

    def compare_final(self, final: list[Row]) -> None:
        """Compares the final rows with those of the database."""
        for want in final:
            got = self.state.pop(self.key_of(want), None)
            self.score.image(f"final {self.key_of(want)}", self._named(want), self._named(got))
        assert not self.state, "rows that the final table does not have"


Cell = Callable[[str, str | None, str | None], Any]


def final_rows(folder: Path, table: str, columns: list[Column], cell: Cell = truth.value) -> list[Row]:
    """The rows of a table at the end; `cell` makes a value of a declared type, its text and a float's exact text."""
    rows = []
    for entry in objects(folder / f"final_bulk_a.{table}.jsonl.zst"):
        exact = entry.get("__float_exact") or {}
        rows.append(
            tuple(cell(column.declared, entry[column.name], exact.get(column.name)) for column in columns),
        )
    return rows
