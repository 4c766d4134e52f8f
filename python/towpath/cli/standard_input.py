"""Reads messages from standard input or another pipe as they arrive."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from types import FrameType, TracebackType
from typing import Any

import pyarrow as pa

from towpath import _towpath
from towpath.files import BLOCK_BYTES

NAME = "standard input"

_LIVE_BYTES = 1 << 20
_NO_LIMIT = (1 << 63) - 1


class StandardInput:
    """Standard input, read in pieces. An interrupt (Ctrl-C) also ends it, and the received messages are decoded.

    On Windows `select` cannot wait for a pipe, so an interrupt ends the command at once.
    """

    def __init__(self, path: str | None = None) -> None:
        """Read standard input, or the pipe at a path, such as a shell's `<(...)`."""
        self.name: str = path or NAME
        self.interrupted: bool = False
        self._path = path
        self._opened: int | None = None
        self._insists = False
        self._signals: int | None = None
        self._former_handler: Any = None
        self._former_writer = -1

    def __enter__(self) -> StandardInput:
        # Only the main thread can handle signals.
        if os.name == "posix" and threading.current_thread() is threading.main_thread():
            self._former_handler = signal.signal(signal.SIGINT, self._interrupt)
            self._signals, writer = os.pipe()
            os.set_blocking(writer, False)
            self._former_writer = signal.set_wakeup_fd(writer)
        if self._path is not None:
            self._opened = os.open(self._path, os.O_RDONLY)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None
        if self._signals is not None:
            signal.signal(signal.SIGINT, self._former_handler)
            os.close(signal.set_wakeup_fd(self._former_writer))
            os.close(self._signals)
            self._signals = None

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # Finish decoding first, unless the user interrupts again.
        if self._insists:
            raise KeyboardInterrupt
        self.interrupted = self._insists = True

    def read(self, size: int) -> bytes:
        """Return received bytes, at most `size`. Return no bytes at the end."""
        descriptor = sys.stdin.fileno() if self._opened is None else self._opened
        if self._signals is not None:
            # A signal also makes a descriptor readable, so this call stops waiting for input at any time.
            ready, _, _ = select.select([descriptor, self._signals], [], [])
            if self._signals in ready:
                self.interrupted = True
        return b"" if self.interrupted else os.read(descriptor, size)

    def batches(self, framing: str, live: bool, compression_of: Callable[[bytes], str]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of standard input.

        Args:
            framing: One of `towpath.files.FRAMINGS`.
            live: Whether a batch holds the bytes received so far instead of some megabytes.
            compression_of: Returns the compression by the first bytes.

        Yields:
            Batches with `key` (if the framing has keys), `value` and `_offset`. After an interrupt, an incomplete
            message at the end is dropped.

        Raises:
            ValueError: The input is corrupt: it ends within a message, or a length exceeds the limit.
            OSError: The input cannot be decompressed.
        """
        with self:
            blocks = self._blocks(live, compression_of)
            pending, position, ended, enough = [b""], 0, False, BLOCK_BYTES
            while not ended:
                block = next(blocks, b"")
                ended = not block
                if ended and self.interrupted:
                    return
                pending.append(block)
                size = sum(map(len, pending))
                may_be_complete = b"\n" in block if framing == "lines" else size < BLOCK_BYTES
                if not (ended or may_be_complete or size >= enough):
                    continue
                data = b"".join(pending)
                batch, used = self._cut(data, framing, position, ended)
                # For a message longer than a block, search again when twice as many bytes have arrived.
                enough = BLOCK_BYTES if used else 2 * max(size, BLOCK_BYTES)
                pending, position = [data[used:]], position + used
                if len(batch):
                    yield batch

    def _blocks(self, live: bool, compression_of: Callable[[bytes], str]) -> Iterator[bytes]:
        start = _filled(self.read, 4)
        compression = compression_of(start)
        is_plain = compression == "none"
        read = self.read if is_plain else self._decompressed(start, compression)
        size = _LIVE_BYTES if live else BLOCK_BYTES
        rest = iter(lambda: read(size) if live else _filled(read, size), b"")
        return chain([start] if is_plain and start else [], rest)

    def _cut(self, block: bytes, framing: str, position: int, ended: bool) -> tuple[pa.RecordBatch, int]:
        data = pa.Array.from_buffers(pa.uint8(), len(block), [None, pa.py_buffer(block)])
        try:
            return _towpath.cut(data, framing, position, _NO_LIMIT, ended)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None

    def _decompressed(self, start: bytes, compression: str) -> Callable[[int], bytes]:
        stream = pa.CompressedInputStream(pa.PythonFile(_Concatenated(start, self.read), "r"), compression)

        def read(size: int) -> bytes:
            try:
                found: bytes = stream.read(size)
            except OSError as error:
                if self.interrupted:  # the end of a compressed stream is then missing
                    return b""
                raise OSError(f"{self.name}: {error}") from error
            return found

        return read


def _filled(read: Callable[[int], bytes], size: int) -> bytes:
    """Read as many bytes as requested, or fewer at the end."""
    parts: list[bytes] = []
    while size > 0 and (part := read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Concatenated(io.RawIOBase):
    """Stream of some bytes, followed by a readable source."""

    def __init__(self, start: bytes, read: Callable[[int], bytes]) -> None:
        self._start, self._read = start, read

    def readable(self) -> bool:
        """Return True: the stream can only be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, for `RawIOBase.read`."""
        found = self._start or self._read(len(buffer))
        part, self._start = found[: len(buffer)], found[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)
