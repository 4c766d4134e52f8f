"""Captured files: finding them, splitting them, and cutting them into messages. Knows no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, FSSpecHandler, LocalFileSystem, PyFileSystem

from towpath import _towpath

FRAMINGS = ("lines", "length-prefixed", "key-value")
COMPRESSIONS = ("none", "gzip", "zstd")

BLOCK_BYTES = 8 << 20
"""How much of a file is in memory at once, unless a message is longer."""

BATCH_MESSAGES = 10_000

OPENING_BYTES = 4 << 20
"""What opening a file costs, in bytes that could be read meanwhile: Spark's own estimate."""

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
    """The path as users spell it, with the scheme of its file system."""
    size: int
    framing: str
    compression: str
    number: int
    """Its place among the files that are read together."""


@dataclass(frozen=True)
class Part:
    """The messages that begin in a range of a file's bytes."""

    file: File
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes of the file it is; of a compressed file, all."""
        return min(self.end, self.file.size) - self.start


def filesystem(place: str) -> tuple[FileSystem, str]:
    """The file system of a path or URI, and the path in it.

    Raises:
        ValueError: Neither pyarrow nor fsspec knows the URI's scheme.
    """
    if "://" not in place and not place.startswith("file:"):
        return LocalFileSystem(), str(Path(place).absolute())
    try:
        known, path = FileSystem.from_uri(place)
    except pa.ArrowInvalid as error:
        return _of_fsspec(place, error)
    return known, path


def _of_fsspec(place: str, error: Exception) -> tuple[FileSystem, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ValueError(f"{error}; fsspec, which knows more file systems, is not installed") from error
    known, path = url_to_fs(place)
    return PyFileSystem(FSSpecHandler(known)), path


def find(places: Iterable[str], pattern: str = "*", framing: str = "auto", compression: str = "auto") -> Iterator[File]:
    """The files at some paths, each place's in the order of their names.

    Args:
        places: Paths or URIs of files, of folders, whose files are meant, or with `*`, `?` and `[...]` in the names.
            What a listing finds is left out if its name begins with a dot or an underscore.
        pattern: Which file names are meant.
        framing: One of `FRAMINGS`, or "auto": by the file's name.
        compression: One of `COMPRESSIONS`, or "auto": by the file's name.

    Raises:
        FileNotFoundError: There is no such file at a place.
        ValueError: A file's name does not say its framing.
    """
    number = count()
    for place in places:
        known, folder, wanted = _parsed(place)
        infos = [
            info for info in _files(known, known.get_file_info(folder), wanted) if fnmatchcase(info.base_name, pattern)
        ]
        if not infos:
            raise FileNotFoundError(f"no file at {place}" + (f" with a name like {pattern}" if pattern != "*" else ""))
        scheme = f"{place.partition('://')[0]}://" if "://" in place else ""
        for info in sorted(infos, key=lambda info: info.path):
            told = _framing(info.path) if framing == "auto" else framing
            packed = _compression(info.path) if compression == "auto" else compression
            yield File(known, info.path, scheme + info.path, info.size, told, packed, next(number))


def _parsed(place: str) -> tuple[FileSystem, str, list[str]]:
    """A place's file system, the folder before the first name that is a pattern, and the names from there on."""
    is_uri = "://" in place
    path, query, parameters = place.partition("?") if is_uri else (place, "", "")
    parts = path.split("/")
    first = next((at for at, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    if first == len(parts) or (not is_uri and Path(place).exists()):
        return *filesystem(place), []
    folder = "/".join(parts[:first]) or ("/" if first else ".")
    return *filesystem(folder + query + parameters), parts[first:]


def _files(known: FileSystem, found: FileInfo, wanted: list[str]) -> Iterator[FileInfo]:
    """The files that are meant by what was found: itself, those of a folder, or those of the wanted names in it."""
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


def _framing(path: str) -> str:
    name = PurePosixPath(path)
    name = name.with_suffix("") if name.suffix in _COMPRESSIONS else name
    if name.suffix in _FRAMINGS:
        return _FRAMINGS[name.suffix]
    raise ValueError(f"framing: {path} does not say it by its name; allowed are {', '.join(FRAMINGS)}")


def split(file: File, size: int) -> list[Part]:
    """Parts of a file of about `size` bytes; the whole of a compressed one, which can only be read from its beginning.

    Lines are told apart from anywhere. Behind lengths the places between two messages are known only to who reads from
    the beginning, so a file that is larger than `size` is read once here.
    """
    if file.compression != "none":
        return [Part(file, 0, _UNKNOWN_SIZE)]
    starts = list(range(0, file.size, size) if file.framing == "lines" else _beginnings(file, size)) or [0]
    return [Part(file, start, end) for start, end in zip(starts, [*starts[1:], file.size], strict=True)]


def _beginnings(file: File, size: int) -> Iterator[int]:
    """Beginnings of messages that are at least `size` apart."""
    at = 0
    while at < file.size:
        yield at
        if file.size - at <= size:
            return
        for _, end in _cuts(Part(file, at, at + size)):
            at = end


def whole(file: File) -> Part:
    """All of a file."""
    return Part(file, 0, file.size if file.compression == "none" else _UNKNOWN_SIZE)


def together(parts: Iterable[Part], size: int) -> Iterator[tuple[Part, ...]]:
    """Parts in their order, as many at once as are worth a task of about `size` bytes."""
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
    """The messages of a part, in batches: `key` (if the framing has keys), `value`, and `_offset`, where they begin.

    Raises:
        ValueError: The file is damaged: it ends within a message, or a length is beyond the bound.
        OSError: It cannot be read, or expanded.
    """
    # A line belongs to the part in which it begins: from the byte before, the first line is the rest of another one.
    is_within = part.start > 0 and part.file.framing == "lines"
    for batch, _ in _cuts(Part(part.file, part.start - is_within, part.end)):
        first = int(is_within)
        is_within = is_within and not len(batch)
        for start in range(first, len(batch), BATCH_MESSAGES):
            yield batch.slice(start, BATCH_MESSAGES)


def _cuts(part: Part) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The messages that begin in a part, the first with it, and where the one behind them begins."""
    with part.file.filesystem.open_input_file(part.file.path) as opened:
        blocks = _Plain(opened, part) if part.file.compression == "none" else _Packed(opened, part)
        at, size, is_last = part.start, 0, False
        while at < part.end and not is_last:
            # A little more than the part, as its last message may end behind it.
            size = size or min(BLOCK_BYTES, part.end - at + BLOCK_BYTES // 64)
            block, is_last = blocks.read(at, size)
            batch, used = _cut(block, part, at, is_last)
            at += used
            size = 0 if used else 2 * size
            yield batch, at


def _cut(block: pa.Buffer, part: Part, at: int, is_last: bool) -> tuple[pa.RecordBatch, int]:
    octets = pa.Array.from_buffers(pa.uint8(), block.size, [None, block])
    try:
        return _towpath.cut(octets, part.file.framing, at, part.end, is_last)
    except ValueError as error:
        raise ValueError(f"{part.file.name}: {error}") from None


class _Plain:
    """Blocks of a file as it is."""

    def __init__(self, opened: pa.NativeFile, part: Part) -> None:
        self._file, self._name, self._size = opened, part.file.name, opened.size()
        if self._size < part.end:
            raise OSError(
                f"{self._name}: {self._size} bytes, but it had at least {part.end} when the query was planned"
            )

    def read(self, at: int, size: int) -> tuple[pa.Buffer, bool]:
        """Up to `size` bytes from `at` on, and whether the file ends there."""
        self._file.seek(at)
        block = self._file.read_buffer(size)
        if not block.size:
            raise OSError(f"{self._name}: nothing to be read at byte {at} of {self._size}")
        return block, at + block.size >= self._size


class _Packed:
    """Blocks of a compressed file, one behind the other."""

    def __init__(self, opened: pa.NativeFile, part: Part) -> None:
        self._stream, self._name = pa.CompressedInputStream(opened, part.file.compression), part.file.name
        self._block, self._at = pa.py_buffer(b""), 0

    def read(self, at: int, size: int) -> tuple[pa.Buffer, bool]:
        """What is left of the last block from `at` on, with more behind it, and whether the file ends there."""
        rest = self._block.slice(at - self._at)
        try:
            more = self._stream.read(size - rest.size if size > rest.size else size)
        except OSError as error:
            raise OSError(f"{self._name}: byte {at + rest.size} of what is compressed there: {error}") from error
        self._block, self._at = pa.py_buffer(b"".join((rest, more))), at
        return self._block, not more
