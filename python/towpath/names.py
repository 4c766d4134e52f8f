"""Names that resemble each other."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant, or None."""
    from difflib import get_close_matches  # needed only when something is wrong

    known = list(names)
    same = next((one for one in known if one.lower() == name.lower()), None)
    return same or next(iter(get_close_matches(name, known, n=1)), None)
