"""A table whose keys move, as MySQL has it, and its history."""

from __future__ import annotations

from pathlib import Path

from pyspark import pipelines as dp  # type: ignore[attr-defined] # it came with Spark 4.1
from pyspark.sql import DataFrame, SparkSession

import towpath

MESSAGES = Path(__file__).parents[1] / "messages"
ENVELOPE = [
    "_op",
    "_event_time",
    "_sequence",
    "_source",
    "_row",
    "_missing_columns",
    "_error",
    "_corrupt_record",
]

spark = SparkSession.getActiveSession()
assert spark, "spark-pipelines makes the session"

# A copy of a topic. From Kafka: spark.readStream.format("kafka").option(...).load()
topic = spark.readStream.schema("offset long, value binary").parquet(str(MESSAGES))

# Not within the function below: it may not look at the columns of a DataFrame, as mapInArrow itself does.
changes = towpath.spark.decode(
    topic,
    schema="id int, uid int, v string",
    database="shop_a",
    table="pkmove",
    layout="upsert",
).filter("_op in ('insert', 'update', 'delete') and _error is null")


@dp.temporary_view  # type: ignore[untyped-decorator]
def pkmove_changes() -> DataFrame:
    """What AutoCDC reads."""
    return changes


for target, scd_type in {"pkmove": 1, "pkmove_history": 2}.items():
    dp.create_streaming_table(target)
    dp.create_auto_cdc_flow(
        target=target,
        source="pkmove_changes",
        keys=["id"],
        sequence_by="_sequence",
        apply_as_deletes="_op = 'delete'",
        except_column_list=ENVELOPE,
        stored_as_scd_type=scd_type,
    )
