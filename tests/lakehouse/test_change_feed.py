"""Targets with Delta's change data feed, which Delta refuses for tables that are created with rows."""

import pytest

import towpath
from lake_topic import Topic, canal, row

FEED = "delta.enableChangeDataFeed"
FIRST = [canal(0, "INSERT", "a", row(1, "x")), canal(1, "INSERT", "a", row(2, "y"))]
LATER = [canal(2, "UPDATE", "a", row(1, "z"), old={"name": "x"}), canal(3, "DELETE", "a", row(2, "y"))]


@pytest.fixture
def topic(spark, tmp_path):
    found = Topic(spark, tmp_path)
    found.options |= {"merge": "spark", "table_properties": {FEED: "true"}}
    return found


def feed(topic, table, version):
    """Operations and names of the changes since a version."""
    options = {"readChangeFeed": "true", "startingVersion": version}
    found = topic.spark.read.format("delta").options(**options).load(topic.name(f"shop/{table}"))
    return sorted((one["_change_type"], one["name"]) for one in found.select("_change_type", "name").collect())


@pytest.mark.parametrize("merge", [pytest.param("auto", marks=pytest.mark.soak), "spark"])
def test_all_changes_are_in_the_feed(topic, merge):
    topic.options["merge"] = merge
    topic.replicate(*FIRST)
    topic.replicate(*LATER)
    assert topic.names("a") == {1: "z"}
    inserts = [("insert", "x"), ("insert", "y")]
    assert feed(topic, "a", 0) == [("delete", "y"), *inserts, ("update_postimage", "z"), ("update_preimage", "x")]
    assert topic.states()["a"]["state"] == "ok"


@pytest.mark.soak
def test_a_renamed_table_keeps_its_feed(topic):
    topic.replicate(*FIRST)
    topic.replicate(canal(2, "RENAME", "b", sql="RENAME TABLE a TO b", second=1))
    topic.replicate(canal(3, "UPDATE", "b", row(1, "z"), old={"name": "x"}, second=2))
    assert topic.names("b") == {1: "z", 2: "y"}
    assert feed(topic, "b", topic.version("b") - 1) == [("update_postimage", "z"), ("update_preimage", "x")]


@pytest.mark.soak
def test_a_rebuilt_table_keeps_its_feed(topic):
    topic.replicate(*FIRST)
    towpath.spark.rebuild(
        topic.frame(*FIRST, *LATER), "shop.a", topic.target, "canal-json", status=topic.name("status")
    )
    topic.replicate(canal(4, "UPDATE", "a", row(1, "last"), old={"name": "z"}))
    assert topic.names("a") == {1: "last"}
    assert feed(topic, "a", topic.version("a") - 1) == [("update_postimage", "last"), ("update_preimage", "z")]


@pytest.mark.soak  # a unit test has what decides it
def test_a_default_of_the_session_is_followed(spark, tmp_path, monkeypatch):
    name = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    topic = Topic(spark, tmp_path)
    spark.conf.set(name, "true")
    try:
        topic.replicate(*FIRST, merge="spark")
        topic.replicate(*LATER, merge="spark")
    finally:
        spark.conf.unset(name)
    assert topic.names("a") == {1: "z"}
    assert ("delete", "y") in feed(topic, "a", 0)
