"""Claim checks: TiCDC stores a message that is too large for Kafka in a file, and sends the file's path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from pyarrow.fs import FileSystem, FileType, LocalFileSystem

from towpath.files import filesystem

_NAME_BYTES = 255
"""Maximum file name length of common file systems, in bytes."""

_SHOWN_CHARACTERS = 80

_UNREADABLE = (FileNotFoundError, PermissionError, ValueError)
"""Errors of a single file. Other errors, such as network errors, affect the whole place and may pass."""


def stored_messages(
    claims: Iterable[tuple[int, str]], location: str, limit: int, max_bytes: int | None
) -> Iterator[tuple[int | None, dict[int, bytes | str]]]:
    """Yield the messages that claim checks refer to, in parts. Each file is read once per part.

    Args:
        claims: Index of each message that is a claim check, in ascending order, and the path that its producer wrote.
        location: Folder or URI that contains the files now.
        limit: Maximum bytes of a file.
        max_bytes: A part ends with the file that reaches this size. None reads all files at once.

    Yields:
        The index of the next part's first message, or None for the last part, and the stored message for each index of
        the part. A text in its place says why the file cannot be read.

    Raises:
        OSError: The folder does not exist, or its file system does not answer.
    """
    claims = list(claims)
    if not claims:
        yield None, {}
        return
    known, folder = filesystem(location)
    if isinstance(known, LocalFileSystem) and not Path(folder).is_dir():
        raise FileNotFoundError(f"claim_check: {location!r} is not a folder")
    files: dict[str, bytes | str] = {}
    stored: dict[int, bytes | str] = {}
    read = 0
    for index, path in claims:
        if max_bytes is not None and read >= max_bytes:
            yield index, stored
            files, stored, read = {}, {}, 0
        # Use only the file name of a path, since the folder may have been moved.
        name = PurePosixPath(path).name
        if name not in files:
            files[name] = _content(known, folder, name, limit)
            read += len(files[name])
        stored[index] = files[name]
    yield None, stored


def _content(known: FileSystem, folder: str, name: str, limit: int) -> bytes | str:
    """Return a file's content, or as text why it cannot be read."""
    try:
        return _read(known, _path(known, folder, name), limit)
    except _UNREADABLE as error:
        shown = name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}..."
        return f"{shown!r} {error}"


def _path(known: FileSystem, folder: str, name: str) -> str:
    if name in ("", ".", "..") or "\0" in name or len(name.encode()) > _NAME_BYTES:
        raise ValueError("is not a file name")
    if not isinstance(known, LocalFileSystem):
        return f"{folder}/{name}"
    base = os.path.realpath(folder)
    path = os.path.realpath(f"{base}/{name}")
    # A path that is still a link is part of a circle.
    if (os.path.dirname(path) != base and not path.startswith(f"{base}{os.sep}")) or os.path.islink(path):
        raise ValueError("is a link to a file outside of the folder")
    return path


def _read(known: FileSystem, path: str, limit: int) -> bytes:
    info = known.get_file_info(path)
    if info.type is FileType.NotFound:
        raise FileNotFoundError("does not exist")
    if info.type is not FileType.File:
        raise ValueError("is not a regular file")
    # Some file systems do not know the size beforehand.
    size = limit if info.size is None else info.size
    content = b"" if size > limit else _first_bytes(known, path, size + 1)
    if max(size, len(content)) > limit:
        raise ValueError(f"has more than {limit} bytes (claim_check_limit)")
    if not content:
        raise ValueError("is empty")
    return content


def _first_bytes(known: FileSystem, path: str, count: int) -> bytes:
    with known.open_input_file(path) as file:
        content: bytes = file.read(count)
    return content
