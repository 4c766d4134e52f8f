"""Options of the data source, which Spark passes as text, as arguments of `towpath.Decoder` and settings of the source.

Every argument of `Decoder` is an option. The type in its annotation decides how the text is parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from towpath.decoder import PARAMETERS
from towpath.files import COMPRESSIONS, FRAMINGS

KEPT = {"_file": "string", "_offset": "int64"}
"""Columns that `keep` can name, with their Arrow types: the file of a message, and the offset of its first byte."""


@dataclass(frozen=True)
class Settings:
    """The options of one read."""

    arguments: dict[str, Any]
    """Arguments of `towpath.Decoder`."""
    paths: tuple[str, ...]
    framing: str
    file_compression: str
    pattern: str
    part_bytes: int


def parse_options(options: Mapping[str, str]) -> Settings:
    """Parse options. Their names are case-insensitive.

    Raises:
        ValueError: An option is unknown, or its value is invalid.
    """
    arguments = {_canonical(name): _parse(_canonical(name), text) for name, text in options.items()}
    own = {name: arguments.pop(name, default) for name, default in _DEFAULTS.items()}
    return Settings(
        arguments=arguments,
        paths=(*own["paths"], *own["path"]),
        framing=own["framing"],
        file_compression=own["file_compression"],
        pattern=own["pathGlobFilter"],
        part_bytes=own["maxPartitionBytes"],
    )


def _canonical(name: str) -> str:
    if name.lower() not in _NAMES:
        raise ValueError(f"unknown option {name!r}; allowed are {', '.join(_PARSERS)}")
    return _NAMES[name.lower()]


def _parse(name: str, text: str) -> Any:
    try:
        return _PARSERS[name](text)
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
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return text

    return parse


def _bytes(text: str) -> int:
    """A size in the notation of Spark's settings: 67108864, 65536k, 64m, 64MB."""
    number = re.fullmatch(r"(\d+)\s*([kmg]?)b?", text.strip().lower())
    if not number or not int(number[1]):
        raise ValueError("a number of bytes")
    return int(number[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[number[2]]


def _parser(annotation: str) -> Callable[[str], Any]:
    """How text becomes an argument of this type."""
    by_type = {"bool": _flag, "int": _bytes, "Sequence": _names, "Mapping": _json, "list": _json}
    return next((parse for name, parse in by_type.items() if annotation.startswith(name)), str)


# Options of one dialect are not in the signature of `Decoder`.
_DIALECT_OPTIONS = {
    "column_types": "Mapping[str, str]",
    "decimal_handling_mode": "str",
    "time_precision_mode": "str",
    "binary_handling_mode": "str",
    "bigint_unsigned_handling_mode": "str",
    "writer_schema": "str",
    "schema_registry": "str",  # a URL or JSON
    "writer_schemas": "Mapping[int, str]",
    "table_schemas": "list[str]",
    "unwrapped": "bool",
}

_ANNOTATIONS = {name: str(parameter.annotation) for name, parameter in PARAMETERS.items()} | _DIALECT_OPTIONS

# The source itself decides which columns have the message and its key.
_PARSERS: dict[str, Callable[[str], Any]] = {
    **{name: _parser(annotation) for name, annotation in _ANNOTATIONS.items() if name not in ("value", "key")},
    "keep": _kept,
    "path": lambda text: (text,),
    "paths": _json,  # Spark passes the list of a load() with several paths in this form
    "framing": _one_of("auto", *FRAMINGS),
    "file_compression": _one_of("auto", *COMPRESSIONS),
    "pathGlobFilter": str,
    "maxPartitionBytes": _bytes,
}

_NAMES = {name.lower(): name for name in _PARSERS}

_DEFAULTS: dict[str, Any] = {
    "path": (),
    "paths": (),
    "framing": "auto",
    "file_compression": "auto",
    "pathGlobFilter": "*",
    "maxPartitionBytes": 128 << 20,
}
