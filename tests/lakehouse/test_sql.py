"""SQL text against Spark's own parser: any name and any value is read back as it is."""

import pytest

from towpath.spark.lakehouse.sql import column, comma_separated, equal_columns, sql, string, table

HOSTILE = ["plain", "a`b", "``", "it's", "\\", "\\'", 'say "x"', "{name}", "客户; DROP TABLE t --", "a.b"]


@pytest.mark.parametrize("text", HOSTILE)
def test_names_and_values_are_read_back_as_they_are(spark, text):
    frame = spark.sql(sql("SELECT {value} AS {name}", value=string(text), name=column(text)))
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


def test_tables_are_paths_or_names_of_a_catalog():
    assert table("lake.`odd name`") == "lake.`odd name`"
    assert table("/lake/a`b") == "delta.`/lake/a``b`"
    assert comma_separated(map(column, ["a", "b"])) == "`a`, `b`"
