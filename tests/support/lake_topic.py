"""A topic whose messages and places a test chooses, and the tables that `replicate` maintains from it."""

import json
import os
import re
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

import towpath
from spark_rows import of_arrow, of_spark
from towpath.ddl import quoted
from towpath.places import COLUMNS as KAFKA

ARROW = pa.schema({name: KAFKA[name] for name in ("key", "value", "topic", "partition", "offset", "timestamp")})
COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
WAY = {"merge": os.environ["TOWPATH_TEST_MERGE"]} if "TOWPATH_TEST_MERGE" in os.environ else {}
OWN_TABLES = {"dead_letters": "dead", "status": "status", "ddl": "ddl"}
TYPES = {"id": "int", "name": "varchar(20)"}


class Topic:
    """What a producer sent: messages with places that the test chooses."""

    database = "shop"

    def __init__(self, spark, folder, catalog=None):
        """The tables are Delta tables in a folder, or those of a catalog."""
        self.spark = spark
        self.lake = folder / "lake"
        self.catalog = catalog and f"{catalog}.lake_{uuid4().hex}"
        self.options = {name: self.name(table) for name, table in OWN_TABLES.items()}
        self.target = f"{self.catalog}.{{database}}.{{table}}" if catalog else f"{self.lake}/{{database}}/{{table}}"

    def name(self, table):
        """The path or the catalog name of a table, such as `shop/orders`."""
        if self.catalog:
            return ".".join([self.catalog, *map(quoted, table.split("/"))])
        # A folder that begins with an underscore is hidden from Spark.
        return str(self.lake.joinpath(*("%5F" + part[1:] if part[0] == "_" else part for part in table.split("/"))))

    def sql_name(self, table):
        """The name of a table in SQL."""
        return self.name(table) if self.catalog else f"delta.`{self.name(table)}`"

    def frame(self, *messages):
        rows = pa.Table.from_pylist([{"topic": "t", **one} for one in messages], ARROW)
        # Made from Python objects, it would start Python workers in each of its jobs.
        return self.spark.createDataFrame(rows, COLUMNS)

    def replicate(self, *messages, dialect="canal-json", **options):
        towpath.spark.replicate(self.frame(*messages), self.target, dialect, **{**WAY, **self.options, **options})

    def replicate_in_turn(self, batches, *, dialect="canal-json", **options):
        """Each batch is a micro-batch of one query, which remembers what it has seen."""
        folder = self.lake.parent / f"messages-{uuid4().hex}"
        for number, messages in enumerate(filter(None, batches)):
            self.frame(*messages).coalesce(1).write.mode("append").parquet(str(folder / f"{number:04}"))
            for file in (folder / f"{number:04}").glob("*.parquet"):
                os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
        source = self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(f"{folder}/*")
        stream = {"checkpoint": f"{folder}-checkpoint", "trigger": {"availableNow": True}}
        arguments = {**WAY, **self.options, **stream, **options}
        towpath.spark.replicate(source, self.target, dialect, **arguments).awaitTermination()

    def reprocess(self, **options):
        """Apply what the queries of these tables put aside."""
        own = {name: self.options[name] for name in ("dead_letters", "status")}
        towpath.spark.reprocess(self.spark, **{**own, **options})

    def load(self, name):
        return self.spark.table(self.sql_name(name))

    def read(self, name):
        """The rows of a table. Those that towpath adds are in the order of their offsets, if they have some."""
        found = of_spark(self.load(name).collect()) if self.catalog else of_delta(self.name(name))
        return found if "/" in name else sorted(found, key=lambda row: row.get("offset") or 0)

    def waiting(self, name):
        """The rows of a table of dead letters, or of a quarantine, that were not applied yet."""
        return [row for row in self.read(name) if row["done_at"] is None]

    def rows(self, table):
        found = self.read(f"shop/{table}")
        for row in found:
            del row[[name for name in row if name.startswith("_towpath")][-1]]
        return sorted(found, key=lambda row: row["id"])

    def tables(self, database):
        """The names or folders of a database's tables, without those that towpath adds."""
        if self.catalog:
            return sorted(one["tableName"] for one in self.spark.sql(f"SHOW TABLES IN {self.name(database)}").collect())
        return sorted(path.parent.name for path in self.lake.glob(f"{database}/*/_delta_log"))

    def names(self, table):
        return {row["id"]: row["name"] for row in self.rows(table)}

    def states(self):
        return {row["table"]: row for row in self.read("status")}

    def state_of(self, tables=None):
        """The state of each table, or of these."""
        return {name: one["state"] for name, one in self.states().items() if tables is None or name in tables}

    def files_with(self, pattern):
        """The targets that have a text in one of their files, whatever version of the table the file is of."""
        files = [one for one in self.lake.glob(f"{self.database}/**/*") if one.suffix in (".json", ".parquet")]
        texts = (one.read_text() if one.suffix == ".json" else str(pq.read_table(one).to_pydict()) for one in files)
        found = (one for one, text in zip(files, texts, strict=True) if re.search(pattern, text))
        return {path.relative_to(self.lake).parts[1] for path in found}

    def version(self, table):
        """How many commits it has."""
        if self.catalog:
            return self.spark.sql(f"SELECT * FROM {self.sql_name(f'shop/{table}')}.snapshots").count()
        return 1 + DeltaTable(self.name(f"shop/{table}")).version()


def of_delta(path):
    """The rows of a Delta table, read with delta-rs, which takes a tenth of Spark's time."""
    try:
        found = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT * FROM t")
    except DeltaError:  # a feature of Delta that delta-rs lacks
        return of_spark(SparkSession.active().read.format("delta").load(str(path)).collect())
    return of_arrow(pa.RecordBatchReader.from_stream(found).read_all())


def canal(at, kind, table, row=None, types=TYPES, *, old=None, second=0, partition=0, **more):
    message = {"database": "shop", "table": table, "type": kind, "pkNames": row and [next(iter(row))]}
    message |= {"es": 1_700_000_000_000 + 1000 * second, "data": row and [row], "old": old and [old]}
    message |= {"mysqlType": types, "isDdl": row is None, **more}
    return {"partition": partition, "offset": at, "value": json.dumps(message).encode()}


def row(key, name):
    return {"id": str(key), "name": name}
