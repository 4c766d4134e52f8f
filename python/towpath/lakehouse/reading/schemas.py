"""Names of tables in databases with schemas, such as PostgreSQL. Names outside of the default schema contain it."""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.tables.targets import catalog_parts, source_name

_DEFAULTS = {"sqlserver": "dbo"}
_DEFAULT = "public"
_HAVE_SCHEMAS = frozenset({"postgresql", "postgres", "sqlserver", "oracle", "db2"})
"""Connectors whose databases may have a schema with the database's name."""


def has_schemas(schema: str | None, database: str | None, connector: str | None) -> bool:
    """Return whether a message's database has schemas. Some MySQL producers repeat the database as the schema."""
    return (connector or "").lower() in _HAVE_SCHEMAS or bool(schema and schema != database)


@lru_cache(4096)
def table_name(table: str, schema: str | None, database: str | None, connector: str | None) -> str:
    """Return the name by which towpath knows a table. It is unique within a database.

    The connector decides which schema is the default. Its case does not matter.
    """
    if not schema or not has_schemas(schema, database, connector):
        return table
    default = _DEFAULTS.get((connector or "").lower(), _DEFAULT)
    return table if schema == default and "." not in table else source_name(schema, table)


def table_names(
    tables: pa.StringArray, schemas: pa.StringArray, databases: pa.StringArray, sources: pa.StructArray
) -> pa.StringArray:
    """Return the name of each event's table; null where the table is null."""
    if schemas.null_count == len(schemas):
        return tables
    connectors = pc.struct_field(sources, "connector").cast(pa.string())
    rows = zip(*(one.to_pylist() for one in (tables, schemas, databases, connectors)), strict=True)
    return pa.array([None if row[0] is None else table_name(*row) for row in rows], pa.string())


def without_schema(name: str) -> list[str]:
    """Return the name of a table in its schema, if it may have one. A MySQL table may have dots in its name too."""
    return catalog_parts(name)[1:] if "." in name else []


def name_pattern(name: str) -> str:
    """Return a regular expression that matches a table's name in messages, with or without its schema."""
    return "|".join(map(re.escape, dict.fromkeys([name, *without_schema(name)])))


def filter_options(database: str | None, name: str) -> dict[str, str]:
    """Return decoder options that select a table."""
    return {"table": name_pattern(name), **({"database": re.escape(database)} if database else {})}
