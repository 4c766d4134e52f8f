"""The JSON schema of a job's file: its own keys, and the arguments of `replicate` with types and defaults."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from towpath.lakehouse import replicate_options
from towpath.lakehouse.arguments import Place
from towpath.lakehouse.replicate import replicate

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT, "minItems": 1}
_SETTINGS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
"""Names and values. Numbers and booleans become texts as the file has them."""


def _keys(
    description: str, properties: Mapping[str, Any], required: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """Return the schema of a mapping with only these keys."""
    needed = {"required": list(required)} if required else {}
    closed = {"additionalProperties": False, "properties": properties}
    return {"type": "object", "description": description, **needed, **closed, **more}


_SOURCE = {
    "format": {
        "enum": ["kafka", "towpath"],
        "default": "kafka",
        "description": "kafka: Spark's Kafka source. towpath: towpath's own source, which decodes on the workers.",
    },
    "options": {
        **_SETTINGS,
        "description": "Options of the source, such as kafka.bootstrap.servers, subscribe and startingOffsets.",
    },
}
_TRIGGERS = {"processingTime": _TEXT, "availableNow": {"const": True}}
_RULES = {
    "include": {**_TEXTS, "description": "The only columns to write to the target."},
    "exclude": {**_TEXTS, "description": "Columns to leave out of the target."},
    "mask": {
        "type": "object",
        "additionalProperties": _TEXT,
        "description": "SQL expressions over `value`, by column.",
    },
}
_SNAPSHOTS = {
    "format": {**_TEXT, "default": "jdbc", "description": "The format of Spark's reader: jdbc, parquet, csv."},
    "options": {
        **_SETTINGS,
        "description": "Options of the reader for all tables, such as url, user and password.",
    },
    "tables": {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {**_SETTINGS, "type": ["object", "null"]},
        "description": "Each table with its own options, such as path. Without dbtable and query, jdbc reads the table "
        "of this name.",
    },
}
_METRICS = {
    "port": {
        "type": "integer",
        "minimum": 0,
        "maximum": 65535,
        "description": "The port; 0 picks a free one, which is printed.",
    },
    "address": {**_TEXT, "default": "127.0.0.1", "description": "The address to listen on."},
}

_OWN: dict[str, dict[str, Any]] = {
    "source": _keys(
        "Where the messages come from: a format of Spark's readStream and its options.", _SOURCE, ("options",)
    ),
    "target": {
        "description": "The target of each table: a path or a catalog name with {database}, {table} and {topic}; or "
        "database.table to target.",
        "anyOf": [_TEXT, {"type": "object", "additionalProperties": _TEXT, "minProperties": 1}],
    },
    "dialect": {**_TEXT, "default": "auto", "description": "The dialect of the messages, or auto."},
    "checkpoint": {**_TEXT, "description": "The checkpoint folder of the stream."},
    "trigger": _keys("When a batch starts.", _TRIGGERS, minProperties=1, maxProperties=1),
    "options": {"type": "object", "description": "Arguments of the decoder for all tables, such as zero_date."},
    "columns": {
        "type": "object",
        "additionalProperties": _keys("The rules of a table.", _RULES),
        "description": "Columns to include, exclude and mask, by table.",
    },
    "snapshots": _keys(
        "Rows of tables to create their targets with, before any message is read.", _SNAPSHOTS, ("tables",)
    ),
    "spark": {
        **_SETTINGS,
        "propertyNames": {"pattern": r"^(spark|hive)\."},
        "description": "Settings of the Spark session, such as spark.jars.",
    },
    "metrics": _keys("Where Prometheus scrapes the metrics.", _METRICS, ("port",)),
}
"""Keys that are not arguments of `replicate`, or that allow less in a file than in a program."""


def job_schema() -> dict[str, Any]:
    """Return the JSON schema of a job's file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A job of towpath replicate",
        "type": "object",
        "required": ["source", "target", "checkpoint"],
        "additionalProperties": False,
        "properties": {**_OWN, **dict(_arguments())},
    }


def _arguments() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the arguments of `replicate` without a key of the same name, with their schemas."""
    said, parameters = _described(replicate), inspect.signature(replicate).parameters
    left_out = {"messages", "report", "options", *_OWN}
    written = {name: one.annotation for name, one in parameters.items() if name not in left_out}
    # Only type checkers import these names.
    more = {"StructType": dict, "Place": Place}
    types = get_type_hints(SimpleNamespace(__annotations__=written), vars(replicate_options), more)
    for name, kind in types.items():
        yield name, {**_schema(kind, parameters[name].default), **said.get(name, {})}


def _schema(kind: Any, default: Any) -> dict[str, Any]:
    """Return the schema of an argument. It allows null unless null is the default."""
    first, *others = (one for one in _forms(kind) if one != _NULL)
    schema = {"anyOf": [first, *others]} if others else first
    if default is None:
        return schema
    may_be_null = _NULL in _forms(kind)
    return {**schema, **({"type": [first["type"], "null"]} if may_be_null else {}), "default": default}


_NULL = {"type": "null"}
_SIMPLE: dict[Any, dict[str, Any]] = {
    str: _TEXT,
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 1},
    type(None): _NULL,
    Mapping[str, str]: _SETTINGS,
}


def _forms(kind: Any) -> Iterator[dict[str, Any]]:
    """Yield the schemas that a file may use for a type; none for types that only programs have."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _SIMPLE:
        yield _SIMPLE[kind]
    elif origin in (Union, UnionType):
        for one in inner:
            yield from _forms(one)
    elif origin is Literal:
        yield {"enum": list(inner)}
    elif origin is Mapping:
        yield {"type": "object", "additionalProperties": next(_forms(inner[1]), True)}
    elif origin in (Sequence, Collection):
        yield {"type": "array", "items": next(_forms(inner[0]), True), "minItems": 1}


def _described(function: Callable[..., Any]) -> dict[str, dict[str, str]]:
    """Return the descriptions of a function's arguments from its docstring, which Python may omit."""
    text = inspect.getdoc(function) or ""
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE)
    return {name: {"description": " ".join(said.split())} for name, said in found}
