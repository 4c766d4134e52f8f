"""The code blocks of the documents."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def blocks(document: str, language: str = "python") -> list[str]:
    """The document's blocks of code."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def block(document: str, word: str) -> str:
    """The document's Python block that has the word."""
    [found] = [block for block in blocks(document) if word in block]
    return found


def run(document: str, code: str, names: dict[str, Any]) -> None:
    """Run a block of the document, with these names and with those that it makes."""
    exec(compile(code, document, "exec"), names)


def run_block(document: str, word: str, names: dict[str, Any]) -> None:
    """The same for the Python block that has the word."""
    run(document, block(document, word), names)
