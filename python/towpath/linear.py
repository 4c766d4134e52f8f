"""Regular expressions of users over names that others choose, in time linear in the name."""

from __future__ import annotations

import re
from functools import lru_cache

from towpath import _towpath

# What Python's notation and that of Rust's regex have in common. Look-around, references back and flags are not in it.
_CHARACTER = r"[^\\\[\](){}^$?+*|]|\\[.\\\-()\[\]{}^$?+*|/dws]"
_CLASS = r"\[\^?(?:[^\\\[\]&~^-]|\\[.\\\-()\[\]{}^$?+*|/dws]|(?<=[\w])-(?=\w))+\]"
_GROUP = r"\((?:\?:|\?P<\w+>)?|\)|\|"
_REPEAT = r"[*+?]\??|\{\d+(?:,\d*)?\}\??"
_COMMON = re.compile(rf"(?:{_CHARACTER}|{_CLASS}|{_GROUP}|{_REPEAT})*")

_CLASSES = {r"\w": r"\w\p{N}", r"\s": r"\s\x1c-\x1f"}
"""Python's classes in Rust's notation, with some characters more."""


def full_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """As `pattern.fullmatch(text)`.

    An expression such as `(a+)+b` would take Python a time exponential in a text that it does not match. So the text is
    first matched in linear time, if the expression has nothing but what that can be done for.
    """
    return pattern.fullmatch(text) if _may_match(pattern, text) else None


@lru_cache(4096)
def _may_match(pattern: re.Pattern[str], text: str) -> bool:
    """False only if the text does not match."""
    if pattern.flags != re.UNICODE or not _COMMON.fullmatch(pattern.pattern) or r"[^" in pattern.pattern:
        return True
    translated = re.sub(r"\[[^\]]*\]|\\.", lambda found: _translated(found[0]), pattern.pattern)
    return _towpath.may_match(f"(?s:{translated})", text)


def _translated(part: str) -> str:
    """A class or an escape, with those characters that Python's classes have besides."""
    if part in _CLASSES:
        return f"[{_CLASSES[part]}]"
    for name, characters in _CLASSES.items() if part.startswith("[") else ():
        part = part.replace(name, characters)
    return part
