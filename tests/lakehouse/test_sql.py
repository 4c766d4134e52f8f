"""SQL text against Spark's own parser: any name and any value is read back as it is."""

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from towpath.lakehouse.tables.sql import (
    Sql,
    column,
    comma_separated,
    definitions,
    equal_columns,
    execute,
    sql,
    string,
    table,
    without_variables,
)
from towpath.lakehouse.tables.targets import Targets

HOSTILE = ["plain", "a`b", "``", "it's", "\\", "\\'", 'say "x"', "{name}", "客户; DROP TABLE t --", "a.b"]
VARIABLES = ["${env:HOME}", "${nope}", "$${x}", "${a", "${towpath.dollar}"]


@pytest.mark.parametrize("text", [*HOSTILE, *VARIABLES])
def test_names_and_values_are_read_back_as_they_are(spark, text):
    statement = sql("SELECT {value} AS {name}", value=string(text), name=column(text))
    frame = spark.sql(without_variables(spark, statement))
    assert frame.columns == [text]
    assert frame.first()[0] == text


@pytest.mark.parametrize("name", HOSTILE)
def test_fields_of_a_column(spark, name):
    frame = spark.sql(sql("SELECT named_struct({key}, 1) AS {name}", key=string(name), name=column(name)))
    assert frame.select(column(name, name)).first()[0] == 1


def test_columns_are_compared_with_nulls(spark):
    rows = "SELECT * FROM VALUES (1, NULL), (1, 2), (NULL, NULL) AS v(`a``b`, c)"
    joined = spark.sql(f"SELECT 1 FROM ({rows}) t JOIN ({rows}) s ON {equal_columns(['a`b', 'c'])}")
    assert joined.count() == 3


def test_without_spark_s_substitution_nothing_is_done_against_it(spark):
    spark.conf.set("spark.sql.variable.substitute", "false")
    try:
        assert without_variables(spark, "${x}") == "${x}"
    finally:
        spark.conf.unset("spark.sql.variable.substitute")


def test_tables_are_where_their_targets_say(spark, tmp_path):
    target = Targets(f"{tmp_path}/lake/{{database}}/{{table}}")("shop", "../../a%20b#c ${env:HOME} {x}*:\\`")
    fields = StructType([StructField("${env:HOME}", StringType())])
    settings = Sql("TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    execute(
        spark,
        sql(
            "CREATE TABLE {table} ({columns}) USING delta {settings}",
            table=table(target),
            columns=definitions(fields),
            settings=settings,
        ),
    )
    execute(spark, sql("INSERT INTO {table} VALUES ({value})", table=table(target), value=string("${env:HOME}")))
    rows = spark.read.format("delta").load(target)
    assert (rows.columns, rows.first()[0]) == (["${env:HOME}"], "${env:HOME}")
    assert [path.name for path in (tmp_path / "lake" / "shop").iterdir()] == [target.rpartition("/")[2]]
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]


def test_tables_are_paths_or_names_of_a_catalog():
    assert table("lake.`odd name`") == "lake.`odd name`"
    assert table("lake.`a/b`") == "lake.`a/b`"
    assert table("/lake/a`b") == "delta.`/lake/a``b`"
    assert comma_separated(map(column, ["a", "b"])) == "`a`, `b`"
