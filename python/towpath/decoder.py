"""The public `Decoder`: the native decoder with named arguments, pickling, and the signature that `mapInArrow` needs.

Each argument is declared once, in the signature of `Decoder.__new__`. The class's docstring describes it. The options
of the Spark data source and the flags of the command line are derived from `PARAMETERS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath import _towpath
from towpath._towpath import DecodeError
from towpath.messages import as_arrow
from towpath.spark.types import arrow_schema, is_data_frame, is_struct_type, struct_type
from towpath.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
    from typing_extensions import Self, Unpack

    from towpath._towpath import _Metrics
    from towpath.arguments import DialectOptions
    from towpath.literals import Compression, Dialect, Field, Layout, Missing, Mode, ZeroDate
    from towpath.schema_registry import SchemaRegistry

    class Metrics(_Metrics):
        """Metrics of a decoder."""

        absent_columns: dict[str, str | None]
        """Columns of the schema that no row image has had so far, each with the most similar name in row images."""


class Decoder(_towpath.Decoder):
    """Decoder of change messages to Arrow record batches.

    A decoder has no state between calls except its metrics, so several threads can share it, and it can be pickled. It
    is also a function for Spark: `df.mapInArrow(decoder, decoder.spark_schema)`.

    Args:
        dialect: Message format: a name of `towpath.dialects()`, or "auto", which detects it for each message.
        schema: Columns of the table as DDL text ("id bigint, total decimal(10,2)"), `pyarrow.Schema` or Spark
            `StructType`. Without it a row image is a map from column name to text.
        database: Regular expression that must match the whole database name. Other messages are filtered out before
            their values are converted, and counted as `filtered` instead of as errors.
        table: Regular expression that must match the whole table name.
        layout: "change" (one row for each change, with its before and after image), "changelog" (`_change_type` and the
            columns, two rows for an update) or "upsert" (`_op` and the columns, ready for MERGE). `_sequence` of
            "upsert" is comparable between calls of `decode` if the input has Kafka's column `offset`.
        fields: Envelope columns of the output, in this order. Other columns are not built.
        row_column: Name of one struct column for the table's columns, in layouts "changelog" and "upsert". The table
            may then have columns of any name, including names of the envelope.
        keep: Input columns to copy to every output row, such as Kafka's `topic`, `partition`, `offset` and `timestamp`:
            names, or a mapping from name to Arrow type. `Decoder.schema` needs the types of columns that are not
            Kafka's. `decode` does not need them.
        value: Input column with the message. Used if the input is a record batch or struct array.
        key: Input column with the message's key, if there is one.
        mode: How to handle malformed input. "PERMISSIVE": keep the row, set the malformed column to null, and describe
            the problem and its place in `error`. "DROPMALFORMED": drop and count the row. "FAILFAST": raise
            `DecodeError`.
        time_zone: Time zone of TIMESTAMP values that the producer wrote without a zone, and of values without a zone
            that are read as `timestamp`.
        zero_date: Result for `0000-00-00` and partly-zero dates: "null", "error", or "text" (kept if the column is
            requested as string, otherwise null).
        labels: `{column: [labels in order]}` of enum and set columns whose messages have only the index or bit mask.
        compression: Compression of single messages: "auto", "none", "lz4", "snappy", "gzip" or "zstd".
        case_sensitive: Whether to compare column names of message and schema with case.
        aliases: `{name: column}`: other names of schema columns in messages, such as former names.
        missing: Result for a schema column that the message's row image lacks: "null" (and its name in
            `missing_columns`) or "error".
        lenient: Whether to accept unescaped control characters in JSON strings, which are otherwise a `syntax` error.
        max_expansion: Maximum bytes of output per byte of a message with several rows, plus 16 MiB. A larger message
            becomes one error row of kind `size`.
        claim_check: Folder or URI (`s3://bucket/prefix`, anything that `pyarrow.fs` reads) where TiCDC stores messages
            that are too large for Kafka. The decoder reads them by file name. Without it, such a message yields its
            content in Kafka: the keys, and the file's path in `source.claim_check`. A file that is missing, empty, too
            large, not a regular file, or a link to outside of the folder is an error of its message.
        claim_check_limit: Maximum bytes of a stored message's file.
        **options: Options of one dialect, see its page in the documentation.

    Raises:
        ValueError: An argument, dialect, field or type is unknown. The message lists the allowed ones.
    """

    _arguments: dict[str, Any]
    _registry: SchemaRegistry | None
    _sample: Any
    _names: list[str] | None

    def __new__(
        cls,
        dialect: Dialect = "auto",
        schema: str | pa.Schema | StructType | None = None,
        *,
        database: str | None = None,
        table: str | None = None,
        layout: Layout = "change",
        fields: Sequence[Field] | None = None,
        row_column: str | None = None,
        keep: Sequence[str] | Mapping[str, pa.DataType] = (),
        value: str = "value",
        key: str | None = None,
        mode: Mode = "PERMISSIVE",
        time_zone: str = "UTC",
        zero_date: ZeroDate = "null",
        labels: Mapping[str, Sequence[str]] | None = None,
        compression: Compression = "auto",
        case_sensitive: bool = True,
        aliases: Mapping[str, str] | None = None,
        missing: Missing = "null",
        lenient: bool = False,
        max_expansion: int = 256,
        claim_check: str | None = None,
        claim_check_limit: int = 256 << 20,
        **options: Unpack[DialectOptions],
    ) -> Self:
        """Create a decoder; the class docstring describes the arguments."""
        values = locals()
        arguments: dict[str, Any] = {**{name: values[name] for name in PARAMETERS}, **options}
        _check_types(arguments)
        if is_struct_type(schema):
            arguments["schema"] = arrow_schema(schema)
        # The native decoder finds claim checks and schema ids. Files and registries are read here.
        native = {name: value for name, value in arguments.items() if name not in _READ_HERE}
        native["schema_registry"] = arguments.get("schema_registry") is not None
        if native.get("writer_schemas") is not None:
            from towpath.schema_registry import given_schemas  # only a few decoders need it

            native["writer_schemas"] = given_schemas(native["writer_schemas"])
        decoder = super().__new__(cls, **native)
        decoder._registry = _registry(arguments.get("schema_registry"))
        decoder._sample = decoder._names = None
        decoder._arguments = {name: value for name, value in arguments.items() if value != _default(name)}
        return decoder

    def decode(self, values: Any) -> pa.RecordBatch:
        """Decode messages to one batch.

        Args:
            values: An object with the Arrow PyCapsule interface: an array of binary or string (also large and view
                types), one message per element, or a record batch or struct array with the value column. Or a list of
                bytes or text (None is a tombstone), one message, a numpy array, or a pandas series.

        Returns:
            A record batch of `schema`.

        Raises:
            DecodeError: A row is malformed, in mode "FAILFAST". The error is about the first one.
            ValueError: A named column is missing or has the wrong type, or a column would exceed the limit of an Arrow
                array. In this case decode fewer messages at once: see `decode_batches`.
            OSError: The folder of `claim_check` does not exist, or its file system does not answer.
            ImportError: `schema_registry` is given, but Confluent's client is not installed.
        """
        [(_, part, unfetched, stored)] = self._fetched(as_arrow(values), None)
        batch, _ = self._decode(part, unfetched, stored)
        self._remember(part)
        return batch

    def decode_batches(self, values: Any, max_bytes: int = 256 << 20) -> Iterator[pa.RecordBatch]:
        """Decode messages to as many batches as their rows need, one at a time. The rows of a message stay together.

        Spark's workers and the command line decode this way: the memory of a batch is bounded, regardless of how much
        the messages expand.

        Args:
            values: As for `decode`.
            max_bytes: A batch ends after the message whose rows reach this size, or at most 128 KiB of messages later.
                Stored messages of claim checks are read up to this size at once.

        Yields:
            Record batches of `schema`, at least one.

        Raises:
            Exception: An error of `decode`, when the failing batch is requested.
        """
        for first, part, unfetched, stored in self._fetched(as_arrow(values), max_bytes):
            start: int | None = 0
            while start is not None:
                try:
                    batch, start = self._decode(part, unfetched, stored, start=start, max_bytes=max_bytes)
                except DecodeError as error:
                    error.row += first
                    raise
                self._remember(part)
                yield batch

    def _remember(self, values: Any) -> None:
        """Keep the messages that lack a column of the schema. `metrics` searches them for similar names."""
        if self._sample is None and self._names is None and self.absent_columns:
            self._sample = values

    @property
    def metrics(self) -> Metrics:
        """Metrics of the decoder so far. `docs/errors.md` describes the counts."""
        from towpath.names import nearest

        absent = self.absent_columns
        if absent and self._names is None and self._sample is not None:
            self._names, self._sample = _column_names_of(self._sample, self._arguments), None
        known = self._names or []
        return {
            **super().metrics,
            "absent_columns": {name: nearest(name, known) for name in self.columns if name in absent},
        }

    def _fetched(self, values: Any, max_bytes: int | None) -> Iterator[_Fetched]:
        """Yield the messages in parts, with the files and schemas that they refer to; one part without a limit."""
        location = self._arguments.get("claim_check")
        if location is None and self._registry is None:
            yield 0, values, None, None
            return
        values = _readable_twice(values)
        unfetched = self._registry.load(self, values) if self._registry is not None else None
        if location is None:
            yield 0, values, unfetched, None
            return
        from towpath.claim_check import stored_messages  # imports file systems, which is slow

        limit = self._arguments.get("claim_check_limit", _default("claim_check_limit"))
        start = 0
        for stop, stored in stored_messages(self.claim_checks(values), location, limit, max_bytes):
            part = values if stop is None and not start else _slice(values, start, stop)
            yield start, part, unfetched, {index - start: message for index, message in stored.items()}
            start = stop or 0

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode each batch. `DataFrame.mapInArrow` calls this on a worker.

        Raises:
            ValueError: An error of `decode`, or the changes of layout "upsert" have no order across batches.
        """
        begin_task()
        for batch in batches:
            if self._arguments.get("layout") == "upsert":
                from towpath.sequence import check_ordered  # other layouts have no `_sequence`

                check_ordered(self._arguments, batch.schema)
            try:
                yield from self.decode_batches(batch)
            except DecodeError as error:
                from towpath.places import coordinates, located

                raise located(error, *coordinates(batch, error.row), f"row {error.row} of its batch") from error

    @property
    def spark_schema(self) -> StructType:
        """The output schema as a Spark `StructType`.

        Raises:
            ValueError: Spark has no equivalent type. The message names the column and an alternative type.
        """
        return struct_type(self.schema)

    def __dir__(self) -> list[str]:
        """Return the documented names, for completion."""
        return ["decode", "decode_batches", "metrics", "schema", "spark_schema"]

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments), ()

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={_shown(name, value)}" for name, value in self._arguments.items())
        return f"towpath.Decoder({arguments})"

    def _repr_html_(self) -> str:
        from towpath.notebook import decoder_html  # only notebooks show it

        return decoder_html(repr(self), lambda: self.schema, self.metrics)


_Fetched = tuple[int, Any, dict[int, str] | None, dict[int, bytes | str] | None]
"""Index of the first message, the messages, why schemas could not be fetched, and the stored messages."""

_READ_HERE = ("claim_check", "claim_check_limit")
"""Arguments that the native decoder does not have."""

_OF_THE_INPUT = (
    "dialect",
    "database",
    "table",
    "value",
    "key",
    "compression",
    "lenient",
    "unwrapped",
    "op_column",
    "writer_schema",
)
"""Arguments for reading messages, apart from their columns."""

_SAMPLE = 1_000  # messages


def _column_names_of(values: Any, arguments: Mapping[str, Any]) -> list[str]:
    """Return the columns of the first row images in some messages, in order."""
    own = {name: value for name, value in arguments.items() if name in _OF_THE_INPUT}
    images = _towpath.Decoder(own.pop("dialect", "auto"), fields=["before", "after"], **own)
    rows, _ = images._decode(_slice(values, 0, _SAMPLE))
    return list(dict.fromkeys(name for image in rows.columns for name in image.keys.to_pylist()))


_ALL_PARAMETERS = signature(Decoder.__new__).parameters.values()

PARAMETERS = {one.name: one for one in _ALL_PARAMETERS if one.name not in ("cls", "options")}
"""Arguments of every dialect, with their annotations and defaults."""


def _check_types(arguments: Mapping[str, Any]) -> None:
    """Reject an argument of another type. A non-empty text would otherwise be a true flag, or a list of labels."""
    if not isinstance(dialect := arguments["dialect"], str):
        raise TypeError(f'dialect: expected a string such as "canal-json" or "auto", not {dialect!r}')
    types = {"bool": bool, "int": int}
    for name, parameter in PARAMETERS.items():
        wanted = types.get(str(parameter.annotation))
        if wanted and type(arguments[name]) is not wanted:
            raise TypeError(f"{name}: expected {wanted.__name__}, not {arguments[name]!r}")
    for name in ("database", "table"):
        if not isinstance(pattern := arguments[name], str | None):
            raise TypeError(f'{name}: expected a regular expression such as "orders|items", not {pattern!r}')
    for column, labels in arguments["labels"].items() if isinstance(arguments["labels"], Mapping) else ():
        if isinstance(labels, str):
            raise TypeError(f"labels: expected a list such as {{{column!r}: ['S', 'M']}}, not {labels!r}")


def _default(name: str) -> Any:
    """Return the default of an argument; None for an option of one dialect."""
    return PARAMETERS[name].default if name in PARAMETERS else None


def _registry(config: Any) -> SchemaRegistry | None:
    if config is None:
        return None
    from towpath.schema_registry import registry  # only a few decoders have one

    return registry(config)


def _readable_twice(values: Any) -> Any:
    """Return messages that can be read twice: first to find their schemas, then to decode them."""
    is_stream = hasattr(values, "__arrow_c_stream__") and not hasattr(values, "__arrow_c_array__")
    return values.read_all() if is_stream and isinstance(values, pa.RecordBatchReader) else values


def _slice(values: Any, start: int, stop: int | None) -> Any:
    sliceable = values if hasattr(values, "slice") else pa.array(values)
    return sliceable.slice(start, None if stop is None else stop - start)


def infer_schema(
    values: Any,
    dialect: Dialect = "auto",
    database: str | None = None,
    table: str | None = None,
    *,
    schema_registry: str | Mapping[str, Any] | None = None,
    writer_schemas: Mapping[Any, Any] | None = None,
    unwrapped: bool = False,
    op_column: str | None = None,
) -> pa.Schema:
    """Infer the table's columns from the types that messages declare.

    Args:
        values: Messages, as for `Decoder.decode`. A column `key` is read as their key. For a Spark DataFrame, which
            needs the column `value`, the first 10,000 messages are read.
        dialect: As for `Decoder`.
        database: Regular expression that must match the whole database name.
        table: Regular expression that must match the whole table name.
        schema_registry: Location of the schemas of debezium-avro, as for `Decoder`.
        writer_schemas: Schemas of debezium-avro by id, as for `Decoder`.
        unwrapped: Whether the messages of debezium-json are rows without an envelope, as for `Decoder`.
        op_column: Member of such rows with the operation, which is not a column, as for `Decoder`.

    Returns:
        The schema, with the columns in the order of their declarations.

    Raises:
        ValueError: The messages declare no types, or types that no column can have, or a schema cannot be fetched.
    """
    if is_data_frame(values):
        from towpath.spark.first_messages import first_messages

        values = first_messages(values)
    values = as_arrow(values)
    if schema_registry is None and writer_schemas is None:
        return _towpath.infer_schema(values, dialect, database, table, None, unwrapped, op_column)
    from towpath.schema_registry import given_schemas

    given = given_schemas(writer_schemas or {})
    registry = _registry(schema_registry)
    if registry is not None:
        values = _readable_twice(values)
        key = "key" if "key" in _column_names(values) else None
        unknown = _towpath.Decoder(dialect, writer_schemas=given, key=key).unknown_schemas(values)
        found, unfetched = registry.fetch(unknown)
        for number, why in unfetched.items():
            raise ValueError(f"infer_schema: unknown schema id {number}: {why}")
        given += [(number, *schema) for number, schema in found.items()]
    return _towpath.infer_schema(values, dialect, database, table, given, unwrapped, op_column)


def _column_names(values: Any) -> list[str]:
    """Return the columns of a record batch, table or struct array. An array has none."""
    if hasattr(values, "schema"):
        return list(values.schema.names)
    kind: Any = getattr(values, "type", None)
    return [field.name for field in kind] if isinstance(kind, pa.StructType) else []


def _shown(name: str, value: Any) -> str:
    """Return a value for the decoder's repr, without credentials. A schema is shortened to names and types."""
    if name == "schema_registry":
        from towpath.schema_registry import shown

        return shown(value)
    if name == "writer_schemas":
        return "{" + ", ".join(f"{number}: ..." for number in value) + "}"
    if isinstance(value, pa.Schema):
        return "<" + ", ".join(f"{field.name} {field.type}" for field in value) + ">"
    return repr(value)
