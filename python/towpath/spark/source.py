"""Files of messages as a data source of Spark: `spark.read.format("towpath")`.

The workers read the files and decode them, and the JVM sees only the rows. This module needs pyspark 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from towpath import files
from towpath._towpath import DecodeError
from towpath.archives import forget_importers
from towpath.decoder import Decoder
from towpath.scalars import integer, text
from towpath.spark.options import KEPT, Settings, settings

# `_sequence` orders changes by the input's `offset`: here by file, and in it by the message's place.
_FILE_BITS = 44


class TowpathDataSource(DataSource):
    """Files of messages, decoded where they are read. `docs/source.md` has its options."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._settings = settings(options)
        self._schema = _decoder(self._settings, "lines").spark_schema

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` calls it."""
        return "towpath"

    def schema(self) -> StructType:
        """The columns of the layout and of `keep`."""
        return self._schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch.

        Raises:
            ValueError: `DataFrameReader.schema` asked for other columns than the layout has, or no path is named.
        """
        if _shape(schema) != _shape(self._schema):
            raise ValueError(
                f'the rows are {self._schema.simpleString()}: name the table\'s columns in option("schema", ...), '
                "envelope columns in fields, and do not call schema()"
            )
        if not self._settings.places:
            raise ValueError("path: name a file, a folder or a pattern, in load()")
        return TowpathReader(self._settings)


def _shape(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


@dataclass
class MessagePartition(InputPartition):
    """What one task reads: a part of a large file, or several small files."""

    parts: tuple[files.Part, ...]


class TowpathReader(DataSourceReader):
    """Finds and splits the files where the query is planned, reads and decodes them on the workers."""

    def __init__(self, asked: Settings) -> None:
        self._settings = asked

    def partitions(self) -> list[InputPartition]:
        """Parts of all files, in their order."""
        asked = self._settings
        found = files.find(asked.places, asked.pattern, asked.framing, asked.file_compression)
        parts = (part for file in found for part in files.split(file, asked.part_bytes))
        return [MessagePartition(parts) for parts in files.together(parts, asked.part_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        assert isinstance(partition, MessagePartition)
        forget_importers()
        for part in partition.parts:
            yield from self._rows(part)

    def _rows(self, part: files.Part) -> Iterator[pa.RecordBatch]:
        decoder = _decoder(self._settings, part.file.framing)
        ordered = "_sequence" in decoder.schema.names
        for batch in files.messages(part):
            try:
                yield decoder.decode(self._with_place(batch, part.file, ordered))
            except DecodeError as error:
                raise ValueError(f"{part.file.name}: byte {batch['_offset'][error.row]}: {error}") from error

    def _with_place(self, batch: pa.RecordBatch, file: files.File, ordered: bool) -> pa.RecordBatch:
        """The messages with where they come from, as far as it is asked for."""
        if ordered:
            import pyarrow.compute as pc

            order = pc.add_checked(batch["_offset"], integer(file.number << _FILE_BITS))
            batch = batch.append_column("offset", order)
        if "_file" in self._settings.arguments.get("keep", ()):
            batch = batch.append_column("_file", pa.repeat(text(file.name), len(batch)))
        return batch


def _decoder(asked: Settings, framing: str) -> Decoder:
    keep = {name: pa.type_for_alias(KEPT[name]) for name in asked.arguments.get("keep", ())}
    key = "key" if framing == "key-value" else None
    return Decoder(**{**asked.arguments, "keep": keep, "key": key})
