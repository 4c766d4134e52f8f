"""Types of the texts that arguments accept. They let a type checker find typos."""

from typing import Literal

Dialect = Literal[
    "auto",
    "canal-json",
    "ticdc-canal-json",
    "cloudcanal-canal-json",
    "tencent-canal-json",
    "canal-protobuf",
    "cloudcanal-json",
    "debezium-json",
    "cloudcanal-debezium-json",
    "ticdc-simple",
    "dts-avro",
    "debezium-avro",
    "ticdc-avro",
    "river-json",
    "maxwell-json",
    "ticdc-open",
    "dms-json",
    "dataworks-json",
]
"""Message formats: the names and aliases of `towpath.dialects()`, and "auto"."""

Layout = Literal["change", "changelog", "upsert"]
"""Forms of an output row."""

Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
"""Handling of malformed input."""

Field = Literal[
    "op",
    "database",
    "schema",
    "table",
    "primary_key",
    "before",
    "after",
    "changed",
    "missing_columns",
    "event_time",
    "produced_time",
    "sql",
    "table_changes",
    "column_types",
    "jdbc_types",
    "source",
    "row",
    "error",
    "_corrupt_record",
    # Fields of the layouts "changelog" and "upsert".
    "_change_type",
    "_op",
    "_database",
    "_schema",
    "_table",
    "_primary_key",
    "_changed",
    "_event_time",
    "_produced_time",
    "_sql",
    "_table_changes",
    "_column_types",
    "_jdbc_types",
    "_sequence",
    "_source",
    "_row",
    "_missing_columns",
    "_error",
]
"""Envelope columns of the output."""

ZeroDate = Literal["null", "error", "text"]
"""Results for zero dates."""

Compression = Literal["auto", "none", "lz4", "snappy", "gzip", "zstd"]
"""Compression of single messages."""

Missing = Literal["null", "error"]
"""Results for a column that a message lacks."""
