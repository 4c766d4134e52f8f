"""The newest change of each key in a batch, as a frame: `fold.py` finds them, on the workers or in the driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.lakehouse.merging.fold import ADDED, Fold
from towpath.lakehouse.order.order import key_columns
from towpath.lakehouse.reading.batch_messages import local_frame
from towpath.lakehouse.tables.sql import expressions
from towpath.spark.requirements import map_in_arrow
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Changes:
    """The changes of one table in a batch."""

    frame: DataFrame
    tasks: int | None = None
    """How many tasks fold them. None: as many as Spark uses for a shuffle."""
    decoded: Callable[[Fold], DataFrame] | None = None
    """Decodes their messages and folds them at once. None: the frame has more than was decoded, or several tasks."""

    def newest(self, fold: Fold, *, in_driver: bool) -> DataFrame:
        """The newest changes, with the columns of `ADDED`.

        Args:
            fold: What finds them.
            in_driver: Whether the driver may hold the changes.
        """
        if self.decoded is not None:
            return self.decoded(fold)
        from pyspark.sql.types import StructType

        spark = self.frame.sparkSession
        schema = StructType([*self.frame.schema, *struct_type(ADDED)])
        if in_driver and hasattr(self.frame, "toArrow"):  # Spark 3.5 has none
            found = list(fold.newest(self.frame.toArrow().to_batches()))
            if not found:
                return spark.createDataFrame([], schema)
            return local_frame(spark, pa.Table.from_batches(found), schema)
        keys = list(map(expressions(spark), key_columns(fold.keys)))
        by_key = self.frame.repartition(self.tasks, *keys) if self.tasks else self.frame.repartition(*keys)
        return map_in_arrow(by_key, fold, schema)
