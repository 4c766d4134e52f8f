"""Writers of decoded batches: JSON lines, Parquet, Arrow."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, time, timedelta
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import pyarrow as pa

Write = Callable[[pa.RecordBatch], object]


@contextmanager
def sink(path: str, schema: pa.Schema) -> Iterator[Write]:
    """Open a file, or standard output, for batches of one schema.

    A file gets its final name when it is complete, so a file with this name is never truncated.

    Args:
        path: Ends in .parquet, .arrow or .jsonl. "-" writes JSON lines to standard output.
        schema: The batches' schema.

    Yields:
        A function that writes a batch.

    Raises:
        ValueError: The path has another extension.
    """
    if path == "-":
        yield _json_lines(sys.stdout)
        return
    suffix = PurePath(path).suffix
    if suffix not in _OPENERS:
        raise ValueError(f"{path}: the output's name must end in one of {', '.join(_OPENERS)}")
    # Use a separate folder: a file or a link next to the output may have any name.
    with TemporaryDirectory(prefix=".towpath-", dir=PurePath(path).parent) as folder:
        unfinished = Path(folder, "unfinished")
        with _OPENERS[suffix](unfinished, schema) as write:
            yield write
        os.replace(unfinished, path)


@contextmanager
def _jsonl(path: Path, _: pa.Schema) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:
        yield _json_lines(file)


@contextmanager
def _arrow(path: Path, schema: pa.Schema) -> Iterator[Write]:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        yield writer.write_batch


@contextmanager
def _parquet(path: Path, schema: pa.Schema) -> Iterator[Write]:
    from pyarrow import parquet

    with parquet.ParquetWriter(path, schema) as writer:
        yield writer.write_batch


_OPENERS = {".parquet": _parquet, ".arrow": _arrow, ".jsonl": _jsonl}


def _json_lines(file: TextIO) -> Write:
    def write(batch: pa.RecordBatch) -> None:
        types = [(field.name, field.type) for field in batch.schema]
        for row in batch.to_pylist():
            file.write(json.dumps({name: plain(row[name], kind) for name, kind in types}, ensure_ascii=False) + "\n")
        file.flush()  # for a reader of a pipe

    return write


def plain(cell: Any, kind: pa.DataType) -> Any:
    """Return a cell as JSON can represent it without loss: all but text, numbers and booleans become text."""
    if cell is None or isinstance(cell, str | bool | int | float):
        return cell
    if isinstance(cell, bytes):
        return base64.b64encode(cell).decode()
    if pa.types.is_map(kind):
        return {key: plain(value, kind.item_type) for key, value in cell}
    if pa.types.is_struct(kind):
        return {field.name: plain(cell[field.name], field.type) for field in kind}
    if pa.types.is_list(kind):
        return [plain(inner, kind.value_type) for inner in cell]
    if isinstance(cell, timedelta):
        return _time(cell)
    return cell.isoformat() if isinstance(cell, date | time) else str(cell)


def _time(span: timedelta) -> str:
    """Return a TIME in MySQL's format: `-838:59:59`, with microseconds if they are not zero."""
    seconds, micros = divmod(abs(span) // timedelta(microseconds=1), 1_000_000)
    fraction = f".{micros:06}" if micros else ""
    return f"{'-' * (span < timedelta(0))}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
