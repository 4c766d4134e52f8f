"""The decoder as Python users see it: the native one, with named arguments, pickling and Spark's calling convention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath import _towpath, spark
from towpath.archives import forget_importers

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
    from typing_extensions import Self


class Decoder(_towpath.Decoder):
    """Turns change messages into Arrow record batches.

    It keeps nothing between calls but its counts, so one decoder may serve several threads, and it pickles. The
    decoder is itself the function that Spark asks for: `df.mapInArrow(decoder, decoder.spark_schema)`.

    Args:
        dialect: How the messages are written: a name of `towpath.dialects()`, or "auto", which looks at each message.
        schema: The table's columns as DDL text ("id bigint, total decimal(10,2)"), `pyarrow.Schema` or Spark
            `StructType`. Without it a row image is a map from column name to text.
        database: Regular expression over the whole database name. Messages that do not match are filtered out
            before their values are looked at, and counted as `filtered`, not as errors.
        table: The same for the table name.
        layout: "change" (one row for each change, with its before and after image), "changelog" (`_change_type` and
            the columns, two rows for an update) or "upsert" (`_op` and the columns, ready for MERGE).
        fields: The layout's envelope columns to put out, in this order. What is not asked for is not built.
        keep: Input columns to copy beside every output row, such as Kafka's `topic`, `partition`, `offset` and
            `timestamp`: names, or a mapping from name to Arrow type. `schema` needs the types of columns that are
            not Kafka's own; decoding does not.
        value: The input column that holds the message. Used when the input is a record batch or struct array.
        key: The input column that holds the message's key, if there is one.
        mode: What happens to bad input. "PERMISSIVE": the row stays, `error` says what is wrong and where, the
            bad column is null. "DROPMALFORMED": the row is dropped and counted. "FAILFAST": `DecodeError`.
        time_zone: Zone in which the producer wrote zone-less text of TIMESTAMP columns, and in which a zone-less
            value becomes an instant.
        zero_date: What `0000-00-00` and partly-zero dates become: "null", "error", or "text" (kept where the column
            is asked as string, otherwise null).
        labels: `{column: [labels in order]}` of enum and set columns whose messages carry only the index or mask.
        compression: "auto", "none", "lz4", "snappy", "gzip" or "zstd".
        case_sensitive: Whether column names of message and schema match by case.
        missing: A schema column that the message's row image does not carry is "null" (and is named in
            `missing_columns`) or an "error".
        lenient: Accept raw control characters inside JSON strings, which are a `syntax` error otherwise.
        claim_check: Folder or URI (`s3://bucket/prefix`, whatever `pyarrow.fs` reads) where TiCDC stores messages
            that are too large for Kafka. They are read from there, by their file names. Without it, such a
            message gives what Kafka has of it: its keys, and the place in `source.claim_check`.
        **options: Options of one dialect, documented with it.

    Raises:
        ValueError: An argument, dialect, field or type is not known. The message names what is allowed.
    """

    _arguments: dict[str, Any]

    def __new__(
        cls,
        dialect: str = "auto",
        schema: str | pa.Schema | StructType | None = None,
        *,
        database: str | None = None,
        table: str | None = None,
        layout: str = "change",
        fields: Sequence[str] | None = None,
        keep: Sequence[str] | Mapping[str, pa.DataType] = (),
        value: str = "value",
        key: str | None = None,
        mode: str = "PERMISSIVE",
        time_zone: str = "UTC",
        zero_date: str = "null",
        labels: Mapping[str, Sequence[str]] | None = None,
        compression: str = "auto",
        case_sensitive: bool = True,
        missing: str = "null",
        lenient: bool = False,
        claim_check: str | None = None,
        **options: Any,
    ) -> Self:
        """Build a decoder; the class says what the arguments mean."""
        if spark.is_struct_type(schema):
            schema = spark.arrow_schema(schema)
        arguments = {
            "dialect": dialect,
            "schema": schema,
            "database": database,
            "table": table,
            "layout": layout,
            "fields": fields,
            "keep": keep,
            "value": value,
            "key": key,
            "mode": mode,
            "time_zone": time_zone,
            "zero_date": zero_date,
            "labels": labels,
            "compression": compression,
            "case_sensitive": case_sensitive,
            "missing": missing,
            "lenient": lenient,
            **options,
        }
        decoder = super().__new__(cls, **arguments)
        arguments["claim_check"] = claim_check
        decoder._arguments = {name: given for name, given in arguments.items() if given != _DEFAULTS.get(name)}
        return decoder

    def decode(self, values: Any) -> pa.RecordBatch:
        """Decode messages.

        Args:
            values: Anything with the Arrow PyCapsule interface: an array of binary or string (large and view forms
                too), one message for each element, or a record batch or struct array that has the value column.

        Returns:
            A record batch of `schema`.

        Raises:
            DecodeError: The first bad row, in mode "FAILFAST".
            ValueError: A column that was named is not there, or is of another type.
            OSError: A file of a stored message cannot be read.
        """
        location = self._arguments.get("claim_check")
        if location is not None:
            from towpath.claim_check import fetched  # what reads files takes long to import

            values = fetched(values, self.claim_checks(values), location, self._arguments.get("value", "value"))
        return super().decode(values)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode each batch: what `DataFrame.mapInArrow` calls on a worker."""
        forget_importers()
        return map(self.decode, batches)

    @property
    def spark_schema(self) -> StructType:
        """The output's columns as a Spark `StructType`.

        Raises:
            ValueError: Spark has no such type. The message names the column and what to ask for instead.
        """
        return spark.struct_type(self.schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments), ()

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={_shown(given)}" for name, given in self._arguments.items())
        return f"towpath.Decoder({arguments})"


_DEFAULTS = {name: parameter.default for name, parameter in signature(Decoder.__new__).parameters.items()}


def _shown(argument: Any) -> str:
    """A schema takes many lines in its own repr; here its names and types are enough."""
    if isinstance(argument, pa.Schema):
        return "<" + ", ".join(f"{field.name} {field.type}" for field in argument) + ">"
    return repr(argument)
