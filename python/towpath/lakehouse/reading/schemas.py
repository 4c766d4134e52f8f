"""Tables of databases that have schemas, such as PostgreSQL's: the name of one outside of the default schema has it."""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.tables.targets import catalog_parts, source_name

_DEFAULTS = {"sqlserver": "dbo"}
_DEFAULT = "public"
_HAVE_SCHEMAS = frozenset({"postgresql", "postgres", "sqlserver", "oracle", "db2"})
"""Connectors whose databases may have a schema of the database's own name."""


def has_schemas(schema: str | None, database: str | None, connector: str | None) -> bool:
    """Whether the database of a message has schemas. Some producers of changes of MySQL repeat the database as one."""
    return (connector or "").lower() in _HAVE_SCHEMAS or bool(schema and schema != database)


@lru_cache(4096)
def table_name(table: str, schema: str | None, database: str | None, connector: str | None) -> str:
    """The name by which a table is known here: two tables of a database never have the same.

    The connector, whose case does not matter, says which schema is the default one.
    """
    if not schema or not has_schemas(schema, database, connector):
        return table
    default = _DEFAULTS.get((connector or "").lower(), _DEFAULT)
    return table if schema == default and "." not in table else source_name(schema, table)


def table_names(
    tables: pa.StringArray, schemas: pa.StringArray, databases: pa.StringArray, sources: pa.StructArray
) -> pa.StringArray:
    """The same for each event; null where the table is."""
    if schemas.null_count == len(schemas):
        return tables
    connectors = pc.struct_field(sources, "connector").cast(pa.string())
    rows = zip(*(one.to_pylist() for one in (tables, schemas, databases, connectors)), strict=True)
    return pa.array([None if row[0] is None else table_name(*row) for row in rows], pa.string())


def without_schema(name: str) -> list[str]:
    """The name of a table in its schema, if the name may have one; a table of MySQL may have dots in its name too."""
    return catalog_parts(name)[1:] if "." in name else []


def name_pattern(name: str) -> str:
    """A regular expression that matches the name of a table in messages, with its schema or without it."""
    return "|".join(map(re.escape, dict.fromkeys([name, *without_schema(name)])))
