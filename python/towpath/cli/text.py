"""Text for terminals."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def print_table(rows: Sequence[Sequence[object]]) -> None:
    """Print rows with their columns aligned."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (cell + " " * (size - width(cell)) for cell, size in zip(row, widths, strict=True))
        print("  ".join(padded).rstrip())


def width(text: str) -> int:
    """How many columns of a terminal the text takes: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
