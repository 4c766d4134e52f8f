"""Types of the arguments that functions pass on to `towpath.Decoder`. They let a type checker find typos.

A test compares them with the signature of `Decoder.__new__`, where the defaults are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from towpath.literals import Compression, Field, Layout, Missing, Mode, ZeroDate


class DialectOptions(TypedDict, total=False):
    """Options of single dialects."""

    column_types: Mapping[str, str] | None
    decimal_handling_mode: str | None
    time_precision_mode: str | None
    binary_handling_mode: str | None
    bigint_unsigned_handling_mode: str | None
    writer_schema: str | None
    schema_registry: str | Mapping[str, Any] | None
    writer_schemas: Mapping[Any, Any] | None
    table_schemas: list[str] | None
    unwrapped: bool
    op_column: str | None


class ValueOptions(DialectOptions, total=False):
    """Options that select messages and convert their values."""

    database: str | None
    table: str | None
    time_zone: str
    zero_date: ZeroDate
    labels: Mapping[str, Sequence[str]] | None
    compression: Compression
    case_sensitive: bool
    missing: Missing
    lenient: bool
    max_expansion: int
    claim_check: str | None
    claim_check_limit: int


class RowOptions(ValueOptions, total=False):
    """`ValueOptions`, and options for the rows of the output."""

    aliases: Mapping[str, str] | None
    layout: Layout
    fields: Sequence[Field] | None
    row_column: str | None
    mode: Mode
