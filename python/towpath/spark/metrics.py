"""Metrics of decoders on the workers, delivered by Spark's observed metrics.

A Python worker cannot update a Spark metric. Each batch is therefore followed by one more row with the metrics of that
batch. `observe` sums these rows on the executors, and a filter removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from towpath import _towpath
from towpath.archives import drop_spark_importers
from towpath.scalars import integers
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import StructType

ERROR_KINDS = _towpath.ERROR_KINDS
"""Every `error.kind`, in the order of `docs/errors.md`."""

TOTALS = ("messages", "rows", "filtered", "dropped")
"""The metrics that are single numbers; `errors` are counted by kind."""

_METRICS = (*TOTALS, "errors", *(f"errors_{kind}" for kind in ERROR_KINDS))
_METRICS_COLUMN = "_towpath_counts"
_METRICS_TYPE = pa.struct([(name, pa.int64()) for name in _METRICS])


class BatchDecoder(Protocol):
    """What decodes batches and counts: `towpath.Decoder`, or a wrapper of one."""

    @property
    def metrics(self) -> Any:
        """As `towpath.Decoder.metrics`."""

    def decode(self, values: Any) -> pa.RecordBatch:
        """As `towpath.Decoder.decode`."""


def count_and_observe(
    messages: DataFrame, decoder: BatchDecoder, output: StructType, metrics: str | Observation
) -> DataFrame:
    """The decoded rows of a DataFrame of messages; their metrics go to the observation."""
    return _observe(messages.mapInArrow(CountingDecoder(decoder), _with_metrics_column(output)), metrics)


class CountingDecoder:
    """A function for `mapInArrow` that appends a row of metrics to each batch of rows."""

    def __init__(self, decoder: BatchDecoder) -> None:
        self._decoder = decoder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `DataFrame.mapInArrow` calls on a worker."""
        drop_spark_importers()
        before = _values(self._decoder)
        for batch in batches:
            rows = self._decoder.decode(batch)
            yield _with_metrics(rows.columns, rows.schema, pa.nulls(len(rows), _METRICS_TYPE))
            after = _values(self._decoder)
            values = [integers([after[name] - before[name]]) for name in _METRICS]
            nulls = [pa.nulls(1, field.type) for field in rows.schema]
            yield _with_metrics(nulls, rows.schema, pa.StructArray.from_arrays(values, fields=list(_METRICS_TYPE)))
            before = after


def _values(decoder: BatchDecoder) -> dict[str, int]:
    metrics = decoder.metrics
    errors = metrics["errors"]
    kinds = {f"errors_{kind}": errors.get(kind, 0) for kind in ERROR_KINDS}
    return {**{name: metrics[name] for name in TOTALS}, "errors": sum(errors.values()), **kinds}


def _with_metrics(columns: Sequence[pa.Array], schema: pa.Schema, metrics: pa.Array) -> pa.RecordBatch:
    """A batch of rows or of metrics; both have the same schema, as an Arrow stream requires."""
    fields = [field.with_nullable(True) for field in schema]
    return pa.record_batch([*columns, metrics], schema=pa.schema([*fields, (_METRICS_COLUMN, _METRICS_TYPE)]))


def _with_metrics_column(output: StructType) -> StructType:
    """The output with the column of metrics. Every column is nullable, as a row of metrics has nothing else."""
    from pyspark.sql.types import StructField, StructType

    columns = [StructField(field.name, field.dataType, True, field.metadata) for field in output.fields]
    metrics_type = struct_type(pa.schema([("", _METRICS_TYPE)]))[0].dataType
    return StructType([*columns, StructField(_METRICS_COLUMN, metrics_type)])


def _observe(df: DataFrame, metrics: str | Observation) -> DataFrame:
    """The DataFrame without its rows of metrics, which are summed by the observation."""
    from pyspark.sql import functions

    def total(name: str) -> Column:
        return functions.coalesce(functions.sum(f"{_METRICS_COLUMN}.{name}"), functions.lit(0)).alias(name)

    observed = df.observe(metrics, *map(total, _METRICS))
    return observed.filter(functions.col(_METRICS_COLUMN).isNull()).drop(_METRICS_COLUMN)
