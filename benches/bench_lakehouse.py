"""`replicate` beside what is usually written by hand: from_json, a window for the newest change of each key, MERGE.

    make jars && python benches/bench_lakehouse.py hot "20 tables"      these shapes; without a name those of --part lakehouse

Wall time, and CPU time of the driver, its JVM and its Python workers, in one Spark of two cores; a broker is on the same
machine. The recipe merges four tables at the same time, orders by offset, and keeps neither deleted keys nor what it cannot
decode: it does less. Its Iceberg tables have the properties that Iceberg gives them, its large Delta table has deletion
vectors, as it would rewrite twenty million rows without. Both ways run once over a small topic before. Each shape is read in
four rounds, every second one in the reverse order, as the JVM is warmer for the way that runs later; those of 20 million rows
and of 100 tables in two, that of 500 in one. A ratio is the median, as the first round compiles. After each round the tables of
both have to be equal.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import deltalake  # noqa: F401  Without it Spark would merge all tables.
import psutil
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


@dataclass(frozen=True)
class Shape:
    """A topic of several tables, or one for each table, that is read in batches."""

    tables: int
    changes: int
    """Of each table."""
    keys: int
    """Of each table."""
    batches: int
    partitions: int = 1
    """More than one: each table has a topic of its own."""
    part: str = "lakehouse"
    """The part of `make bench` that it is in."""
    rounds: int = 4
    """Every second one is in the reverse order."""
    rows: int = 0
    """What the table has before, under keys from 0 on. Then the changes are of random keys."""
    merge: str = "auto"
    is_iceberg: bool = False

    def target(self, folder, table):
        """The name of a table, or the path of a Delta table."""
        database = "_".join(Path(folder).parts[-2:]).replace("-", "_")
        return f"ice.{database}.{table}" if self.is_iceberg else f"{folder}/{table}"

    def sql_name(self, folder, table):
        """A table in SQL."""
        target = self.target(folder, table)
        return ".".join(f"`{part}`" for part in target.split(".")) if self.is_iceberg else f"delta.`{target}`"


SHAPES = {
    "hot": Shape(1, 200_000, 50_000, 4, 4),
    "hot by Spark": Shape(1, 200_000, 50_000, 4, 4, merge="spark"),
    "hot on Iceberg": Shape(1, 200_000, 50_000, 4, 4, is_iceberg=True),
    "20M rows": Shape(1, 300_000, 20_000_000, 3, 4, "large-tables", rounds=2, rows=20_000_000, merge="spark"),
    "million": Shape(1, 1_000_000, 200_000, 4, 4, "large-tables"),
    "million in 40": Shape(1, 1_000_000, 200_000, 40, 4, "large-tables", rounds=2),
    "20 tables": Shape(20, 40, 20, 2),
    "8 tables": Shape(8, 20, 10, 2),
    "8 topics": Shape(8, 20, 10, 2, 64),
    "100 tables": Shape(100, 20, 10, 2, part="many-tables", rounds=2),
    "500 tables": Shape(500, 20, 10, 2, part="many-tables", rounds=1),
}
# Kafka delays what is less than a full response by 500 ms by default, for each partition in each batch.
PROMPT = {"kafka.fetch.max.wait.ms": "20"}
TYPES = {name: mysql for name, (mysql, _) in COLUMNS.items()}
THREADS = 4
# Delta keeps 0.6 MB in the driver for each table, and both ways have tables of their own. With 100 generated classes, which
# is Spark's default, both would compile theirs in each batch.
SETTINGS = {
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "4g",
    "spark.sql.codegen.cache.maxEntries": "2000",
}


def changes(table, count, keys, seed, rows=0):
    """Inserts of all keys that a table of so many rows lacks, then updates of some, and one delete for nineteen updates."""
    rng = random.Random(seed)
    for at in range(count):
        is_insert = at + rows < keys
        key = at + rows if is_insert else rng.randrange(keys)
        kind = "INSERT" if is_insert else "DELETE" if at % 20 == 0 else "UPDATE"
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


def create_table(spark, shape, name):
    columns = ", ".join(f"{name} {kind}" for name, (_, kind) in COLUMNS.items())
    settings = {"delta.feature.timestampNtz": "supported"}
    if shape.rows:
        settings["delta.enableDeletionVectors"] = "true"
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in settings.items())
    using = "iceberg" if shape.is_iceberg else f"delta TBLPROPERTIES ({listed})"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING {using}")


def merge_by_hand(events, shape, table, name):
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
    create_table(spark, shape, name)
    names, values = ", ".join(COLUMNS), ", ".join(f"s.{name}" for name in COLUMNS)
    spark.sql(
        f"MERGE INTO {name} t USING {view} s ON t.id = s.id WHEN MATCHED AND s.type = 'DELETE' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in COLUMNS)} "
        f"WHEN NOT MATCHED AND s.type <> 'DELETE' THEN INSERT ({names}) VALUES ({values})"
    )
    spark.catalog.dropTempView(view)


def recipe(messages, shape, lake, checkpoint):
    def merge_batch(batch, _):
        events = batch.select(f.from_json(f.col("value").cast("string"), MESSAGE).alias("message"), "offset").persist()
        tables = [row[0] for row in events.select("message.table").distinct().collect()]
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda table: merge_by_hand(events, shape, table, shape.sql_name(lake, table)), tables))
        events.unpersist()

    writer = messages.writeStream.foreachBatch(merge_batch).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


def with_towpath(messages, shape, lake, checkpoint):
    target = shape.target(lake, "{table}")
    trigger = {"availableNow": True}
    return towpath.spark.replicate(
        messages, target, "canal-json", checkpoint=checkpoint, trigger=trigger, merge=shape.merge
    )


WAYS = {"towpath": with_towpath, "recipe": recipe}


def cpu_seconds(broker):
    """Of this process, its JVM and its Python workers; not of the broker."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            if process.pid != broker:
                times = process.cpu_times()
                total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total


def insert_rows(spark, shape, name, topic):
    """Fill a table as earlier changes of another topic would have."""
    order = (
        spark.table(name).schema["_towpath"].dataType.simpleString()
        if "_towpath" in spark.table(name).columns
        else None
    )
    second = "timestamp_micros(1700000000000000 + id DIV 50 * 1000000)"
    places = {"event_time": second, "produced_time": second, "batch": "id", "timestamp": second, "offset": "id DIV 4"}
    places |= {"step": "0", "is_row": "true", "topic": f"'{topic}'", "partition": "id % 4"}
    spark.range(0, shape.rows, 1, 32).createOrReplaceTempView("numbers")
    cells = [
        "id",
        "id % 1000",
        "id % 1000000 + 0.25",
        "'new'",
        "hex(xxhash64(id))",
        "timestamp_ntz'2025-05-05 05:05:05'",
        "2.5",
    ]
    if order:
        fields = [field.split(":")[0] for field in order[len("struct<") : -1].split(",")]
        listed = ", ".join(f"'{field}', {places.get(field, 'NULL')}" for field in fields)
        cells.append(f"CAST(named_struct({listed}) AS {order})")
    names = [*COLUMNS, *(["_towpath"] if order else [])]
    times = "spark.sql.parquet.outputTimestampType"
    spark.conf.set(times, "TIMESTAMP_MICROS")  # as replicate writes them; the recipe has none
    spark.sql(f"INSERT INTO {name} ({', '.join(names)}) SELECT {', '.join(cells)} FROM numbers")
    spark.conf.unset(times)


def fill_tables(spark, kafka, shape, topic, folder):
    """Create the tables of a shape with its rows, and a first one whose change both ways apply."""
    first = changes("t000", 1, shape.rows + 1, 0, shape.rows)
    kafka.create_topic(topic, 1)
    kafka.produce(topic, ((None, value, 0) for _, value in first))
    measure(spark, kafka, shape, [topic], 1, folder, tuple(WAYS), "first")
    for way in WAYS:
        insert_rows(spark, shape, shape.sql_name(f"{folder}/{way}", "t000"), topic)


def measure(spark, kafka, shape, topics, limit, folder, names=tuple(WAYS), query="of"):
    """Seconds of each way, and of each of its batches."""
    measured = {}
    for name in names:
        way = WAYS[name]
        source = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": ",".join(topics)}
        source |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(limit), **PROMPT}
        began, cpu = time.monotonic(), cpu_seconds(kafka.pid)
        messages = spark.readStream.format("kafka").options(**source).load()
        started = way(messages, shape, f"{folder}/{name}", f"{folder}/{query}-{name}")
        started.awaitTermination()
        progress = [one for one in started.recentProgress if one["numInputRows"]]
        batches = [one["durationMs"]["triggerExecution"] / 1000 for one in progress]
        wall, cpu = time.monotonic() - began, cpu_seconds(kafka.pid) - cpu
        measured[name] = {"wall": wall, "cpu": cpu, "batches": batches}
    return measured


def verify(spark, shape, tables, folder):
    for table in tables:
        found = [spark.table(shape.sql_name(f"{folder}/{way}", table)).select(*COLUMNS) for way in WAYS]
        different = found[0].exceptAll(found[1]).count() + found[1].exceptAll(found[0]).count()
        assert different == 0, f"{table}: {different} rows are not in both"
        assert found[0].count() > 0, f"{table} is empty"


def fill(kafka, prefix, shape):
    """One topic for all tables, their changes in turns; or a topic of several partitions for each. Returns the topics."""
    tables = [f"t{number:03}" for number in range(shape.tables)]
    sources = [changes(table, shape.changes, shape.keys, number, shape.rows) for number, table in enumerate(tables)]
    if shape.partitions > 1:
        topics = [f"{prefix}-{table}" for table in tables]
        for topic, source in zip(topics, sources, strict=True):
            kafka.create_topic(topic, shape.partitions)
            kafka.produce(topic, ((None, value, key % shape.partitions) for key, value in source))
        return topics
    kafka.create_topic(prefix, 1)
    in_turns = zip(*sources, strict=True)
    kafka.produce(prefix, ((None, value, 0) for values in in_turns for _, value in values))
    return [prefix]


def run(spark, kafka, name, shape, folder):
    """What both ways take for a shape."""
    prefix = name.replace(" ", "-")
    topics = fill(kafka, prefix, shape)
    limit = -(-shape.tables * shape.changes // shape.batches)
    rounds = []
    for names in islice(cycle([tuple(WAYS), tuple(reversed(WAYS))]), shape.rounds):
        lake = f"{folder}/{prefix}-{len(rounds)}"
        if shape.rows:
            fill_tables(spark, kafka, shape, f"{prefix}-before-{len(rounds)}", lake)
        rounds.append(measure(spark, kafka, shape, topics, limit, lake, names))
        verify(spark, shape, [f"t{number:03}" for number in range(0, shape.tables, 10)], lake)
    ratios = {what: median(one["towpath"][what] / one["recipe"][what] for one in rounds) for what in ("wall", "cpu")}
    print(
        f"{name}: {ratios['wall']:.2f} of the recipe's wall time, {ratios['cpu']:.2f} of its CPU time: {rounds}",
        flush=True,
    )
    return {way: {what: [one[way][what] for one in rounds] for what in ("wall", "cpu")} for way in WAYS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="shape", help=", ".join(SHAPES))
    parts = sorted({shape.part for shape in SHAPES.values()})
    parser.add_argument("--part", default="lakehouse", choices=parts, help="the shapes of this part, if none is named")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    if unknown := set(arguments.shapes) - set(SHAPES):
        parser.error(f"no such shape: {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    shapes = arguments.shapes or [name for name, shape in SHAPES.items() if shape.part == arguments.part]
    folder = tempfile.mkdtemp(prefix="towpath-bench-")
    with KafkaBroker() as kafka:
        spark = lake_session(Path(folder) / "warehouse", SETTINGS)
        warm = Shape(1, 200, 100, 1)
        measure(spark, kafka, warm, fill(kafka, "warm", warm), 1000, f"{folder}/warm")
        measured = {name: run(spark, kafka, name, SHAPES[name], folder) for name in shapes}
        spark.stop()
    shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
