"""The texts that arguments accept, as types, so that a typo fails a type checker."""

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
"""What a row of the output is."""

Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
"""What happens to malformed input."""

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
    # Of the layouts "changelog" and "upsert".
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
"""What zero dates become."""

Compression = Literal["auto", "none", "lz4", "snappy", "gzip", "zstd"]
"""Compression of single messages."""

Missing = Literal["null", "error"]
"""What a column becomes that a message lacks."""
