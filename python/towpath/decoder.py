"""The public `Decoder`: the native decoder with named arguments, pickling, and the signature that `mapInArrow` needs.

An argument is declared once, in the signature of `Decoder.__new__`, and described in the class's docstring. Options of
the Spark data source and flags of the command line are derived from `PARAMETERS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath import _towpath
from towpath.archives import drop_spark_importers
from towpath.spark.types import arrow_schema, is_struct_type, struct_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
    from typing_extensions import Self


class Decoder(_towpath.Decoder):
    """Turns change messages into Arrow record batches.

    It keeps no state between calls except its metrics, so several threads can share a decoder, and it can be pickled.
    It is also the function that Spark expects: `df.mapInArrow(decoder, decoder.spark_schema)`.

    Args:
        dialect: Message format: a name of `towpath.dialects()`, or "auto", which detects it for each message.
        schema: The table's columns as DDL text ("id bigint, total decimal(10,2)"), `pyarrow.Schema` or Spark
            `StructType`. Without it a row image is a map from column name to text.
        database: Regular expression that has to match the whole database name. Other messages are filtered out before
            their values are converted, and counted as `filtered`, not as errors.
        table: The same for the table name.
        layout: "change" (one row for each change, with its before and after image), "changelog" (`_change_type` and
            the columns, two rows for an update) or "upsert" (`_op` and the columns, ready for MERGE).
        fields: The envelope columns of the output, in this order. Columns that are not listed are not built.
        keep: Input columns to copy to every output row, such as Kafka's `topic`, `partition`, `offset` and
            `timestamp`: names, or a mapping from name to Arrow type. `Decoder.schema` needs the types of columns
            that are not Kafka's; `decode` does not.
        value: The input column that holds the message. Used when the input is a record batch or struct array.
        key: The input column that holds the message's key, if there is one.
        mode: What happens to malformed input. "PERMISSIVE": the row is kept, `error` says what is wrong and where, the
            malformed column is null. "DROPMALFORMED": the row is dropped and counted. "FAILFAST": `DecodeError`.
        time_zone: Time zone of TIMESTAMP values that the producer wrote without a zone, and of values without a zone
            that are read as `timestamp`.
        zero_date: What `0000-00-00` and partly-zero dates become: "null", "error", or "text" (kept where the column
            is asked as string, otherwise null).
        labels: `{column: [labels in order]}` of enum and set columns whose messages have only the index or bit mask.
        compression: "auto", "none", "lz4", "snappy", "gzip" or "zstd".
        case_sensitive: Whether column names of message and schema are compared with case.
        missing: A schema column that the message's row image does not have is "null" (and is named in
            `missing_columns`) or an "error".
        lenient: Accept unescaped control characters in JSON strings, which are a `syntax` error otherwise.
        claim_check: Folder or URI (`s3://bucket/prefix`, anything that `pyarrow.fs` reads) where TiCDC stores messages
            that are too large for Kafka. They are read from there, by file name. Without it, such a message yields
            what Kafka has of it: the keys, and the file's path in `source.claim_check`.
        **options: Options of one dialect, see its page in the documentation.

    Raises:
        ValueError: An argument, dialect, field or type is unknown. The message names what is allowed.
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
        """Create a decoder; the class docstring describes the arguments."""
        values = locals()
        arguments = {name: values[name] for name in PARAMETERS} | options
        if is_struct_type(schema):
            arguments["schema"] = arrow_schema(schema)
        # The native decoder finds claim checks; their files are read here.
        native = {name: value for name, value in arguments.items() if name != "claim_check"}
        decoder = super().__new__(cls, **native)
        decoder._arguments = {name: value for name, value in arguments.items() if value != _default(name)}
        return decoder

    def decode(self, values: Any) -> pa.RecordBatch:
        """Decode messages.

        Args:
            values: Anything with the Arrow PyCapsule interface: an array of binary or string (large and view forms
                too), one message per element, or a record batch or struct array that has the value column.

        Returns:
            A record batch of `schema`.

        Raises:
            DecodeError: The first malformed row, in mode "FAILFAST".
            ValueError: A named column is missing or has the wrong type.
            OSError: A claim-check file cannot be read.
        """
        location = self._arguments.get("claim_check")
        if location is not None:
            from towpath.claim_check import load_messages  # imports file systems, which is slow

            values = load_messages(values, self.claim_checks(values), location, self._arguments.get("value", "value"))
        return super().decode(values)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode each batch: what `DataFrame.mapInArrow` calls on a worker."""
        drop_spark_importers()
        return map(self.decode, batches)

    @property
    def spark_schema(self) -> StructType:
        """The output schema as a Spark `StructType`.

        Raises:
            ValueError: Spark has no equivalent type. The message names the column and a type to use instead.
        """
        return struct_type(self.schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments), ()

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={_shown(value)}" for name, value in self._arguments.items())
        return f"towpath.Decoder({arguments})"


_ALL_PARAMETERS = signature(Decoder.__new__).parameters.values()

PARAMETERS = {one.name: one for one in _ALL_PARAMETERS if one.name not in ("cls", "options")}
"""The arguments of every dialect, with their annotations and defaults."""


def _default(name: str) -> Any:
    """The default of an argument; None for an option of one dialect."""
    return PARAMETERS[name].default if name in PARAMETERS else None


def _shown(value: Any) -> str:
    """A value in the decoder's repr. The repr of a schema takes many lines, so only names and types are shown."""
    if isinstance(value, pa.Schema):
        return "<" + ", ".join(f"{field.name} {field.type}" for field in value) + ">"
    return repr(value)
