"""Columns, tables and topics whose names Spark takes for secrets, and hides in the properties of a target."""

import pytest

from lake_topic import Topic, canal
from spark_rows import of_spark
from towpath.lakehouse.tables.target_properties import table_properties


@pytest.fixture(params=[None, pytest.param("ice", marks=pytest.mark.soak)], ids=["delta", "iceberg"])
def topic(spark, tmp_path, request):
    return Topic(spark, tmp_path, request.param)


TYPES = {"access_token": "varchar(9)", "password": "varchar(20)", "a": "int"}


def change(offset, kind, token, **cells):
    row = {"access_token": token, "password": "hunter2", "a": "1", **cells}
    types = {**TYPES, **{name: "varchar(50)" for name in cells if name not in TYPES}}
    return {**canal(offset, kind, "user_tokens", row, types, second=offset), "topic": "short-urls"}


def statement(offset, text):
    return {**canal(offset, "ALTER", "user_tokens", sql=text, second=offset), "topic": "short-urls"}


def test_names_that_look_like_secrets(topic, spark):
    options = {"columns": {"shop.user_tokens": {"exclude": ["password"]}}}
    added = statement(1, "ALTER TABLE user_tokens ADD COLUMN avatar_url VARCHAR(50) DEFAULT 'secret'")
    again = [change(0, "UPDATE", "x"), added, change(2, "INSERT", "y", avatar_url="u")]
    topic.replicate_in_turn([[change(0, "INSERT", "x")], again], **options)
    renamed = statement(3, "ALTER TABLE user_tokens RENAME COLUMN avatar_url TO url")
    topic.replicate_in_turn([[renamed], [change(4, "UPDATE", "y", url="v"), change(5, "DELETE", "x")]], **options)
    assert of_spark(topic.load("shop/user_tokens").drop("_towpath").collect()) == [
        {"access_token": "y", "a": 1, "url": "v"}
    ]
    assert {status["state"] for status in topic.states().values()} == {"ok"}
    assert table_properties(spark, topic.name("shop/user_tokens"))["towpath.key"] == '["access_token"]'
