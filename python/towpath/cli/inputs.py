"""Messages that a verb reads: files of every framing, and standard input."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Protocol

import pyarrow as pa
from pyarrow.fs import LocalFileSystem

from towpath import files
from towpath.cli import kafka_tools
from towpath.cli.standard_input import StandardInput
from towpath.cli.text import show
from towpath.places import coordinates

PARQUET = "parquet"
FRAMINGS = (*files.FRAMINGS, *kafka_tools.FRAMINGS, PARQUET)

_SNIFFED = 64
"""Number of first bytes that determine the type of a file."""

_PARQUET_MAGIC = b"PAR1"
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_UNREAD = {
    b"\x04\x22\x4d\x18": ("LZ4", "lz4 -dc"),
    b"BZh": ("bzip2", "bzip2 -dc"),
    b"\xfd7zX": ("xz", "xz -dc"),
    b"PK\x03\x04": ("zip", "unzip -p"),
    b"\xff\xfe": ("UTF-16", "iconv -f UTF-16 -t UTF-8"),
    b"\xfe\xff": ("UTF-16", "iconv -f UTF-16 -t UTF-8"),
    b"{\x00": ("UTF-16", "iconv -f UTF-16LE -t UTF-8"),
    b"[\x00": ("UTF-16", "iconv -f UTF-16LE -t UTF-8"),
    b"\x00{": ("UTF-16", "iconv -f UTF-16BE -t UTF-8"),
    b"\x00[": ("UTF-16", "iconv -f UTF-16BE -t UTF-8"),
}
"""Formats that cannot be read, by their first bytes, with a command that converts them to lines."""

_UNREAD_SUFFIXES = {".br": ("Brotli", "brotli -dc"), ".lzma": ("LZMA", "xz -dc"), ".Z": ("compress", "uncompress -c")}
"""Formats that cannot be read, by extension, if the first bytes do not tell."""


@dataclass(frozen=True)
class Messages:
    """Consecutive messages of a file."""

    name: str
    """Name of the file."""
    first: int
    """Number of the first message in its file, from 1."""
    batch: pa.RecordBatch
    """Columns `key`, `value`, and the framing's columns: `_offset`, `topic`, `partition`, `offset`, `timestamp`."""

    def place(self, row: int) -> str:
        """Return the place of a message: `topic.jsonl: message 3 at byte 245`, with Kafka's coordinates if known."""
        at = f" at byte {self.batch['_offset'][row].as_py()}" if "_offset" in self.batch.schema.names else ""
        return f"{self.name}: " + ", ".join([f"message {self.first + row}{at}", *coordinates(self.batch, row)])


class Input(Protocol):
    """Input of a verb."""

    @property
    def paths(self) -> Sequence[str]:
        """Local files."""

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt has ended the input."""

    def __iter__(self) -> Iterator[Messages]: ...


def limited(found: Iterable[Messages], limit: int | None) -> Iterator[Messages]:
    """Yield at most `limit` messages."""
    left = limit
    for messages in found:
        if left is not None and len(messages.batch) >= left:
            yield replace(messages, batch=messages.batch.slice(0, left))
            return
        yield messages
        left = None if left is None else left - len(messages.batch)


class Inputs:
    """Messages of files, one file after the other. A terminal shows a progress bar."""

    def __init__(self, places: Sequence[str], framing: str | None, limit: int | None = None, *, live: bool = False):
        """Find the files.

        Args:
            places: Files, folders and patterns. "-" is standard input. Pipes are read as they are.
            framing: One of `FRAMINGS`. Defaults to the framing by each file's extension, or else by its first bytes,
                and to `lines` for pipes. Lines of `kcat -J` are recognised.
            limit: Maximum number of messages to read.
            live: Whether to pass on messages of standard input as they arrive, in small batches.

        Raises:
            FileNotFoundError: No file matches a place.
            ValueError: The framing of a file is unknown, or it cannot be read here.
        """
        self._framing, self._limit, self._live = framing, limit, live
        self._found = [_pipe(place) or _find(place, framing) for place in places]
        if twice := [path for path, count in Counter(self.paths).items() if count > 1]:
            raise ValueError(f"FILE: {twice[0]} is named more than once; its messages would count twice")
        for pipe in self._pipes:
            if framing == PARQUET:
                raise ValueError(f"--framing parquet: {pipe.name} is not seekable; name a file")

    @property
    def paths(self) -> list[str]:
        """Local files."""
        found = [file for several in self._found if isinstance(several, list) for file in several]
        return [file.path for file in found if isinstance(file.filesystem, LocalFileSystem)]

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt has ended standard input or a pipe."""
        return any(pipe.interrupted for pipe in self._pipes)

    @property
    def _pipes(self) -> list[StandardInput]:
        return [found for found in self._found if isinstance(found, StandardInput)]

    def __iter__(self) -> Iterator[Messages]:
        return limited(self._all(), self._limit)

    def _all(self) -> Iterator[Messages]:
        for several in self._found:
            if isinstance(several, StandardInput):
                yield from self._piped(several)
                continue
            for file in several:
                yield from self._of(file)

    def _of(self, file: files.File) -> Iterator[Messages]:
        with _progress_bar(file) as advance:
            for messages in _numbered(file.name, file.framing, _batches(file), is_given=self._framing is not None):
                yield messages
                advance(messages.batch)

    def _piped(self, pipe: StandardInput) -> Iterator[Messages]:
        framing = self._framing or "lines"

        def compression_of(start: bytes) -> str:
            if kafka_tools.cut_as(framing) == "lines":
                _check_is_read(pipe.name, start)
            return _compression(start)

        batches = pipe.batches(kafka_tools.cut_as(framing), self._live, compression_of)
        return _numbered(pipe.name, framing, batches, is_given=self._framing is not None)


def _pipe(place: str) -> StandardInput | None:
    """Return standard input, or the pipe that a shell puts in place of `<(...)`."""
    if place == "-":
        return StandardInput()
    try:
        mode = os.stat(place).st_mode
    except (OSError, ValueError):  # not a local path
        return None
    return StandardInput(place) if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode) else None


def _find(place: str, framing: str | None) -> list[files.File]:
    if not place:
        raise ValueError("FILE: the name is empty")
    found = []
    for file in files.find([place], framing="lines", compression="none"):
        is_relative = isinstance(file.filesystem, LocalFileSystem) and "://" not in place and not os.path.isabs(place)
        name = os.path.relpath(file.path) if is_relative else file.name
        known = replace(file, name=name, compression=_compression(_start(file)))
        known = replace(known, framing=framing or _framing(known, place if os.path.isdir(place) else None))
        if kafka_tools.cut_as(known.framing) == "lines":
            _check_is_read(known.name, _start(known))
        found.append(known)
    return found


def _check_is_read(name: str, start: bytes) -> None:
    """Reject lines in an unsupported compression or encoding."""
    unread = _UNREAD_SUFFIXES.get(PurePath(name).suffix)
    if what := next((what for magic, what in _UNREAD.items() if start.startswith(magic)), unread):
        kind, command = what
        raise ValueError(
            f"{name}: {kind} is not supported, only UTF-8, plain or in gzip or zstd: {command} FILE | towpath VERB -"
        )


def _framing(file: files.File, folder: str | None) -> str:
    """Return the framing by the extension, or else by the first bytes: JSON messages are lines."""
    if PurePath(file.path).suffix == ".parquet":
        return PARQUET
    if PurePath(file.path).suffix in _UNREAD_SUFFIXES:
        return "lines"
    try:
        return files.framing_of(file.path)
    except ValueError:
        start = _start(file).lstrip(b"\xef\xbb\xbf \t\r\n")
        if start.startswith(_PARQUET_MAGIC):
            return PARQUET
        if start.startswith((b"{", b"[", *_UNREAD)) or not start:
            return "lines"
        what = f"{file.name}: unknown framing, from the extension and the first bytes"
        cure = f"; to read some files of the folder only, name them, such as {folder}/*.jsonl" if folder else ""
        raise ValueError(f"{what}; set --framing to one of {', '.join(FRAMINGS)}{cure}") from None


def _start(file: files.File) -> bytes:
    """Return the first bytes of a file, decompressed if its compression is known."""
    with file.filesystem.open_input_stream(file.path, compression=None) as opened:
        if file.compression == "none":
            return bytes(opened.read(_SNIFFED))
        with pa.CompressedInputStream(opened, file.compression) as stream:
            return bytes(stream.read(_SNIFFED))


def _compression(start: bytes) -> str:
    """Return the compression by its magic bytes. Neither a message nor its length begins with them."""
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), "none")


def _batches(file: files.File) -> Iterator[pa.RecordBatch]:
    if file.framing == PARQUET:
        return _parquet_batches(file)
    return files.messages(files.whole(replace(file, framing=kafka_tools.cut_as(file.framing))))


def _parquet_batches(file: files.File) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    with file.filesystem.open_input_file(file.path) as opened:
        stored = parquet.ParquetFile(opened)
        if "value" not in stored.schema_arrow.names:
            raise ValueError(f"{file.name}: no column 'value', only {', '.join(stored.schema_arrow.names)}")
        yield from stored.iter_batches(files.BATCH_MESSAGES)


def _numbered(name: str, framing: str, batches: Iterator[pa.RecordBatch], *, is_given: bool) -> Iterator[Messages]:
    """Number the messages, and add a missing column `key`. The first line shows whether `kcat -J` wrote it."""
    first = 1
    for batch in batches:
        if first == 1 and framing == "lines" and not is_given and kafka_tools.is_kcat_json(batch["value"][0].as_py()):
            framing = kafka_tools.KCAT_JSON
        messages = Messages(name, first, batch)
        if framing in kafka_tools.FRAMINGS:
            messages = replace(messages, batch=kafka_tools.records(framing, batch, messages.place))
        if "key" not in messages.batch.schema.names:
            messages = replace(messages, batch=messages.batch.append_column("key", pa.nulls(len(batch), pa.binary())))
        yield messages
        first += len(batch)
    if first == 1:
        show(f"warning: {name} has no messages", sys.stderr)


@contextmanager
def _progress_bar(file: files.File) -> Iterator[Callable[[pa.RecordBatch], object]]:
    """Yield a function that advances the bar, if tqdm is installed: by bytes, or by messages of a compressed file."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield len
        return
    plain = file.compression == "none" and file.framing != PARQUET
    total, unit = (file.size, "B") if plain else (None, " messages")
    name = PurePath(file.path).name
    with tqdm(desc=name, total=total, unit=unit, unit_scale=True, disable=None, leave=False) as bar:
        # In an uncompressed file, advance to the offset of the batch's last message.
        yield lambda batch: bar.update(batch["_offset"][-1].as_py() - bar.n if plain else len(batch))
