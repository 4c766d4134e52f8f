"""Finds passwords in settings, and hides them in texts of other libraries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from towpath.foreign_json import parsed_json

_WORDS = r"password|passphrase|pwd|secret|token|credential|(?:access|account|sas|api|private)[._]?key"
_NAMED = re.compile(
    rf"(?:.*(?:{_WORDS}|user\.info|jaas|keystore\.key))(?!.*(?:provider|class|url|location|file|path)\Z)", re.IGNORECASE
)
_VALUE = r"""(?:\\".*?\\"|"[^"]*"|'[^']*'|(?:[^\s&;,"'\\]|\\(?!["']))+)"""
_ASSIGNED = re.compile(rf"((?:{_WORDS})\w*=)({_VALUE})", re.IGNORECASE)
"""Assignments, such as in a database URL or in the text of a login, also within JSON text."""

# Match up to the last `@` of the URL: a password may contain `@` and `/`, although it should be percent-encoded.
_USER_INFO = r"//((?:(?!,\s*https?://).)*)@"


def secret_values(settings: Any) -> list[str]:
    """Return secrets, the longest first, including parts of a URL's password between `@` and `/`.

    Args:
        settings: Mapping of settings. It may contain other mappings, also as JSON.
    """
    found: set[str] = set()
    for name, value in _texts("", settings):
        named = [value] if _NAMED.match(name) else []
        # In other URLs the text before `@` may be a container.
        users = [one for one in re.findall(_USER_INFO, value) if ":" in one or value.startswith("http")]
        passwords = [text.partition(":")[2] for text in (*named, *users)]
        parts = [part for text in passwords[len(named) :] for part in re.split(r"[@/:?#,\s]+", text) if len(part) > 2]
        assigned = [one.strip("\"'") for _, one in _ASSIGNED.findall(value)]
        found |= {*named, *users, *passwords, *parts, *assigned}
    found |= {*map(unquote, found)}
    found |= {json.dumps(one)[1:-1] for one in found}
    return sorted(filter(None, found), key=len, reverse=True)


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts of settings with their names."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = parsed_json(value)
        except ValueError:
            yield name, value
            return
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _texts(str(key), one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(name, one)
    elif isinstance(value, str):
        yield name, value


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Return the text without these secrets, and without values that it assigns to a password."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return _ASSIGNED.sub(r"\1***", text)


def shown_url(text: str) -> str:
    """Return a text without the credentials in its URLs."""
    return re.sub(_USER_INFO, "//***@", text, flags=re.DOTALL)
