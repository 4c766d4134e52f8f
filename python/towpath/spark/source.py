"""The data source `towpath`: files of messages, or topics of Kafka.

Python workers read and decode them; the JVM receives only rows. This module needs pyspark 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from towpath import files
from towpath._towpath import DecodeError
from towpath.decoder import Decoder
from towpath.scalars import integer, text
from towpath.spark.kafka.options import KafkaSettings, is_kafka, parse_kafka_options
from towpath.spark.source_options import KEPT, Settings, parse_options
from towpath.workers import begin_task

# `_sequence` orders changes by the input column `offset`. Here it has the file's number in the upper bits, and the
# message's offset within the file in the lower 44 bits.
_FILE_BITS = 44

_MOST_TASKS = 100_000


class TowpathDataSource(DataSource):
    """Data source for files and topics. `docs/spark/source.md` and `docs/spark/kafka.md` describe the options."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._settings: Settings | KafkaSettings
        if is_kafka(options):
            self._settings = parse_kafka_options(options)
            self._schema = self._settings.spark_schema
        else:
            self._settings = parse_options(options)
            self._schema = _decoder(self._settings, "lines").spark_schema

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "towpath"

    def schema(self) -> StructType:
        """Return the columns of the layout, followed by the columns of `keep`."""
        return self._schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query.

        Raises:
            ValueError: `DataFrameReader.schema` named columns that are not in the layout, or the path is missing.
        """
        self._check(schema)
        if isinstance(self._settings, KafkaSettings):
            from towpath.spark.kafka.reader import KafkaReader  # reading files needs no Kafka client

            return KafkaReader(self._settings)
        if not self._settings.paths:
            raise ValueError("path: expected a file, a folder or a pattern in load()")
        return TowpathReader(self._settings)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a stream of topics.

        Raises:
            ValueError: As for `reader`.
            PySparkNotImplementedError: The input is files.
        """
        if not isinstance(self._settings, KafkaSettings):
            return super().streamReader(schema)
        from towpath.spark.kafka.stream import stream_reader

        self._check(schema)
        return stream_reader(self._settings)

    def _check(self, schema: StructType) -> None:
        if _columns(schema) != _columns(self._schema):
            raise ValueError(
                f"schema() is not supported: the rows are {self._schema.simpleString()}. Set the table's columns with "
                'option("schema", ...), and envelope columns with option("fields", ...)'
            )


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


@dataclass
class MessagePartition(InputPartition):
    """Input of one task: a part of a large file, or several small files."""

    parts: tuple[files.Part, ...]


class TowpathReader(DataSourceReader):
    """Reader that finds and splits files during planning, and reads and decodes them on the workers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def partitions(self) -> list[InputPartition]:
        """Return parts of all files, in the order of the files.

        Raises:
            ValueError: The files are too many.
        """
        settings = self._settings
        found = files.find(settings.paths, settings.pattern, settings.framing, settings.file_compression)
        parts = (part for file in found for part in files.split(file, settings.part_bytes))
        divided = list(islice(files.together(parts, settings.part_bytes), _MOST_TASKS + 1))
        if len(divided) > _MOST_TASKS:
            raise ValueError(
                f"maxPartitionBytes: expected a larger number; these files would need more than {_MOST_TASKS} tasks"
            )
        return [MessagePartition(parts) for parts in divided]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition."""
        assert isinstance(partition, MessagePartition)
        begin_task()
        for part in partition.parts:
            yield from self._rows(part)

    def _rows(self, part: files.Part) -> Iterator[pa.RecordBatch]:
        decoder = _decoder(self._settings, part.file.framing)
        ordered = "_sequence" in decoder.schema.names
        for batch in files.messages(part):
            try:
                yield from decoder.decode_batches(self._with_origin(batch, part.file, ordered))
            except DecodeError as error:
                raise ValueError(f"{part.file.name}: byte {batch['_offset'][error.row]}: {error}") from error

    def _with_origin(self, batch: pa.RecordBatch, file: files.File, ordered: bool) -> pa.RecordBatch:
        """Add the origin columns that the output needs to the messages."""
        if ordered:
            import pyarrow.compute as pc

            order = pc.add_checked(batch["_offset"], integer(file.number << _FILE_BITS))
            batch = batch.append_column("offset", order)
        if "_file" in self._settings.arguments.get("keep", ()):
            batch = batch.append_column("_file", pa.repeat(text(file.name), len(batch)))
        return batch


def _decoder(settings: Settings, framing: str) -> Decoder:
    keep = {name: pa.type_for_alias(KEPT[name]) for name in settings.arguments.get("keep", ())}
    key = "key" if framing == "key-value" else None
    return Decoder(**{**settings.arguments, "keep": keep, "key": key})
