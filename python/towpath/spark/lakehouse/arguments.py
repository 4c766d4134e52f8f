"""Checks arguments at the call: a wrong one would otherwise fail in a batch, or put a table aside."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from towpath.decoder import Decoder
from towpath.names import did_you_mean

if TYPE_CHECKING:
    from towpath.literals import Dialect


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """An argument that is one of some texts.

    Raises:
        ValueError: It is another one. The text has the argument's name and what is allowed.
    """
    if value in allowed:
        return str(value)
    expected = " or ".join(f'"{one}"' for one in allowed)
    raise ValueError(f"{name}: {did_you_mean(str(value), allowed)}expected {expected}, not {value!r}")


def place(name: str, value: Any) -> str | None:
    """A path or a name of a table as text; a `pathlib.Path` is accepted.

    Raises:
        ValueError: It is neither.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise ValueError(f"{name}: expected a path or the name of a table, not {value!r}")


def by_name(name: str, value: Any, example: str) -> dict[str, Any]:
    """A mapping whose keys are names, such as those of tables.

    Args:
        name: The argument.
        value: What was given; None is an empty mapping.
        example: What it may look like, for the error.

    Raises:
        ValueError: It is no mapping from texts.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name}: expected a mapping such as {example}, not {value!r}")
    return dict(value)


def columns_by_table(name: str, value: Any) -> dict[str, Sequence[str]]:
    """A mapping from "database.table" to the names of columns.

    Raises:
        ValueError: It is none.
    """
    found = by_name(name, value, '{"shop.orders": ["id"]}')
    for table, columns in found.items():
        is_list = isinstance(columns, Sequence) and not isinstance(columns, str | bytes)
        if not is_list or not all(isinstance(one, str) for one in columns):
            raise ValueError(f'{name}: {table}: expected a list of columns such as ["id"], not {columns!r}')
    return found


def trigger(value: Any) -> dict[str, Any] | None:
    """The arguments of `DataStreamWriter.trigger`.

    Raises:
        ValueError: It is no mapping, or has another name.
    """
    if value is None:
        return None
    found = by_name("trigger", value, '{"availableNow": True}')
    for one in found:
        if one not in _TRIGGERS:
            one_of("trigger", one, _TRIGGERS)
    return found


def check_decoders(
    dialect: Dialect,
    options: Mapping[str, Any],
    schemas: Mapping[str, Any],
    table_options: Mapping[str, Any],
) -> None:
    """Make the decoder of each table that has arguments of its own.

    Raises:
        ValueError: The decoder refuses a schema or an option, or replicate chooses the option.
    """
    for table in {**schemas, **table_options}:
        more = by_name(f"table_options: {table}", table_options.get(table), '{"zero_date": "error"}')
        check_free(more)
        try:
            Decoder(dialect, schemas.get(table), layout="upsert", **{**options, **more})
        except ValueError as error:
            raise ValueError(f"{table}: {error}") from None


def check_free(options: Mapping[str, Any]) -> None:
    """Refuse arguments of a decoder that are not the user's.

    Raises:
        ValueError: One is among the options.
    """
    for name in ("layout", "fields", "mode", "schema", "value", "key", "keep", "row_column"):
        if name in options:
            raise ValueError(f"{name}: replicate chooses it")


_TRIGGERS = ("availableNow", "processingTime", "once", "continuous", "realTime")


def names(name: str, value: bool | Collection[str]) -> bool | Collection[str]:
    """Whether all, or the names of some.

    Raises:
        ValueError: It is neither; a single text would be taken for its letters.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str) or not isinstance(value, Collection):
        raise ValueError(f"{name}: expected a boolean or a collection of names, not {value!r}")
    return frozenset(value)
