"""Finds the values of arguments such as `columns` and `keys` for a table, by all names that it may have there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

from towpath.lakehouse.reading.schemas import without_schema
from towpath.lakehouse.tables.targets import argument_name

# gh-ost: _x_gho, _x_ghc, _x_del, _x_20240131235959_del. pt-online-schema-change: _x_new, _x_old, with more underscores
# if these names exist. If the name would be too long, x is shortened.
_SUFFIX = "(?:gho|ghc|del|new|old)"
_COPY = re.compile(rf"(_+)(.+?)(_\d{{14}})?_{_SUFFIX}")
_LONGEST = 64


def originals(table: str) -> list[str]:
    """Return the names of tables that an online migration copies under this name."""
    found = _COPY.fullmatch(table)
    if found is None:
        return []
    underscores, name, time = found.groups()
    names = [f"{name}{time}", name] if time else [name]
    return ["_" * count + one for count in range(len(underscores)) for one in names]


def is_cut(table: str) -> bool:
    """Return whether a name may have been shortened. Servers count characters; gh-ost counts bytes."""
    return _LONGEST in (len(table), len(table.encode()))


def is_copy(table: str, original: str) -> bool:
    """Return whether a name is the name of a table's copy."""
    found = originals(table)
    return original in found or (is_cut(table) and any(original.startswith(one) for one in found))


_Rule = TypeVar("_Rule")


def rule_of(rules: Mapping[str, _Rule], database: str | None, table: str) -> _Rule | None:
    """Return the value of an argument such as `keys` for a table, its original, or its name without schema.

    The first match wins. An original is the table that this table is a copy of.
    """
    return next(iter(rules_of(rules, database, table)), None)


def rules_of(rules: Mapping[str, _Rule], database: str | None, table: str) -> list[_Rule]:
    """Return all values for a table, in the same order."""
    return [rules[key] for key in _keys_of(tuple(rules), database, table)] if rules else []


@lru_cache(4096)
def _keys_of(keys: tuple[str, ...], database: str | None, table: str) -> list[str]:
    """Return the keys for a table: its name, its originals (longest first), its name without schema."""
    prefix = argument_name(database, "")
    copies = [key for key in keys if key.startswith(prefix) and is_copy(table, key[len(prefix) :])]
    plain = (argument_name(database, name) for name in without_schema(table))
    found = [argument_name(database, table), *sorted(copies, key=len, reverse=True), *plain]
    return [key for key in found if key in keys]
