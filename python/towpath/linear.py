"""Matches users' regular expressions with names from messages, in time linear in the name's length."""

from __future__ import annotations

import re
from functools import lru_cache

from towpath import _towpath

# The common syntax of Python's and Rust's regular expressions. It excludes look-around, back-references and flags.
_CHARACTER = r"[^\\\[\](){}^$?+*|]|\\[.\\\-()\[\]{}^$?+*|/dws]"
_CLASS = r"\[\^?(?:[^\\\[\]&~^-]|\\[.\\\-()\[\]{}^$?+*|/dws]|(?<=[\w])-(?=\w))+\]"
_GROUP = r"\((?:\?:|\?P<\w+>)?|\)|\|"
_REPEAT = r"[*+?]\??|\{\d+(?:,\d*)?\}\??"
_COMMON = re.compile(rf"(?:{_CHARACTER}|{_CLASS}|{_GROUP}|{_REPEAT})*")

_CLASSES = {r"\w": r"\w\p{N}", r"\s": r"\s\x1c-\x1f"}
"""Python's classes in Rust's notation, with some additional characters."""


def full_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Match like `pattern.fullmatch(text)`, but reject a mismatch in linear time if possible.

    For an expression such as `(a+)+b`, Python's time is exponential in a text that does not match. So the text is first
    matched in linear time, if the expression only uses syntax that allows it.
    """
    return pattern.fullmatch(text) if _may_match(pattern, text) else None


@lru_cache(4096)
def _may_match(pattern: re.Pattern[str], text: str) -> bool:
    """Return False only if the text does not match."""
    if pattern.flags != re.UNICODE or not _COMMON.fullmatch(pattern.pattern) or r"[^" in pattern.pattern:
        return True
    translated = re.sub(r"\[[^\]]*\]|\\.", lambda found: _translated(found[0]), pattern.pattern)
    return _towpath.may_match(f"(?s:{translated})", text)


def _translated(part: str) -> str:
    """Translate a class or an escape, with the additional characters of Python's classes."""
    if part in _CLASSES:
        return f"[{_CLASSES[part]}]"
    for name, characters in _CLASSES.items() if part.startswith("[") else ():
        part = part.replace(name, characters)
    return part
