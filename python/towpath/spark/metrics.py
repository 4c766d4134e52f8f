"""Metrics of decoders on the workers, delivered by Spark's observed metrics.

A Python worker cannot update a Spark metric. So each batch is followed by another row with the metrics of this batch.
`observe` sums these rows on the executors, and a filter removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from towpath import _towpath
from towpath.scalars import integers
from towpath.spark.requirements import map_in_arrow
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import StructType

ERROR_KINDS = _towpath.ERROR_KINDS
"""Values of `error.kind`, in the order of `docs/errors.md`."""

_COUNTED = ("messages", "rows", "filtered", "dropped")

TOTALS = (*_COUNTED, "zero_dates")
"""Metrics that are single numbers. `errors` is counted by kind, `missing_columns` by column, `zero_dates` in total."""

MISSING = "missing_columns_"
"""Prefix of a metric that counts the rows without a column of the schema."""

_ERRORS = ("errors", *(f"errors_{kind}" for kind in ERROR_KINDS))
_METRICS_COLUMN = "_towpath_counts"


class BatchDecoder(Protocol):
    """Decoder of batches that counts: `towpath.Decoder`, or a wrapper of it."""

    @property
    def columns(self) -> list[str]:
        """Columns, as in `towpath.Decoder.columns`."""

    @property
    def metrics(self) -> Any:
        """Metrics, as in `towpath.Decoder.metrics`."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode batches, like `towpath.Decoder`."""


def count_and_observe(
    messages: DataFrame, decoder: BatchDecoder, output: StructType, metrics: str | Observation
) -> DataFrame:
    """Return the decoded rows of a DataFrame of messages, and send their metrics to the observation.

    Raises:
        ValueError: `metrics` is neither a name nor an `Observation`.
    """
    is_name = isinstance(metrics, str) and metrics != ""
    if not is_name and "Observation" not in [kind.__name__ for kind in type(metrics).__mro__]:  # classic or Connect
        raise ValueError("metrics: expected the name of an observation, or an Observation")
    counting = CountingDecoder(decoder)
    counted = map_in_arrow(messages, counting, _with_metrics_column(output, counting.metrics_type))
    return _observe(counted, counting.metrics_type, metrics)


class CountingDecoder:
    """Function for `mapInArrow` that appends a row of metrics to each batch of rows."""

    def __init__(self, decoder: BatchDecoder) -> None:
        self._decoder = decoder
        names = [*TOTALS, *_ERRORS, *(MISSING + column for column in decoder.columns)]
        self.metrics_type: pa.StructType = pa.struct([(name, pa.int64()) for name in names])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode batches on a worker: `DataFrame.mapInArrow` calls this."""
        before = _values(self._decoder)
        for batch in batches:
            for rows in self._decoder([batch]):
                yield _with_metrics(rows.columns, rows.schema, pa.nulls(len(rows), self.metrics_type))
            after = _values(self._decoder)
            values = [integers([after[name] - before[name]]) for name in after]
            nulls = [pa.nulls(1, field.type) for field in rows.schema]
            yield _with_metrics(nulls, rows.schema, pa.StructArray.from_arrays(values, fields=list(self.metrics_type)))
            before = after


def _values(decoder: BatchDecoder) -> dict[str, int]:
    """Return the current metrics of a decoder, in the order of `CountingDecoder.metrics_type`."""
    metrics = decoder.metrics
    errors, missing, zeros = metrics["errors"], metrics["missing_columns"], metrics["zero_dates"]
    kinds = {f"errors_{kind}": errors.get(kind, 0) for kind in ERROR_KINDS}
    columns = {MISSING + column: missing.get(column, 0) for column in decoder.columns}
    totals = {name: metrics[name] for name in _COUNTED} | {"zero_dates": sum(zeros.values())}
    return {**totals, "errors": sum(errors.values()), **kinds, **columns}


def _with_metrics(columns: Sequence[pa.Array], schema: pa.Schema, metrics: pa.Array) -> pa.RecordBatch:
    """Return a batch of rows or of metrics. Both have the same schema, as an Arrow stream requires."""
    fields = [field.with_nullable(True) for field in schema]
    return pa.record_batch([*columns, metrics], schema=pa.schema([*fields, (_METRICS_COLUMN, metrics.type)]))


def _with_metrics_column(output: StructType, metrics: pa.StructType) -> StructType:
    """Add the column of metrics to the output. Every column is nullable, as a row of metrics has no other values."""
    from pyspark.sql.types import StructField, StructType

    columns = [StructField(field.name, field.dataType, True, field.metadata) for field in output.fields]
    metrics_type = struct_type(pa.schema([("", metrics)]))[0].dataType
    return StructType([*columns, StructField(_METRICS_COLUMN, metrics_type)])


def _observe(df: DataFrame, metrics_type: pa.StructType, metrics: str | Observation) -> DataFrame:
    """Return the DataFrame without its rows of metrics. The observation sums these rows."""
    from pyspark.sql import functions

    def total(name: str) -> Column:
        column = functions.col(_METRICS_COLUMN).getField(name)
        return functions.coalesce(functions.sum(column), functions.lit(0)).alias(name)

    observed = df.observe(metrics, *(total(field.name) for field in metrics_type))
    return observed.filter(functions.col(_METRICS_COLUMN).isNull()).drop(_METRICS_COLUMN)
