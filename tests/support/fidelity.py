"""Counts the cells of decoded rows that equal the truth, and reports those that do not."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import truth

ROOT = Path(__file__).parents[2]
ROW_CHANGES = ("insert", "update", "delete")

_Event = dict[str, Any]
_Pair = tuple[_Event, dict[str, Any]]


def read(path: Path) -> bytes:
    """A file's bytes, decompressed if its name ends in .zst."""
    with pa.input_stream(str(path), compression="zstd" if path.suffix == ".zst" else None) as file:
        return file.read()


def lines(path: Path) -> list[bytes]:
    """The lines of a file."""
    return read(path).splitlines()


def objects(path: Path) -> list[Any]:
    """The JSON values of a file, one per line."""
    return [json.loads(line) for line in lines(path)]


def records(path: Path) -> list[bytes]:
    """The records of a file of `[u32 big-endian length][bytes]`."""
    data, at, found = read(path), 0, []
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        found.append(data[at + 4 : end])
        at = end
    return found


def messages(values: list[bytes]) -> pa.Array:
    """Messages as an Arrow array; 32-bit offsets are enough for the bulk captures."""
    return pa.array(values, pa.binary())


def row_changes(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch that are row changes."""
    return _changes(batch).to_pylist(maps_as_pydicts="strict")


def beside(events: list[_Event], batch: pa.RecordBatch, is_compared: Callable[[_Event], bool]) -> list[_Pair]:
    """The events that are compared, with their row changes. A batch has those of all events."""
    changes = _changes(batch)
    assert len(changes) == len(events)
    places = [place for place, event in enumerate(events) if is_compared(event)]
    rows = changes.take(pa.array(places, pa.int64())).to_pylist(maps_as_pydicts="strict")
    return list(zip((events[place] for place in places), rows, strict=True))


def _changes(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.is_in(batch.column("op"), pa.array(ROW_CHANGES)))


class Score:
    """Number of correct cells and of all cells of a capture."""

    SHOWN = 20

    def __init__(self) -> None:
        self.right = 0
        self.total = 0
        self.wrong: list[str] = []
        self.destroyed: dict[str, int] = {}
        self.omitted = 0

    def __str__(self) -> str:
        lost = sum(self.destroyed.values()) - self.omitted
        of_them = f", {lost} of them as the producer destroyed them" if lost else ""
        left_out = f", {self.omitted} more left out" if self.omitted else ""
        return f"{self.right} cells right of {self.total}{of_them}{left_out}"

    def cell(self, place: str, column: str, want: Any, got: Any) -> None:
        """Counts one cell."""
        self.count(truth.same(want, got), place, column, want, got)

    def count(self, is_right: bool, place: str, column: str, want: Any, got: Any) -> None:
        """Counts one cell that was compared by the caller."""
        self.total += 1
        self.right += is_right
        if not is_right:
            self.wrong.append(f"{place} column {column}: got {got!r:.200}, truth {want!r:.200}")

    def many(self, place: str, column: str, want: pa.Array, got: pa.Array) -> None:
        """Counts a whole column; cells are compared one by one only if it differs."""
        if got.type == want.type and len(got) == len(want) and got.equals(want):
            self.right += len(want)
            self.total += len(want)
            return
        pairs = zip(want.to_pylist(), got.to_pylist(), strict=True)
        for row, (wanted, delivered) in enumerate(pairs):
            self.cell(f"{place} row {row}", column, wanted, delivered)

    def image(self, place: str, want: dict[str, Any] | None, got: dict[str, Any] | None) -> None:
        """Counts the cells of one row image; an unexpected image is one wrong cell."""
        if want is None or got is None:
            self.count(want is got, place, "*", want, got)
            return
        for column, wanted in want.items():
            self.cell(place, column, wanted, got.get(column, "no such column"))

    def same_length(self, place: str, want: list[Any], got: list[Any]) -> bool:
        """Whether the number of rows is right."""
        if len(want) != len(got):
            self.count(False, place, "*", f"{len(want)} rows", f"{len(got)} rows")
        return len(want) == len(got)

    def producer_destroyed(self, reason: str) -> None:
        """Counts a cell whose expected value is what the producer sends instead of the database's."""
        self.destroyed[reason] = self.destroyed.get(reason, 0) + 1

    def leave_out(self, reason: str) -> None:
        """Counts a cell that is not compared, because a producer destroyed it."""
        self.omitted += 1
        self.producer_destroyed(f"left out: {reason}")

    def check_all(self) -> None:
        """Fails with the first wrong cells."""
        assert self.total > 0
        assert not self.wrong, f"{self}\n" + "\n".join(self.wrong[: self.SHOWN])
        assert self.right == self.total


def chunks(values: list[Any], size: int) -> Iterator[list[Any]]:
    """Parts of a list, in order."""
    yield from (values[at : at + size] for at in range(0, len(values), size))


def unique(values: Iterable[Any]) -> list[Any]:
    """Without repeats, in order."""
    return list(dict.fromkeys(values))
