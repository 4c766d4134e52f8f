"""Names that resemble each other."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant, or None."""
    from difflib import get_close_matches  # needed only when something is wrong

    known = list(names)
    same = next((one for one in known if one.lower() == name.lower()), None)
    return same or next(iter(get_close_matches(name, known, n=1)), None)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The question that an error asks about an unknown name, with a blank at its end; empty if no name resembles it."""
    probable = nearest(name, names)
    return f"did you mean {probable}? " if probable else ""
