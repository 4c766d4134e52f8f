"""A topic whose messages and places a test chooses, and the tables that `replicate` maintains from it."""

import json

import towpath
from spark_rows import of_spark

COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
TYPES = {"id": "int", "name": "varchar(20)"}


class Topic:
    """What a producer sent: messages with places that the test chooses."""

    def __init__(self, spark, folder):
        self.spark = spark
        self.lake = folder / "lake"
        self.options = {
            "dead_letters": str(self.lake / "dead"),
            "status": str(self.lake / "status"),
            "ddl": str(self.lake / "ddl"),
        }
        self.target = f"{self.lake}/{{database}}/{{table}}"

    def frame(self, *messages):
        rows = [(m.get("key"), m["value"], "t", m["partition"], m["offset"], m.get("timestamp")) for m in messages]
        return self.spark.createDataFrame(rows, COLUMNS)

    def replicate(self, *messages, dialect="canal-json", **options):
        towpath.spark.replicate(self.frame(*messages), self.target, dialect, **{**self.options, **options})

    def load(self, name):
        return self.spark.read.format("delta").load(str(self.lake / name))

    def rows(self, table):
        frame = self.load(f"shop/{table}")
        own = [name for name in frame.columns if name.startswith("_towpath")]
        return sorted(of_spark(frame.drop(own[-1]).collect()), key=lambda row: row["id"])

    def names(self, table):
        return {row["id"]: row["name"] for row in self.rows(table)}

    def states(self):
        return {row["table"]: row for row in of_spark(self.load("status").collect())}

    def version(self, table):
        path = f"delta.`{self.lake / 'shop' / table}`"
        return self.spark.sql(f"DESCRIBE HISTORY {path}").count()


def canal(at, kind, table, row=None, types=TYPES, *, old=None, second=0, partition=0, **more):
    message = {"database": "shop", "table": table, "type": kind, "pkNames": row and [next(iter(row))]}
    message |= {"es": 1_700_000_000_000 + 1000 * second, "data": row and [row], "old": old and [old]}
    message |= {"mysqlType": types, "isDdl": row is None, **more}
    return {"partition": partition, "offset": at, "value": json.dumps(message).encode()}


def row(key, name):
    return {"id": str(key), "name": name}
