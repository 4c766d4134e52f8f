"""Converts the text options of the data source to arguments of `towpath.Decoder` and settings of the source.

Every argument of `Decoder` is an option. Its type annotation decides how the text is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from towpath.arguments import DialectOptions
from towpath.decoder import PARAMETERS
from towpath.files import COMPRESSIONS, FRAMINGS
from towpath.foreign_json import parsed_json
from towpath.names import did_you_mean

Parser = Callable[[str], Any]
"""Parser of an option's text. It raises a `ValueError` with the expected form."""

KEPT = {"_file": "string", "_offset": "int64"}
"""Columns that `keep` can name, with their Arrow types: the file of a message, and the offset of its first byte."""


@dataclass(frozen=True)
class Settings:
    """Options of one read."""

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
    arguments = parsed(options, _PARSERS)
    own = {name: arguments.pop(name, default) for name, default in _DEFAULTS.items()}
    return Settings(
        arguments=arguments,
        paths=(*own["paths"], *own["path"]),
        framing=own["framing"],
        file_compression=own["file_compression"],
        pattern=own["pathGlobFilter"],
        part_bytes=own["maxPartitionBytes"],
    )


def parsed(options: Mapping[str, str], parsers: Mapping[str, Parser]) -> dict[str, Any]:
    """Return the values of options by their canonical names.

    Raises:
        ValueError: An option has no parser, or its parser refuses the text with the expected form.
    """
    canonical = {name.lower(): name for name in parsers}
    values = {}
    for given, text in options.items():
        if given.lower() not in canonical:
            raise ValueError(
                f"unknown option {given!r}; {did_you_mean(given, parsers)}expected one of {', '.join(parsers)}"
            )
        name = canonical[given.lower()]
        try:
            values[name] = parsers[name](text)
        except ValueError as error:
            raise ValueError(f"option {name}: {text!r} is not {error}") from None
    return values


def flag(text: str) -> bool:
    """Parse true or false."""
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def kept(allowed: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """Return a parser of names of input columns."""

    def parse(text: str) -> tuple[str, ...]:
        if not set(_names(text)) <= set(allowed):
            raise ValueError(f"of {', '.join(allowed)}")
        return _names(text)

    return parse


def _json(text: str) -> Any:
    try:
        return parsed_json(text)
    except ValueError as error:
        raise ValueError(f"JSON: {error}") from None


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a parser that accepts one of these names."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return text

    return parse


def size(text: str) -> int:
    """Parse a size in the notation of Spark's settings: 67108864, 65536k, 64m, 64MB."""
    number = re.fullmatch(r"(\d+)\s*([kmg]?)b?", text.strip().lower())
    if not number or not int(number[1]):
        raise ValueError("a number of bytes")
    return int(number[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[number[2]]


def _parser(annotation: str) -> Callable[[str], Any]:
    """Return the parser of an argument of this type."""
    by_type = {"bool": flag, "int": size, "Sequence": _names, "Mapping": _json, "list": _json}
    return next((parse for name, parse in by_type.items() if annotation.startswith(name)), str)


_ANNOTATIONS = {name: str(parameter.annotation) for name, parameter in PARAMETERS.items()}

# The signature of `Decoder` lacks the options of single dialects.
_DIALECT_OPTIONS: dict[str, str] = {name: one.__forward_arg__ for name, one in DialectOptions.__annotations__.items()}

# The source itself chooses the columns of the message and its key.
DECODER_PARSERS: dict[str, Parser] = {
    name: _parser(annotation)
    for name, annotation in (_ANNOTATIONS | _DIALECT_OPTIONS).items()
    if name not in ("value", "key")
}
"""Parsers of the arguments of `towpath.Decoder`."""

_PARSERS: dict[str, Parser] = {
    **DECODER_PARSERS,
    "keep": kept(KEPT),
    "path": lambda text: (text,),
    "paths": _json,  # Spark passes the list of a load() with several paths as JSON
    "framing": one_of("auto", *FRAMINGS),
    "file_compression": one_of("auto", *COMPRESSIONS),
    "pathGlobFilter": str,
    "maxPartitionBytes": size,
}

_DEFAULTS: dict[str, Any] = {
    "path": (),
    "paths": (),
    "framing": "auto",
    "file_compression": "auto",
    "pathGlobFilter": "*",
    "maxPartitionBytes": 128 << 20,
}
