"""Arguments of `replicate` and `apply_changes` as types, for their overloads: a stream has a checkpoint, and a query.

A test compares them with the signatures, which have the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from towpath.arguments import ValueOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from towpath.lakehouse.arguments import Place, Snapshot
    from towpath.lakehouse.seen.status import TableStatus

OnTableError = Literal["quarantine", "fail"]
DdlPolicy = Literal["follow", "ignore"]
Keyless = Literal["quarantine", "append"]
Merge = Literal["auto", "spark", "task"]


class OfTargets(TypedDict, total=False):
    """How targets are written."""

    dead_letters: Place | None
    status: Place | None
    evolve: bool
    forget_after: str
    table_properties: Mapping[str, str] | None
    optimize_every: int | None
    soft_deletes: str | None


class OfStreams(TypedDict, total=False):
    """How a query is started."""

    trigger: Mapping[str, Any] | None
    query_name: str | None
    writer_options: Mapping[str, str] | None


class OfOneTable(OfTargets, total=False):
    """Arguments of `apply_changes`."""

    cluster_by: Sequence[str]


class OfOneStream(OfOneTable, OfStreams, total=False):
    """Arguments of `apply_changes` for a stream."""


class OfTopics(OfTargets, ValueOptions, total=False):
    """Arguments of `replicate`."""

    keys: Mapping[str, Sequence[str]] | None
    schemas: Mapping[str, str | StructType] | None
    table_options: Mapping[str, Mapping[str, Any]] | None
    snapshots: Mapping[str, Snapshot] | None
    ddl: Place | None
    quarantine: Place | None
    watermarks: Place | None
    on_table_error: OnTableError
    ddl_policy: DdlPolicy
    keyless: Keyless
    history: bool | Collection[str]
    columns: Mapping[str, Mapping[str, Any]] | None
    parallelism: int
    merge: Merge
    storage_options: Mapping[str, str] | None
    cluster_by: Mapping[str, Sequence[str]] | None
    metrics: str | None
    report: Callable[[Sequence[TableStatus]], object] | None


class OfStreamsOfTopics(OfTopics, OfStreams, total=False):
    """Arguments of `replicate` for a stream."""
