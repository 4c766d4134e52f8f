"""Makes texts from messages safe to show: in a terminal, a log, an error or a table of states."""

from __future__ import annotations

import re

SHOWN = 1000
"""Maximum characters of a text from a message in a log or a state."""

# Control characters, characters that change the text direction or take no space, surrogates, and line ends.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
    "|[\U000e0000-\U000e007f]"
)


def printable(text: str, limit: int | None = None, *, keep: str = "") -> str:
    r"""Replace the characters that a terminal obeys with escapes such as `\x1b`, as in Python.

    Args:
        text: A text that may come from a message.
        limit: Maximum characters. A longer text is cut, with a note of its length.
        keep: Characters that stay unchanged, such as line ends.
    """
    shown = text if limit is None else text[:limit]
    escaped = _UNPRINTABLE.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), shown)
    cut = "" if len(shown) == len(text) else f"... ({len(text)} characters)"
    return f"{escaped if limit is None else escaped[:limit]}{cut}"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
