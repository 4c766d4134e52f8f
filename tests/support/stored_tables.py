"""A few tables in a store that `replicate` writes, with names that a URI encodes, and who merged them."""

import towpath
from delta_history import commits
from lake_topic import COLUMNS, canal, row

TABLES = ("orders", "a b", "名", "50%")
ROWS = [(key, f"y{key}" if key < 4 else "x") for key in range(9) if key != 5]
"""Of each table in the end."""


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
        writers = {writer for operation, writer in commits(spark, name) if operation == "MERGE"}
        found[table] = {"rows": rows, "writers": ", ".join(sorted(writers))}
    return found


def replicated(spark, lake, merge, storage, messages=None):
    """Write the tables of a lake from batches of messages. Returns the rows of `TABLES`, and who merged them."""
    for one in messages or batches():
        rows = [(None, each["value"], "t", each["partition"], each["offset"], None) for each in one]
        options = {"merge": merge, "storage_options": storage, "status": f"{lake}/status"}
        frame = spark.createDataFrame(rows, COLUMNS)
        towpath.spark.replicate(frame, f"{lake}/{{database}}/{{table}}", "canal-json", **options)
    return {} if messages else tables_of(spark, lake)
