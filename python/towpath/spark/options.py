"""What Spark's users write as options, which are text, as arguments of a decoder and settings of a source of files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from towpath.files import COMPRESSIONS, FRAMINGS

KEPT = {"_file": "string", "_offset": "int64"}
"""What can be kept beside the rows, with its Arrow type: the file of a message, and its first byte in there."""


@dataclass(frozen=True)
class Settings:
    """The options of one read."""

    arguments: dict[str, Any]
    """Arguments of `towpath.Decoder`."""
    places: tuple[str, ...]
    framing: str
    file_compression: str
    pattern: str
    part_bytes: int


def settings(options: Mapping[str, str]) -> Settings:
    """Options as settings; their names are the same in upper and lower case.

    Raises:
        ValueError: An option is not known, or says nothing that it can say.
    """
    read = {_known(name): _read(_known(name), text) for name, text in options.items()}
    own = {name: read.pop(name, default) for name, default in _DEFAULTS.items()}
    places = (*own["paths"], *own["path"])
    return Settings(
        read, places, own["framing"], own["file_compression"], own["pathGlobFilter"], own["maxPartitionBytes"]
    )


def _known(name: str) -> str:
    if name.lower() not in _NAMES:
        raise ValueError(f"unknown option {name!r}; allowed are {', '.join(_READERS)}")
    return _NAMES[name.lower()]


def _read(name: str, text: str) -> Any:
    try:
        return _READERS[name](text)
    except ValueError as error:
        raise ValueError(f"option {name}: {text!r} is not {error}") from None


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _kept(text: str) -> tuple[str, ...]:
    if not set(_names(text)) <= set(KEPT):
        raise ValueError(f"of {', '.join(KEPT)}")
    return _names(text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"JSON: {error}") from None


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return text

    return read


def _bytes(text: str) -> int:
    """A number of bytes, as Spark's own settings spell it: 67108864, 65536k, 64m, 64MB."""
    number = re.fullmatch(r"(\d+)\s*([kmg]?)b?", text.strip().lower())
    if not number or not int(number[1]):
        raise ValueError("a number of bytes")
    return int(number[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[number[2]]


_TEXTS = (
    "dialect",
    "schema",
    "database",
    "table",
    "layout",
    "mode",
    "time_zone",
    "zero_date",
    "compression",
    "missing",
    "claim_check",
    "decimal_handling_mode",
    "time_precision_mode",
    "binary_handling_mode",
    "bigint_unsigned_handling_mode",
    "writer_schema",
)

_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_TEXTS, str),
    "fields": _names,
    "keep": _kept,
    "labels": _json,
    "column_types": _json,
    "case_sensitive": _flag,
    "lenient": _flag,
    "path": lambda text: (text,),
    "paths": _json,  # so Spark passes several paths of one load
    "framing": _one_of("auto", *FRAMINGS),
    "file_compression": _one_of("auto", *COMPRESSIONS),
    "pathGlobFilter": str,
    "maxPartitionBytes": _bytes,
}

_NAMES = {name.lower(): name for name in _READERS}

_DEFAULTS: dict[str, Any] = {
    "path": (),
    "paths": (),
    "framing": "auto",
    "file_compression": "auto",
    "pathGlobFilter": "*",
    "maxPartitionBytes": 128 << 20,
}
