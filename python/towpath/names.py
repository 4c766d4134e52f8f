"""Finds similar names."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, or None."""
    from difflib import get_close_matches  # imported only for an error

    known = list(names)
    same = next((one for one in known if one.lower() == name.lower()), None)
    return same or next(iter(get_close_matches(name, known, n=1)), None)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return an error's question about an unknown name with a trailing blank; empty if no name resembles it."""
    probable = nearest(name, names)
    return f"did you mean {probable}? " if probable else ""
