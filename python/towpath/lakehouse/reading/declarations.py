"""Declarations in the messages of a table: its primary key and the types of its columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.lakehouse.merging.jobs import FEW_ROWS, session_settings
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

    from towpath.literals import Dialect


@dataclass(frozen=True)
class Declaration:
    """Declaration of messages, and an example of these messages."""

    key: tuple[str, ...]
    has_types: bool
    example: tuple[bytes | None, bytes | None]
    """Key and value of the message. A delete may have no value."""

    @property
    def size(self) -> int:
        """Size of the example in bytes."""
        return sum(len(part) for part in self.example if part is not None)

    @classmethod
    def of(cls, row: Row | Mapping[str, Any]) -> Declaration:
        """Read a row with the JSON text `declaration` and a message that has it, `example`."""
        said = json.loads(row["declaration"])
        example = row["example"]
        key, value = (None if example[name] is None else bytes(example[name]) for name in ("key", "value"))
        return cls(tuple(said["key"] or ()), bool(said["types"]), (key, value))


_MOST_DECLARED = 8 << 20
"""Maximum bytes of example messages that are kept between batches."""


class KnownDeclarations:
    """Declarations of the messages of this batch and earlier batches, by hash."""

    def __init__(self) -> None:
        self.found: dict[int, Declaration] = {}
        """Declarations by hash, least recently needed first."""

    def learn(self, events: DataFrame, found: Iterable[Row]) -> None:
        """Read the declarations of a batch that earlier batches did not have."""
        from pyspark.sql import functions as f

        needed = {row["declared"] for row in found if row["declared"] is not None}
        new = needed - self.found.keys()
        for known in needed - new:  # move it to the end
            self.found[known] = self.found.pop(known)
        if not new:
            return
        declared = events.filter(f.col("declaration").isNotNull() & f.col("declared").isin(list(new)))
        with session_settings(events.sparkSession, FEW_ROWS):
            examples = declared.groupBy("declared").agg(
                f.first("declaration").alias("declaration"), f.first(f.struct("key", "value")).alias("example")
            )
            self.found.update({row["declared"]: Declaration.of(row) for row in examples.collect()})

    def forget(self) -> None:
        """Keep the most recently needed declarations, up to a size. A batch has messages for the others."""
        held = 0
        for declared, one in reversed(list(self.found.items())):
            held += one.size
            if held > _MOST_DECLARED:
                del self.found[declared]


def declared_key(table: str, declarations: Iterable[Declaration], stored: list[str] | None = None) -> list[str]:
    """Return the primary key that a table's messages declare, or the key of its target if they declare none.

    Raises:
        ValueError: No key, or more than one, is declared. The text has the table's name.
    """
    found = {tuple(sorted(name.lower() for name in one.key)): one.key for one in declarations if one.key}
    if stored:
        found[tuple(sorted(name.lower() for name in stored))] = tuple(stored)
    if len(found) != 1:
        said = " and ".join(map(str, sorted(found.values()))) or "no primary key"
        given = f"keys={{{table!r}: [...]}}"
        replaced = "if the key was replaced, rebuild the target from a snapshot (towpath.spark.rebuild); otherwise set"
        cure = f"{replaced} one that all rows have: {given}" if found else f"set {given}"
        raise ValueError(f"{table}: the messages declare {said}; {cure}")
    return list(*found.values())


_OF_SCHEMA = ("database", "table", "schema_registry", "writer_schemas", "unwrapped", "op_column")
"""Options of a decoder that decide which columns are declared."""


def declared_columns(
    declarations: Iterable[Declaration], dialect: Dialect, options: Mapping[str, Any]
) -> StructType | None:
    """Return the declared columns with types that can store their values; None if nothing is declared."""
    from towpath.decoder import infer_schema

    examples = [one.example for one in declarations if one.has_types]
    if not examples:
        return None
    columns = {
        "value": pa.array([value for _, value in examples], pa.binary()),
        "key": pa.array([key for key, _ in examples], pa.binary()),
    }
    given = {name: options[name] for name in _OF_SCHEMA if name in options}
    inferred = infer_schema(pa.record_batch(columns), dialect, **given)
    return struct_type(pa.schema([storable(field) for field in inferred]))


def storable(field: pa.Field) -> pa.Field:
    """Return a field that a lakehouse can store. A MySQL TIME may be negative or exceed a day, so it becomes text."""
    return field.with_type(pa.string()) if pa.types.is_duration(field.type) else field
