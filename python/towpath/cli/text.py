"""Text for terminals. Message contents are shown, but a terminal never obeys them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TextIO

from towpath.printable import printable


def show(text: str, file: TextIO | None = None) -> None:
    """Print a text that may contain parts of messages."""
    print(printable(text, keep="\n"), file=file)


def print_table(rows: Sequence[Sequence[object]]) -> None:
    """Print rows with their columns aligned."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (cell + " " * (size - width(cell)) for cell, size in zip(row, widths, strict=True))
        print("  ".join(padded).rstrip())


def width(text: str) -> int:
    """Return the number of terminal columns that a text takes. Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
