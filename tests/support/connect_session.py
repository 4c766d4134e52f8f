"""Run by test_connect.py in a process of its own: a classic session and a Connect session do not live together.

Prints, as JSON, what a Connect session decoded.
"""

import json
import tempfile
import threading

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.types import StructType

import towpath
from canal_messages import MIXED, SCHEMA
from golden_files import lines
from lake_session import QUICK
from towpath.report import FIELDS
from towpath.spark.event_counts import summarize


def captured_messages(spark: SparkSession) -> DataFrame:
    """A golden capture."""
    return spark.createDataFrame([(value,) for value in lines("tencent/small.jsonl")], "value binary")


def listener_metrics(spark: SparkSession) -> dict[str, int]:
    """What the listener reported for a stream's first batch."""
    reported = threading.Event()
    counts: list[towpath.spark.BatchCounts] = []

    def report(batch: towpath.spark.BatchCounts) -> None:
        counts.append(batch)
        reported.set()

    # It is not removed: pyspark holds a lock meanwhile that its thread needs for an event that is still to come.
    spark.streams.addListener(towpath.spark.progress_listener(report))
    with tempfile.TemporaryDirectory() as folder:
        spark.createDataFrame([(value,) for value in MIXED], "value binary").coalesce(1).write.parquet(f"{folder}/in")
        source = spark.readStream.schema("value binary").parquet(f"{folder}/in")
        frame = towpath.spark.decode(source, "canal-json", SCHEMA, table="orders", metrics="cdc")
        frame.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination(600)
        assert reported.wait(300)
    return {"messages": counts[0].messages, "rows": counts[0].rows, **counts[0].errors}


def counted(source: DataFrame) -> tuple[list[str], dict[str, int]]:
    """Decoded rows, and what was counted. Spark's server waits 100 ms for counts: if it is busy, it may send none."""
    rows: list[str] = []
    counts: dict[str, int] = {}
    for _ in range(50):
        seen = Observation("orders")
        frame = towpath.spark.decode(source, "canal-json", SCHEMA, table="orders", metrics=seen)
        rows = [str(row) for row in frame.select("op", "after").collect()]
        counts = {name: count for name, count in seen.get.items() if count}
        if counts:
            break
    return rows, counts


def main() -> None:
    """Decode through a Connect server of this process."""
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.enabled", "false")
    for name, value in QUICK.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    decoder = towpath.Decoder("canal-json", SCHEMA, table="orders")
    source = spark.createDataFrame([(value,) for value in MIXED], "value binary")
    rows, counts = counted(source)
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(b"\n".join(MIXED))
        file.flush()
        reader = spark.read.format("towpath").options(dialect="canal-json", schema=SCHEMA, table="orders")
        read = [str(row) for row in reader.load(file.name).select("op", "after").collect()]
    towpath.spark.register(spark)
    source.createOrReplaceTempView("messages")
    query = f"from_cdc(TABLE(messages), dialect => 'canal-json', schema => '{SCHEMA}', table => 'orders')"
    captured = captured_messages(spark)
    decoded = towpath.spark.decode(captured_messages(spark), fields=FIELDS)
    result = {
        "read": read,
        "listener": listener_metrics(spark),
        "summary": summarize(decoded).counts.to_pylist(),
        "session": type(spark).__module__,
        "function": [
            str(row) for row in source.mapInArrow(decoder, decoder.spark_schema).select("op", "after").collect()
        ],
        "sql": [str(row) for row in spark.sql(f"SELECT op, after FROM {query}").collect()],
        "counted": rows,
        "counts": counts,
        "schema": towpath.spark.decode(captured, "canal-json").schema == towpath.Decoder().spark_schema,
        "ops": [row.op for row in towpath.spark.decode(captured, "canal-json", fields=["op"]).collect()],
    }
    assert isinstance(decoder.spark_schema, StructType)
    print(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main()
