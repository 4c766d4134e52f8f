"""How towpath's properties are written, as Spark hides each value that looks like a secret or an address.

`SHOW TBLPROPERTIES` has `HIDDEN` in place of a value with "password", "token" or "url", which are names of columns too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

OWN = "towpath."
"""How the names of towpath's properties begin."""

HIDDEN = "*********(redacted)"

# The defaults of spark.redaction.regex and of spark.sql.redaction.options.regex.
_LOOKS_SECRET = re.compile(r"secret|password|token|access[.]?key|url", re.IGNORECASE)
_HEX = "hex:"


def written(values: Mapping[str, str]) -> dict[str, str]:
    """Properties as they are written."""
    return {name: _written(value) if name.startswith(OWN) else value for name, value in values.items()}


def _written(value: str) -> str:
    return _HEX + value.encode().hex() if _LOOKS_SECRET.search(value) else value


def read(values: Mapping[str, str]) -> dict[str, str]:
    """Properties as they were before they were written."""
    return {name: _read(value) if name.startswith(OWN) else value for name, value in values.items()}


def _read(value: str) -> str:
    return bytes.fromhex(value.removeprefix(_HEX)).decode() if value.startswith(_HEX) else value


def hidden(values: Mapping[str, str]) -> list[str]:
    """The names of towpath's properties whose values are hidden."""
    return [name for name, value in values.items() if name.startswith(OWN) and value == HIDDEN]
