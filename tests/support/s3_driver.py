"""The driver of test_object_stores.py: writes tables in an S3 both ways. Its own process, as it needs more jars.

It prints, as JSON, for each way the rows of each table and what made their versions.
"""

import json
import sys
from pathlib import Path

import towpath
from lake_session import lake_session, lake_settings
from lake_topic import COLUMNS, canal, row
from object_store import BUCKET, ObjectStore
from server_process import jars

TABLES = ("orders", "a b", "名", "50%")


def batches():
    """Inserts, updates and deletes of all tables, and a replay."""
    inserts = [canal(at, "INSERT", table, row(at % 9, "x"), second=at) for at in range(9) for table in TABLES]
    more = [canal(20 + at, "UPDATE", table, row(at, f"y{at}"), second=20) for at in range(4) for table in TABLES]
    more += [canal(30, "DELETE", table, row(5, "x"), second=30) for table in TABLES]
    return [inserts, more, inserts]


def tables_of(spark, lake):
    found = {}
    for table in TABLES:
        name = f"delta.`{lake}/shop/{table.replace('%', '%25')}`"
        rows = sorted((one["id"], one["name"]) for one in spark.sql(f"SELECT * FROM {name}").collect())
        history = spark.sql(f"DESCRIBE HISTORY {name}").collect()
        writers = {one["engineInfo"].partition(":")[0] for one in history if one["operation"] == "MERGE"}
        found[table] = {"rows": rows, "writers": sorted(writers)}
    return found


def main(folder):
    with ObjectStore(folder) as store:
        own_jars = ",".join(map(str, [*jars("spark"), *jars("s3")]))
        settings = {**lake_settings(folder), **store.hadoop, "spark.jars": own_jars}
        spark = lake_session(folder, settings)
        found = {}
        for way in ("spark", "auto", "task"):
            lake = f"s3a://{BUCKET}/{way}"
            for messages in batches():
                rows = [(None, one["value"], "t", one["partition"], one["offset"], None) for one in messages]
                frame = spark.createDataFrame(rows, COLUMNS)
                options = {"merge": way, "storage_options": store.storage_options, "status": f"{lake}/status"}
                towpath.spark.replicate(frame, f"{lake}/{{database}}/{{table}}", "canal-json", **options)
            found[way] = tables_of(spark, lake)
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
