"""Texts of messages, as they may be shown: in a terminal, a log, an error or a table of states."""

from __future__ import annotations

import re

SHOWN = 1000
"""Characters of a text from a message in a log or a state."""

# Control characters, what changes the direction of text or takes no space, surrogates, and characters that end a line.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
    "|[\U000e0000-\U000e007f]"
)


def printable(text: str, limit: int | None = None, *, keep: str = "") -> str:
    r"""A text without what a terminal obeys: such characters become escapes such as `\x1b`, as in Python.

    Args:
        text: A text that may come from a message.
        limit: The most characters. A longer text is cut, and says how long it was.
        keep: Characters that stay as they are, such as line ends.
    """
    shown = text if limit is None else text[:limit]
    escaped = _UNPRINTABLE.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), shown)
    cut = "" if len(shown) == len(text) else f"... ({len(text)} characters)"
    return f"{escaped if limit is None else escaped[:limit]}{cut}"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
