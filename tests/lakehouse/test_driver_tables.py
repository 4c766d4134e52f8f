"""What delta-rs reads, creates and extends in the driver is what Spark reads."""

import json
import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql.types import StructType

from towpath.lakehouse.merging.jobs import session_settings
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.order.order import ORDER_TYPE
from towpath.lakehouse.tables.driver_tables import DriverTable
from towpath.lakehouse.tables.tables import create_or_evolve, schema_of
from towpath.lakehouse.tables.target_properties import KEY, SOURCE, table_properties

TYPES = [
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(38,9)",
    "date",
    "timestamp",
    "timestamp_ntz",
]
TYPES += ["string", "binary", "boolean", ORDER_TYPE, "array<string>", "map<string,decimal(20,0)>"]
VALUES = {
    "float": "'NaN'",
    "double": "'-Infinity'",
    "decimal(38,9)": "'-12345678901234567890123456789.123456789'",
    "date": "'9999-12-31'",
    "timestamp": "'0001-01-01 00:00:00.000001'",
    "timestamp_ntz": "'9999-12-31 23:59:59.999999'",
    "binary": "X'00FF'",
    "boolean": "true",
    ORDER_TYPE: f"""from_json('{{"topic": "t", "offset": 5, "event_time": "2024-02-29T00:00:00Z"}}', '{ORDER_TYPE}')""",
    "array<string>": "array('a', NULL)",
    "map<string,decimal(20,0)>": "map('a', 18446744073709551615BD)",
}
"""A value of each type; of the other types it is -1."""
PLAIN = ["id", "Name", "_x", "订单", "a1", "token", "select", "Ä"]
OTHER = ["unit price", "a.b", "a`b", "x=1", "{}", "a,b", 'say "x"', "10%"]


def columns(rng, names):
    found = StructType()
    for name in names:
        found = found.add(name, StructType.fromDDL(f"x {rng.choice(TYPES)}")[0].dataType)
    return found


def never_null(columns):
    """Declare columns and nested fields NOT NULL, as Spark does for rows without nulls."""
    return StructType.fromJson(
        json.loads(re.sub('(nullable|containsNull|valueContainsNull)":true', '\\1":false', columns.json()))
    )


@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.soak)])
def test_spark_reads_what_delta_rs_creates_and_extends(spark, tmp_path, rounds):
    """Columns of names that need column mapping are left to Spark."""
    rng, in_tasks = random.Random(7), TaskMerges()
    properties = {KEY: '["订单", "a b"]', SOURCE: "shop.token's", "delta.dataSkippingNumIndexedCols": "3"}
    for number in range(rounds):
        names = rng.sample(PLAIN, rng.randrange(1, len(PLAIN)))
        first, added = columns(rng, names), columns(rng, [f"{name}2" for name in rng.sample(PLAIN, 2)])
        target = str(tmp_path / f"table {number}")
        table = DriverTable(spark, target, in_tasks)
        assert table.read() is None
        assert table.create(never_null(first), properties)
        assert not table.create(first, properties)  # it exists
        assert table.add(never_null(added).fields)
        wanted = StructType([*first, *added])
        assert table.read() == (wanted, properties)
        assert schema_of(spark, target).simpleString() == wanted.simpleString()
        assert properties.items() <= table_properties(spark, target).items()
        create_or_evolve(spark, target, columns(rng, [rng.choice(OTHER)]), in_tasks=in_tasks)
        evolved = schema_of(spark, target)
        assert evolved.fields[:-1] == wanted.fields
        assert schema_of(spark, target, in_tasks).simpleString() == evolved.simpleString()
        assert not table.add(columns(rng, ["more"]).fields)  # it has column mapping now
        kinds = [one.dataType.simpleString() for one in evolved]
        values = ", ".join(f"CAST({VALUES.get(kind, -1)} AS {kind})" for kind in kinds)
        nulls = ", ".join("NULL" for _ in kinds)
        spark.sql(f"INSERT INTO delta.`{target}` SELECT {values} UNION ALL SELECT {nulls}")
        stored = spark.read.format("delta").load(target)
        assert repr(sorted(table.frame().collect(), key=repr)) == repr(sorted(stored.collect(), key=repr))
    assert in_tasks.refused == {}


def test_what_delta_rs_must_not_create_is_left_to_spark(spark, tmp_path):
    rng, in_tasks, plain = random.Random(8), TaskMerges(), StructType.fromDDL("id int")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.csv").write_text("a")
    assert not DriverTable(spark, str(tmp_path / "files"), in_tasks).create(plain, {})
    table = DriverTable(spark, str(tmp_path / "a"), in_tasks)
    assert not any(table.create(columns(rng, ["id", name]), {}) for name in OTHER)
    assert not table.create(StructType().add("a", "integer").add("A", "integer"), {})
    assert not table.create(plain, {"delta.enableChangeDataFeed": "true"})
    assert not DriverTable(spark, str(tmp_path / "a"), TaskMerges("spark")).create(plain, {})
    with session_settings(spark, {"spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true"}):
        assert not table.create(plain, {})
    assert not (tmp_path / "a").exists()


def test_one_of_two_writers_creates_a_table(spark, tmp_path):
    in_tasks, plain = TaskMerges(), StructType.fromDDL("id int")
    for number in range(10):
        target = str(tmp_path / str(number))
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda _: DriverTable(spark, target, in_tasks).create(plain, {}), range(4)))  # noqa: B023
        assert sum(made) == 1
        assert DriverTable(spark, target, in_tasks).read() == (plain, {})
