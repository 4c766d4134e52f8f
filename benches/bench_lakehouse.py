"""`replicate` beside what is usually written by hand: from_json, a window for the newest change of each key, MERGE.

    make jars && python benches/bench_lakehouse.py hot 200000 50000     one table: so many changes of so many keys
    python benches/bench_lakehouse.py tables 20 20                     so many tables, so many changes of each in a batch
    python benches/bench_lakehouse.py tables 8 10 --partitions 64      a topic of so many partitions for each table

Wall time, in one Spark of two cores, from a broker of its own. The recipe merges four tables at the same time, orders by
offset, and keeps neither deleted keys nor what it cannot decode: it is the cheaper job. Both ways run once over a small
topic before. At the end the tables of both have to be equal.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from pyspark.sql import Window
from pyspark.sql import functions as f

import towpath
from kafka_broker import KafkaBroker
from lake_session import lake_session

COLUMNS = {
    "id": ("bigint", "bigint"),
    "buyer": ("int", "int"),
    "price": ("decimal(12,2)", "decimal(12,2)"),
    "state": ("varchar(16)", "string"),
    "remark": ("varchar(200)", "string"),
    "changed_at": ("datetime(3)", "timestamp_ntz"),
    "weight": ("double", "double"),
}
MESSAGE = f"type string, `table` string, data array<struct<{', '.join(f'{name}: string' for name in COLUMNS)}>>"
TYPES = {name: mysql for name, (mysql, _) in COLUMNS.items()}
THREADS = 4


def changes(table, count, keys, seed):
    """Inserts of all keys, then updates of some, and one delete for nineteen updates."""
    rng = random.Random(seed)
    for at in range(count):
        key = at if at < keys else rng.randrange(keys)
        kind = "INSERT" if at < keys else "DELETE" if at % 20 == 0 else "UPDATE"
        cells = [
            key,
            at % 1000,
            f"{at % 10**6}.{at % 100:02d}",
            "paid",
            "y" * (at % 100),
            "2025-05-05 05:05:05.555",
            "2.5",
        ]
        row = dict(zip(COLUMNS, map(str, cells), strict=True))
        message = {"database": "shop", "table": table, "type": kind, "isDdl": False, "pkNames": ["id"], "id": at + 1}
        message |= {"es": 1_750_000_000_000 + at // 50 * 1000, "ts": 1_750_000_000_100 + at, "mysqlType": TYPES}
        message |= {"data": [row], "old": [{"state": "new"}] if kind == "UPDATE" else None, "sql": ""}
        yield key, json.dumps(message).encode()


def create_table(spark, path):
    columns = ", ".join(f"{name} {kind}" for name, (_, kind) in COLUMNS.items())
    feature = "'delta.feature.timestampNtz' = 'supported'"
    spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{path}` ({columns}) USING delta TBLPROPERTIES ({feature})")


def merge_by_hand(events, table, path):
    """The newest change of each key of a table, merged."""
    spark = events.sparkSession
    cells = [f"CAST(cell.{name} AS {kind}) AS {name}" for name, (_, kind) in COLUMNS.items()]
    rows = events.filter(f.col("message.table") == table).selectExpr(
        "message.type", "offset", "explode(message.data) AS cell"
    )
    by_key = Window.partitionBy("id").orderBy(f.desc("offset"))
    newest = (
        rows.selectExpr("type", "offset", *cells).withColumn("rank", f.row_number().over(by_key)).filter("rank = 1")
    )
    view = f"newest_of_{table}_{time.monotonic_ns()}"
    newest.createOrReplaceTempView(view)
    create_table(spark, path)
    names, values = ", ".join(COLUMNS), ", ".join(f"s.{name}" for name in COLUMNS)
    spark.sql(
        f"MERGE INTO delta.`{path}` t USING {view} s ON t.id = s.id WHEN MATCHED AND s.type = 'DELETE' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in COLUMNS)} "
        f"WHEN NOT MATCHED AND s.type <> 'DELETE' THEN INSERT ({names}) VALUES ({values})"
    )


def recipe(messages, lake, checkpoint):
    def merge_batch(batch, _):
        events = batch.select(f.from_json(f.col("value").cast("string"), MESSAGE).alias("message"), "offset").persist()
        tables = [row[0] for row in events.select("message.table").distinct().collect()]
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda table: merge_by_hand(events, table, f"{lake}/{table}"), tables))
        events.unpersist()

    writer = messages.writeStream.foreachBatch(merge_batch).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


def with_towpath(messages, lake, checkpoint):
    return towpath.spark.replicate(
        messages, lake + "/{table}", "canal-json", checkpoint=checkpoint, trigger={"availableNow": True}
    )


WAYS = {"towpath": with_towpath, "recipe": recipe}


def measure(spark, kafka, topics, limit, folder):
    """Seconds of each way, and of each of its batches."""
    measured = {}
    for name, way in WAYS.items():
        source = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": ",".join(topics)}
        source |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(limit)}
        began = time.monotonic()
        query = way(
            spark.readStream.format("kafka").options(**source).load(), f"{folder}/{name}", f"{folder}/of-{name}"
        )
        query.awaitTermination()
        batches = [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress if one["numInputRows"]]
        measured[name] = {"seconds": time.monotonic() - began, "batches": batches}
    return measured


def verify(spark, tables, folder):
    for table in tables:
        found = [spark.read.format("delta").load(f"{folder}/{way}/{table}").select(*COLUMNS) for way in WAYS]
        different = found[0].exceptAll(found[1]).count() + found[1].exceptAll(found[0]).count()
        assert different == 0, f"{table}: {different} rows are not in both"
        assert found[0].count() > 0, f"{table} is empty"


def fill(kafka, prefix, counts, partitions):
    """One topic for all tables, their changes in turns; or a topic of several partitions for each."""
    sources = {
        table: changes(table, count, keys, number) for number, (table, (count, keys)) in enumerate(counts.items())
    }
    if len(counts) == 1 or partitions > 1:
        for table, source in sources.items():
            kafka.create_topic(f"{prefix}-{table}", partitions)
            kafka.produce(f"{prefix}-{table}", [(None, value, key % partitions) for key, value in source])
        return [f"{prefix}-{table}" for table in sources]
    kafka.create_topic(prefix, 1)
    in_turns = zip(*sources.values(), strict=True)
    kafka.produce(prefix, [(None, value, 0) for values in in_turns for _, value in values])
    return [prefix]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=["hot", "tables"])
    parser.add_argument("size", type=int, help="changes, or tables")
    parser.add_argument("each", type=int, help="keys, or changes of a table in a batch")
    parser.add_argument("--partitions", type=int)
    arguments = parser.parse_args()
    if arguments.shape == "hot":
        counts, limit = {"hot": (arguments.size, arguments.each)}, -(-arguments.size // 4)
    else:
        counts = {f"t{number:03}": (2 * arguments.each, arguments.each) for number in range(arguments.size)}
        limit = arguments.size * arguments.each
    partitions = arguments.partitions or (4 if arguments.shape == "hot" else 1)
    folder = tempfile.mkdtemp(prefix="towpath-bench-")
    with KafkaBroker() as kafka:
        spark = lake_session(Path(folder) / "warehouse", {"spark.sql.shuffle.partitions": "8"})
        measure(spark, kafka, fill(kafka, "warm", {"warm": (200, 100)}, 1), 1000, f"{folder}/warm")
        measured = measure(spark, kafka, fill(kafka, "measured", counts, partitions), limit, folder)
        verify(spark, counts, folder)
        spark.stop()
    shutil.rmtree(folder, ignore_errors=True)
    ratio = measured["towpath"]["seconds"] / measured["recipe"]["seconds"]
    print(json.dumps({**measured, "towpath / recipe": round(ratio, 2)}, indent=1))


if __name__ == "__main__":
    main()
