"""What the messages of a table declare: its primary key and the types of its columns."""

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
    """What messages declare, and one of them."""

    key: tuple[str, ...]
    has_types: bool
    example: tuple[bytes | None, bytes | None]
    """The message's key and value; a delete may have no value."""

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return sum(len(part) for part in self.example if part is not None)

    @classmethod
    def of(cls, row: Row) -> Declaration:
        """From a row with the JSON text `declaration` and a message that has it, `example`."""
        said = json.loads(row["declaration"])
        example = row["example"]
        key, value = (None if example[name] is None else bytes(example[name]) for name in ("key", "value"))
        return cls(tuple(said["key"] or ()), bool(said["types"]), (key, value))


_MOST_DECLARED = 8 << 20
"""How many bytes of messages with declarations are kept from batch to batch."""


class KnownDeclarations:
    """What the messages of this and of earlier batches declare, by hash."""

    def __init__(self) -> None:
        self.found: dict[int, Declaration] = {}
        """The one that was needed last is at the end."""

    def learn(self, events: DataFrame, found: Iterable[Row]) -> None:
        """Read the declarations in the events of a batch, and in their summary, that earlier batches did not have."""
        from pyspark.sql import functions as f

        needed = {row["declared"] for row in found if row["declared"] is not None}
        new = needed - self.found.keys()
        for known in needed - new:  # the last one is the one that was needed last
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
        """Keep those that were needed last, of some bytes. A batch that needs another one has a message with it."""
        held = 0
        for declared, one in reversed(list(self.found.items())):
            held += one.size
            if held > _MOST_DECLARED:
                del self.found[declared]


def declared_key(table: str, declarations: Iterable[Declaration], stored: list[str] | None = None) -> list[str]:
    """The primary key in the messages of a table, or that of its target if they declare none.

    Raises:
        ValueError: There is none, or there are several. The text has the table's name.
    """
    found = {tuple(sorted(name.lower() for name in one.key)): one.key for one in declarations if one.key}
    if stored:
        found[tuple(sorted(name.lower() for name in stored))] = tuple(stored)
    if len(found) != 1:
        said = " and ".join(map(str, sorted(found.values()))) or "no primary key"
        given = f"keys={{{table!r}: [...]}}"
        replaced = "if the key was replaced, rebuild the target from a snapshot (towpath.spark.rebuild); otherwise give"
        cure = f"{replaced} one that all rows have: {given}" if found else f"give it: {given}"
        raise ValueError(f"{table}: the messages say {said}; {cure}")
    return list(*found.values())


_OF_SCHEMA = ("database", "table", "schema_registry", "writer_schemas", "unwrapped", "op_column")
"""Options of a decoder that decide which columns are declared."""


def declared_columns(
    declarations: Iterable[Declaration], dialect: Dialect, options: Mapping[str, Any]
) -> StructType | None:
    """The declared columns with types that can store their values; None if nothing is declared."""
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
    """A MySQL TIME can be negative or longer than a day. Lakehouses cannot store intervals, so it is stored as text."""
    return field.with_type(pa.string()) if pa.types.is_duration(field.type) else field
