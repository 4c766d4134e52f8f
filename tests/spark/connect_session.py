"""Run by test_connect.py in a process of its own: a classic session and a Connect session do not live together.

Prints, as JSON, what a Connect session decoded.
"""

import json
import tempfile

from pyspark.sql import Observation, SparkSession
from pyspark.sql.types import StructType

import towpath
from canal_messages import MIXED, SCHEMA
from golden_files import lines


def main() -> None:
    """Decode through a Connect server of this process."""
    spark = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    decoder = towpath.Decoder("canal-json", SCHEMA, table="orders")
    source = spark.createDataFrame([(value,) for value in MIXED], "value binary")
    seen = Observation("orders")
    counted = towpath.spark.decode(source, "canal-json", SCHEMA, table="orders", metrics=seen)
    captured = spark.createDataFrame([(value,) for value in lines("tencent/small.jsonl")], "value binary")
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(b"\n".join(MIXED))
        file.flush()
        reader = spark.read.format("towpath").options(dialect="canal-json", schema=SCHEMA, table="orders")
        read = [str(row) for row in reader.load(file.name).select("op", "after").collect()]
    result = {
        "read": read,
        "session": type(spark).__module__,
        "function": [
            str(row) for row in source.mapInArrow(decoder, decoder.spark_schema).select("op", "after").collect()
        ],
        "counted": [str(row) for row in counted.select("op", "after").collect()],
        "counts": {name: count for name, count in seen.get.items() if count},
        "schema": towpath.spark.decode(captured, "canal-json").schema == towpath.Decoder().spark_schema,
        "ops": [row.op for row in towpath.spark.decode(captured, "canal-json", fields=["op"]).collect()],
    }
    assert isinstance(decoder.spark_schema, StructType)
    print(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main()
