"""The target of each source table: the argument `target` of `replicate`.

A target is a text: the path of a Delta table, or the name of a table in a catalog with each part in backticks.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from towpath.ddl import quoted
from towpath.linear import full_match

Target = (
    str
    | os.PathLike[str]
    | Mapping[str, str]
    | Mapping[tuple[str, str], str]
    | Mapping[re.Pattern[str], str]
    | Callable[[str, str], str | None]
)

COMPANIONS = ("tombstones", "history")
"""Suffixes of the tables that belong to a target."""

_PLACEHOLDERS = ("{database}", "{table}", "{topic}")
_PLACEHOLDER = re.compile(r"(\{[^{}]*\})")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/@:]+:(?!\d{2,5}/).*@", re.DOTALL)
_CATALOG_NAME = re.compile(r"(?:(?:`(?:[^`]|``)+`|[^.`]+)(?:\.(?!\Z)|\Z))+")
_DATABASE = re.compile(r"(`(?:[^`]|``)+`|[^.`]*)\.")
_CATALOG_PART = re.compile(r"`(?:[^`]|``)+`|[^.`]+")

# Characters that end a segment, are undone as an escape, end the path of a URI, or begin Spark's `${...}`.
_ENCODED = frozenset("/\\%#?$")
# Folders that identify a table or a sink to readers. A database of this name would turn the folder above into a table.
_RESERVED = frozenset(("_delta_log", "_change_data", "_delta_index", "_spark_metadata", "_symlink_format_manifest"))
_COMPANION = re.compile(rf"__(?:{'|'.join(COMPANIONS)})_*\Z", re.IGNORECASE)


def is_path(target: str) -> bool:
    """Return whether a target is a path. A catalog name may have a slash between backticks."""
    before, slash, _ = target.partition("/")
    return bool(slash) and "`" not in before


def catalog_parts(target: str) -> list[str]:
    """Return the parts of a catalog name without backticks."""
    return [_unquoted(part) for part in _CATALOG_PART.findall(target)]


def sibling(target: str, name: str) -> str:
    """Return a table with another name in the same database; for a path, in the current database."""
    parents = [] if is_path(target) else catalog_parts(target)[:-1]
    return ".".join(map(quoted, [*parents, name]))


def companion(target: str, suffix: str) -> str:
    """Return the table that belongs to a target, such as its tombstones. `suffix` is one of `COMPANIONS`.

    A template never gives a source table a target with such a suffix.
    """
    return suffixed(target, f"__{suffix}")


def suffixed(target: str, suffix: str) -> str:
    """Append a suffix to a path, or to a name as the user wrote it."""
    if target.endswith("`") and not is_path(target):
        return f"{target[:-1]}{suffix}`"
    return f"{target.rstrip('/')}{suffix}"


class Targets:
    """Function from `(database, table, topic)` to the target of a source table.

    It refuses a table whose target belongs to another table or is one of replicate's own tables. Tables share a target
    if a function or a mapping says so: this merges the shards of a table.
    """

    stored: Callable[[str], str | None] | None = None
    """Function that returns the `source_name` in a target's properties, or None. It needs a session."""

    def __init__(self, target: Target, own: Iterable[str] = (), companions: Collection[str] = COMPANIONS) -> None:
        """Check the argument.

        Args:
            target: A template with `{database}`, `{table}` and `{topic}`; a mapping from "database.table", or from a
                tuple of both, to the target; or a function of both that returns the target, or None to skip the table.
            own: Targets and checkpoints that belong to no source table.
            companions: Suffixes of the tables next to targets.

        Raises:
            ValueError: The template has an unknown placeholder, has neither `{table}` nor `{topic}`, or is not a name.
        """
        target = os.fspath(target) if isinstance(target, os.PathLike) else target
        self._find = _finder(target)
        self._is_template = isinstance(target, str)
        self._is_shareable = isinstance(target, str) and not _separates(target)
        self._own = [_comparable(absolute(path)) for path in own]
        self._sources: dict[str, str] = {}
        self._suffixes = companions

    @property
    def may_share(self) -> bool:
        """Whether tables can share a target."""
        return not self._is_template

    def __call__(self, database: str | None, table: str, topic: str = "") -> str | None:
        """Return the target of a table; None to skip it.

        Raises:
            ValueError: The target is taken, or the table lacks a part of the name that the template needs.
        """
        target = self._find(database or "", table, topic)
        if target is not None:
            self._check_place(target, source_name(database, table))
            if self._is_template:
                self._check_source(target, database or "", table, topic)
            else:
                self._check_companions(target, source_name(database, table))
        return target

    def _check_place(self, target: str, name: str) -> None:
        parts = re.split("/+", target) if is_path(target) else catalog_parts(target)
        if not _RESERVED.isdisjoint(part.lower() for part in parts):
            raise ValueError(f"target: {name} would be at {target}, a reserved folder of a table")
        key = _comparable(target)
        for own in self._own:
            if key == own or key.startswith(own + "/") or own.startswith(key + "/"):
                raise ValueError(f"target: {name} would be at {target}, which overlaps {own}, used by replicate itself")

    def _check_source(self, target: str, database: str, table: str, topic: str) -> None:
        key, name = _comparable(target), source_name(database, table)
        first = self._sources.get(key)
        if first is None:
            first = self._sources.setdefault(key, self._owner(target, database, table, topic) or name)
        if first != name:
            raise ValueError(
                f"target: {first} and {name} would share {target}; "
                f"use a template with {{database}}, or a function for shards of one table"
            )

    def _check_companions(self, target: str, name: str) -> None:
        """Refuse a target that is a companion of another target. A template never makes such a target."""
        key = _comparable(target)
        for suffix in self._suffixes:
            end = f"__{suffix}"
            if first := self._sources.get(key + end):
                raise ValueError(f"target: {name} would have its {suffix} in the target of {first}")
            if key.endswith(end) and (first := self._sources.get(key.removesuffix(end))):
                raise ValueError(f"target: {name} would be at {target}, which belongs to the target of {first}")
        self._sources.setdefault(key, name)

    def _owner(self, target: str, database: str, table: str, topic: str) -> str | None:
        """Return the other table for which an earlier query created a target.

        Ignore a table with another target by this template: its name came with a copy that RENAME TABLE made.
        """
        stored = self.stored(target) if self.stored and self._is_shareable else None
        if stored in (None, source_name(database, table)):
            return None
        *databases, name = catalog_parts(stored)
        with suppress(ValueError):  # the template needs a database
            found = self._find("".join(databases), name, topic)
            return stored if found is not None and _comparable(found) == _comparable(target) else None
        return None


def source_name(database: str | None, table: str) -> str:
    """Return the name of a source table as text, such as "shop.orders". Names are unique."""
    return ".".join(quoted(part) if set(part) & {".", "`"} else part for part in (database, table) if part)


def split_name(full_name: str) -> tuple[str, str]:
    """Split a table's name in arguments into the database, which may be empty, and the table.

    The first dot ends the database, since the name of a table may begin with its schema. A database with a dot in its
    own name is in backticks.
    """
    found = _DATABASE.match(full_name)
    return (_unquoted(found[1]), full_name[found.end() :]) if found else ("", full_name)


def argument_name(database: str | None, table: str) -> str:
    """Return the name of a table in arguments such as `keys`."""
    return f"{database or None}.{table}"


_Finder = Callable[[str, str, str], str | None]
_Template = Callable[[Mapping[str, str]], str]
"""Function from the values of placeholders to a target."""


def _finder(target: Target) -> _Finder:
    assert not isinstance(target, os.PathLike)  # the caller has converted it to text
    if isinstance(target, str):
        absolute(target)  # check first, before an error shows a password
        find = _template(target, _PLACEHOLDERS)
        if "{table}" not in target and "{topic}" not in target:
            raise ValueError(f"target: {target!r} has no {{table}}, so all tables would share one target")
        return lambda database, table, topic: find(_names(database, table, topic))
    if isinstance(target, Mapping):
        return _lookup(target)
    if not callable(target):
        expected = 'a template such as "/lake/{database}/{table}", a mapping or a function'
        raise ValueError(f"target: expected {expected}, not {target!r}")
    return lambda database, table, _: _given(target(database, table))


def _names(database: str, table: str, topic: str) -> dict[str, str]:
    """Return the values of `_PLACEHOLDERS`."""
    return dict(zip(_PLACEHOLDERS, (database, table, topic), strict=True))


def _template(template: str, known: Iterable[str]) -> _Template:
    """Return the function of a template with these placeholders."""
    unknown = [placeholder for placeholder in _PLACEHOLDER.findall(template) if placeholder not in known]
    if unknown:
        raise ValueError(f"target: unknown {unknown[0]} in {template!r}; expected one of {', '.join(known)}")
    return _path_template(template) if "/" in template else _catalog_template(template)


def _path_template(template: str) -> _Template:
    path = absolute(template)
    segments = path.split("/")

    def find(names: Mapping[str, str]) -> str:
        filled = _filled(path, names, encoded).split("/")
        return _reserved("/".join(map(_visible, segments, filled)))

    return find


def _visible(template: str, segment: str) -> str:
    """Escape a filled segment of a path template that readers would skip or take for a table's folder.

    Readers skip names that begin with `_` or `.`, and recognize tables by some names. If a name begins such a segment,
    its first character is escaped. If template and name together form a reserved name, its first character is escaped
    too.
    """
    begins = _PLACEHOLDER.match(template) and segment[0] in "_."
    if segment != template and (begins or segment.lower() in (*_RESERVED, ".", "..")):
        return f"%{ord(segment[0]):02X}{segment[1:]}"
    return segment


def _separates(template: str) -> bool:
    """Return whether all tables have their own targets: database and table are in separate segments."""
    segments = template.split("/")
    is_apart = all(len(_PLACEHOLDER.findall(segment)) <= 1 for segment in segments)
    return is_path(template) and is_apart and "{database}" in template and "{table}" in template


def _catalog_template(template: str) -> _Template:
    if not _CATALOG_NAME.fullmatch(template):
        raise ValueError(f"target: {template!r} is neither a path, which has a slash, nor the name of a table")
    parts = catalog_parts(template)

    def find(names: Mapping[str, str]) -> str:
        filled = [_filled(part, names, str) for part in parts]
        return ".".join(quoted(name) for name in [*filled[:-1], _reserved(filled[-1])])

    return find


def _unquoted(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part


def _filled(template: str, names: Mapping[str, str], convert: Callable[[str], str]) -> str:
    """Replace the placeholders once: braces in a name have no meaning."""
    filled = []
    for part in _PLACEHOLDER.split(template):
        name = names.get(part, part)
        if not name and part in names:
            of_table = repr(names["{table}"])
            raise ValueError(f"target: a message of the table {of_table} has no {part[1:-1]}, which {template!r} needs")
        filled.append(convert(name) if part in names else part)
    return "".join(filled)


def _reserved(target: str) -> str:
    """Append an underscore to a target that ends like a companion, so that it never is another target's companion."""
    return f"{target}_" if _COMPANION.search(target) else target


def _lookup(targets: Mapping[Any, str]) -> _Finder:
    """Look up a mapping's targets: first by name, then by regular expression in their order."""
    patterns = [_pattern(key, target) for key, target in targets.items() if isinstance(key, re.Pattern)]
    sources: dict[str, tuple[str, str]] = {}

    def find(database: str, table: str, topic: str) -> str | None:
        if (database, table) in targets:
            return _given(targets[database, table])
        name = f"{database}.{table}"
        if name not in targets:
            found = (pattern(database, table, topic) for pattern in patterns)
            return next((target for target in found if target is not None), None)
        first = sources.setdefault(name, (database, table))
        if first != (database, table):
            raise ValueError(
                f"target: {name!r} is ambiguous: {first} or {(database, table)}; use such tuples as keys of the mapping"
            )
        return _given(targets[name])

    return find


def _pattern(pattern: re.Pattern[str], target: str) -> _Finder:
    """Return the target of tables whose whole name "database.table" matches. Groups are placeholders too."""
    fill = _template(target, (*_PLACEHOLDERS, *(f"{{{name}}}" for name in pattern.groupindex)))

    def find(database: str, table: str, topic: str) -> str | None:
        if (found := full_match(pattern, f"{database}.{table}")) is None:
            return None
        groups = {f"{{{name}}}": text or "" for name, text in found.groupdict().items()}
        return fill({**groups, **_names(database, table, topic)})

    return find


def _given(target: str | None) -> str | None:
    return absolute(target) if target is not None and is_path(target) else target


def absolute(target: str) -> str:
    """Make a path absolute, as Delta's SQL requires. A relative path is in the working directory.

    Raises:
        ValueError: The target is a URL with a password.
    """
    if not is_path(target):
        return target
    if _PASSWORD.match(target):
        raise ValueError(
            "the path has a password, which would appear in plans, logs and tables: pass it in a setting, such "
            "as spark.hadoop.fs.s3a.secret.key"
        )
    path = target.rstrip("/")
    return path if path.startswith("/") or _SCHEME.match(path) else os.path.abspath(path)


def _comparable(target: str) -> str:
    """Return a key that is equal for two texts of one target. Catalogs ignore case."""
    if not is_path(target):
        return ".".join(catalog_parts(target)).lower()
    path = re.sub("^file:/+", "/", target, flags=re.IGNORECASE)
    return re.sub("(?<!:)/+", "/", path.rstrip("/"))


def encoded(name: str) -> str:
    """Encode a name as part of a path segment. Different names stay different, and no name leads to another folder.

    Slashes, `%`, `#`, `?`, `$`, control characters and the names `.` and `..` are percent-encoded. Other characters
    stay, in their own Unicode normal form.
    """
    if name in (".", ".."):
        return "%2E" * len(name)
    return "".join(map(_encoded_character, name))


def _encoded_character(character: str) -> str:
    if character not in _ENCODED and unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp"):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
