"""Every golden message of every dialect, in any framing."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import kafka_records
from fidelity import ROOT, lines, read, records
from kafka_records import Record

GOLDEN = ROOT / "tests" / "golden"
TRUTH = ("truth", "columns.", "ddl.", "final")


@dataclass(frozen=True)
class Capture:
    """A file of messages."""

    name: str
    records: list[Record]

    def batch(self) -> pa.RecordBatch:
        """The columns `topic`, `key` and `value`."""
        return kafka_records.batch(self.records)


def captures(dialect: str) -> list[Capture]:
    """The captures of a dialect; none if it has no golden folder yet."""
    files = sorted(path for path in (GOLDEN / dialect).rglob("*") if path.is_file() and not _is_truth(path.name))
    found = ((path, _framing(path.name)) for path in files)
    return [Capture(str(path.relative_to(GOLDEN)), framing(path)) for path, framing in found if framing]


def _is_truth(name: str) -> bool:
    return name.startswith(TRUTH) or ".truth." in name or ".index." in name


def _framing(name: str) -> Callable[[Path], list[Record]] | None:
    """The framing of a file, by its extension; None if it does not have messages."""
    kind = name.partition(".")[2].removesuffix(".zst")
    if kind.endswith("jsonl") and "kv" in kind:
        return kafka_records.load
    if kind.endswith("kvrec"):
        return _pairs
    if kind.endswith(("lenrec", "bin")):
        return lambda path: _values(records(path))
    return (lambda path: _values(lines(path))) if kind.endswith(("jsonl", "json")) else None


def _values(values: list[bytes]) -> list[Record]:
    return [Record("", None, value) for value in values]


def _pairs(path: Path) -> list[Record]:
    """`[u32 big-endian length][key][u32 big-endian length][value]`, repeated."""
    data, at, parts = read(path), 0, []
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        parts.append(data[at + 4 : end])
        at = end
    return [Record("", key, value) for key, value in zip(parts[::2], parts[1::2], strict=True)]
