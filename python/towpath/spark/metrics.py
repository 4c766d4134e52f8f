"""What was counted on the workers, in Spark's own observed metrics.

A worker cannot reach a Spark metric, so each batch is followed by one more row that carries what was counted in it.
`observe` sums these rows where they pass, on the executors, and a filter takes them out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from towpath.archives import forget_importers
from towpath.scalars import integers
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import StructType

ERROR_KINDS = ("syntax", "encoding", "envelope", "type", "range", "missing", "depth", "size", "compression")
"""Every `error.kind`, in the order of `docs/errors.md`."""

_COUNTS = "_towpath_counts"
_COUNT_NAMES = ("messages", "rows", "filtered", "dropped", "errors", *(f"errors_{kind}" for kind in ERROR_KINDS))


class _Counted(Protocol):
    """A decoder, or what reads with one."""

    @property
    def metrics(self) -> Any: ...

    def decode(self, values: Any) -> pa.RecordBatch: ...


class Counting:
    """A decoder for `mapInArrow` that puts a row of counts behind each batch of rows."""

    def __init__(self, decoder: _Counted) -> None:
        self._decoder = decoder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `DataFrame.mapInArrow` calls on a worker."""
        forget_importers()
        before = _counts(self._decoder)
        for batch in batches:
            rows = self._decoder.decode(batch)
            yield _with_counts(rows.columns, rows.schema, pa.nulls(len(rows), _COUNTS_TYPE))
            after = _counts(self._decoder)
            counts = [integers([after[name] - before[name]]) for name in _COUNT_NAMES]
            nothing = [pa.nulls(1, field.type) for field in rows.schema]
            yield _with_counts(nothing, rows.schema, pa.StructArray.from_arrays(counts, fields=list(_COUNTS_TYPE)))
            before = after


_COUNTS_TYPE = pa.struct([(name, pa.int64()) for name in _COUNT_NAMES])


def _counts(decoder: _Counted) -> dict[str, int]:
    metrics = decoder.metrics
    kinds = {f"errors_{kind}": metrics["errors"].get(kind, 0) for kind in ERROR_KINDS}
    return {
        "messages": metrics["messages"],
        "rows": metrics["rows"],
        "filtered": metrics["filtered"],
        "dropped": metrics["dropped"],
        "errors": sum(metrics["errors"].values()),
        **kinds,
    }


def _with_counts(columns: Sequence[pa.Array], schema: pa.Schema, counts: pa.Array) -> pa.RecordBatch:
    """Both kinds of batch have one schema, as an Arrow stream must."""
    fields = [field.with_nullable(True) for field in schema]
    return pa.record_batch([*columns, counts], schema=pa.schema([*fields, (_COUNTS, _COUNTS_TYPE)]))


def counted(output: StructType) -> StructType:
    """The output with the counts beside it. Nothing else is set on a row of counts, so every column is nullable."""
    from pyspark.sql.types import StructField, StructType

    columns = [StructField(field.name, field.dataType, True, field.metadata) for field in output.fields]
    return StructType([*columns, StructField(_COUNTS, struct_type(pa.schema([("", _COUNTS_TYPE)]))[0].dataType)])


def observed(df: DataFrame, metrics: str | Observation) -> DataFrame:
    """The rows without those of counts, which go to the observation."""
    from pyspark.sql import functions

    def total(name: str) -> Column:
        return functions.coalesce(functions.sum(f"{_COUNTS}.{name}"), functions.lit(0)).alias(name)

    counting = df.observe(metrics, *map(total, _COUNT_NAMES))
    return counting.filter(functions.col(_COUNTS).isNull()).drop(_COUNTS)
