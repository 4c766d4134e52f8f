"""Files of captured messages: finds, splits, and reads them as batches of messages, without Spark.

`pyarrow.fs` is imported where it is used, since it takes 20 ms. Readers of topics import this module, but need no
files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath import _towpath

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

FRAMINGS = _towpath.FRAMINGS
COMPRESSIONS = ("none", "gzip", "zstd")

BLOCK_BYTES = 8 << 20
"""Bytes of a file that are in memory at once, unless a single message is longer."""

BATCH_MESSAGES = 10_000

OPENING_BYTES = 4 << 20
"""Cost of opening a file, in bytes that could be read in that time: Spark's `openCostInBytes`."""

_FRAMINGS = {
    ".json": "lines",
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".lenrec": "length-prefixed",
    ".kvrec": "key-value",
}
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_UNKNOWN_SIZE = (1 << 63) - 1


@dataclass(frozen=True)
class File:
    """A file of messages."""

    filesystem: FileSystem
    path: str
    name: str
    """Path with the scheme of its file system, as users write it."""
    size: int
    framing: str
    compression: str
    number: int
    """Index among the files of one read."""


@dataclass(frozen=True)
class Part:
    """Messages that start in a byte range of a file."""

    file: File
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of bytes. A compressed file counts as a whole."""
        return min(self.end, self.file.size) - self.start


def filesystem(place: str) -> tuple[FileSystem, str]:
    """Return the file system of a path or URI, and the path within it.

    Raises:
        ValueError: Neither pyarrow nor fsspec supports the URI's scheme.
    """
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" not in place and not place.startswith("file:"):
        return LocalFileSystem(), str(Path(place).absolute())
    try:
        known, path = FileSystem.from_uri(place)
    except pa.ArrowInvalid as error:
        return _of_fsspec(place, error)
    return known, path


def _of_fsspec(place: str, error: Exception) -> tuple[FileSystem, str]:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ValueError(f"{error}; install fsspec for more file systems") from error
    known, path = url_to_fs(place)
    return PyFileSystem(FSSpecHandler(known)), path


def find(places: Iterable[str], pattern: str = "*", framing: str = "auto", compression: str = "auto") -> Iterator[File]:
    """Yield the files of some paths, ordered by name within each path.

    Args:
        places: Paths or URIs of files or folders, or glob patterns with `*`, `?` and `[...]`. Files that a folder or
            pattern lists are skipped if their names start with a dot or an underscore.
        pattern: Glob pattern of the file names to include.
        framing: One of `FRAMINGS`, or "auto" for the framing by the file's extension.
        compression: One of `COMPRESSIONS`, or "auto" for the compression by the file's extension.

    Raises:
        FileNotFoundError: No file matches a path.
        ValueError: A file's extension does not determine its framing.
    """
    from pyarrow.fs import FileType

    number = count()
    for place in places:
        known, folder, wanted = _parsed(place)
        infos = [
            info for info in _files(known, known.get_file_info(folder), wanted) if fnmatchcase(info.base_name, pattern)
        ]
        if not infos:
            like = f" with a name like {pattern}" if pattern != "*" else ""
            is_folder = not wanted and known.get_file_info(folder).type == FileType.Directory
            raise FileNotFoundError(f"no file {'in the folder' if is_folder else 'at'} {place}{like}")
        scheme = f"{place.partition('://')[0]}://" if "://" in place else ""
        for info in sorted(infos, key=lambda info: info.path):
            found_framing = framing_of(info.path) if framing == "auto" else framing
            found_compression = _compression(info.path) if compression == "auto" else compression
            yield File(known, info.path, scheme + info.path, info.size, found_framing, found_compression, next(number))


def _parsed(place: str) -> tuple[FileSystem, str, list[str]]:
    """Return a path's file system, the folder before its first component with a wildcard, and the other components."""
    is_uri = "://" in place
    path, query, parameters = place.partition("?") if is_uri else (place, "", "")
    parts = path.split("/")
    first = next((at for at, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    if first == len(parts) or (not is_uri and Path(place).exists()):
        return *filesystem(place), []
    folder = "/".join(parts[:first]) or ("/" if first else ".")
    return *filesystem(folder + query + parameters), parts[first:]


def _files(known: FileSystem, found: FileInfo, wanted: list[str]) -> Iterator[FileInfo]:
    """Yield a file itself, the files of a folder, or the files below it that match the patterns, one per level."""
    from pyarrow.fs import FileSelector, FileType

    if found.type == FileType.File and not wanted:
        yield found
    elif found.type == FileType.Directory:
        name, *deeper = wanted or ["*"]
        for inner in known.get_file_info(FileSelector(found.path)):
            is_meant = fnmatchcase(inner.base_name, name) and not inner.base_name.startswith((".", "_"))
            if is_meant and (wanted or inner.type == FileType.File):
                yield from _files(known, inner, deeper)


def _compression(path: str) -> str:
    return _COMPRESSIONS.get(PurePosixPath(path).suffix, "none")


def framing_of(path: str) -> str:
    """Return the framing by a file's extension, before the extension of its compression.

    Raises:
        ValueError: The extension is unknown.
    """
    name = PurePosixPath(path)
    name = name.with_suffix("") if name.suffix in _COMPRESSIONS else name
    if name.suffix in _FRAMINGS:
        return _FRAMINGS[name.suffix]
    raise ValueError(f"framing: unknown extension of {path}; set framing to one of {', '.join(FRAMINGS)}")


def split(file: File, size: int) -> list[Part]:
    """Split a file into parts of about `size` bytes. A compressed file is one part: it must be read from its start.

    Line boundaries can be found from any offset. Boundaries of length-prefixed messages can only be found by reading
    from the start, so a file that is larger than `size` is scanned once here.
    """
    if file.compression != "none":
        return [Part(file, 0, _UNKNOWN_SIZE)]
    starts = list(range(0, file.size, size) if file.framing == "lines" else _message_starts(file, size)) or [0]
    return [Part(file, start, end) for start, end in zip(starts, [*starts[1:], file.size], strict=True)]


def _message_starts(file: File, size: int) -> Iterator[int]:
    """Yield offsets of messages that are at least `size` bytes apart."""
    at = 0
    while at < file.size:
        yield at
        if file.size - at <= size:
            return
        for _, end in _message_batches(Part(file, at, at + size)):
            at = end


def whole(file: File) -> Part:
    """Return a whole file as one part."""
    return Part(file, 0, file.size if file.compression == "none" else _UNKNOWN_SIZE)


def together(parts: Iterable[Part], size: int) -> Iterator[tuple[Part, ...]]:
    """Group consecutive parts so that each group costs a task about `size` bytes."""
    gathered: list[Part] = []
    cost = 0
    for part in parts:
        cost += part.size + OPENING_BYTES
        if gathered and cost > size:
            yield tuple(gathered)
            gathered, cost = [], part.size + OPENING_BYTES
        gathered.append(part)
    if gathered:
        yield tuple(gathered)


def messages(part: Part) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a part in batches with `key` (if the framing has keys), `value`, and `_offset`.

    Raises:
        ValueError: The file is corrupt: it ends within a message, or a length exceeds the limit.
        OSError: The file cannot be read or decompressed.
    """
    # A line belongs to the part in which it starts. Reading starts one byte early, so the first line belongs to the
    # previous part.
    is_within = part.start > 0 and part.file.framing == "lines"
    for batch, _ in _message_batches(Part(part.file, part.start - is_within, part.end)):
        first = int(is_within)
        is_within = is_within and not len(batch)
        for start in range(first, len(batch), BATCH_MESSAGES):
            yield batch.slice(start, BATCH_MESSAGES)


def _message_batches(part: Part) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield batches of the messages that start in a part, each with the offset of the message after it."""
    with part.file.filesystem.open_input_file(part.file.path) as opened:
        blocks = _PlainReader(opened, part) if part.file.compression == "none" else _CompressedReader(opened, part)
        at, size, is_last = part.start, 0, False
        while at < part.end and not is_last:
            # Read slightly more than the part, since its last message may end after it.
            size = size or min(BLOCK_BYTES, part.end - at + BLOCK_BYTES // 64)
            block, is_last = blocks.read(at, size)
            batch, used = _cut(block, part, at, is_last)
            at += used
            size = 0 if used else 2 * size
            yield batch, at


def _cut(block: pa.Buffer, part: Part, at: int, is_last: bool) -> tuple[pa.RecordBatch, int]:
    data = pa.Array.from_buffers(pa.uint8(), block.size, [None, block])
    try:
        return _towpath.cut(data, part.file.framing, at, part.end, is_last)
    except ValueError as error:
        raise ValueError(f"{part.file.name}: {error}") from None


class _PlainReader:
    """Reader of blocks of an uncompressed file."""

    def __init__(self, opened: pa.NativeFile, part: Part) -> None:
        self._file, self._name, self._size = opened, part.file.name, opened.size()
        if self._size < part.end:
            raise OSError(
                f"{self._name}: has {self._size} bytes, but had at least {part.end} when the query was planned"
            )

    def read(self, at: int, size: int) -> tuple[pa.Buffer, bool]:
        """Return up to `size` bytes from offset `at`, and whether the file ends there."""
        self._file.seek(at)
        block = self._file.read_buffer(size)
        if not block.size:
            raise OSError(f"{self._name}: no data at byte {at} of {self._size}")
        return block, at + block.size >= self._size


class _CompressedReader:
    """Reader of consecutive blocks of a compressed file."""

    def __init__(self, opened: pa.NativeFile, part: Part) -> None:
        self._stream, self._name = pa.CompressedInputStream(opened, part.file.compression), part.file.name
        self._block, self._at = pa.py_buffer(b""), 0

    def read(self, at: int, size: int) -> tuple[pa.Buffer, bool]:
        """Return the rest of the previous block from offset `at` with more data, and whether the file ends there."""
        rest = self._block.slice(at - self._at)
        try:
            more = self._stream.read(size - rest.size if size > rest.size else size)
        except OSError as error:
            raise OSError(f"{self._name}: byte {at + rest.size} of the decompressed data: {error}") from error
        self._block, self._at = pa.py_buffer(b"".join((rest, more))), at
        return self._block, not more
