"""The broker and the client that the tests of this folder rely on."""

import json

from kafka_source import read
from spark_rows import of_spark


def test_spark_reads_what_was_produced(spark, kafka, topic):
    kafka.create_topic(topic, 3)
    sent = kafka.produce(topic, [(f"k{n}".encode(), None if n == 4 else f"v{n}".encode(), n % 3) for n in range(7)])
    rows = read(spark, kafka.bootstrap, topic).selectExpr("*", "unix_millis(timestamp) as millis").collect()
    got = {(row["partition"], row["offset"]): row for row in of_spark(rows)}
    assert sorted(got) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1)]
    for record in sent:
        row = got[record.partition, record.offset]
        assert (row["topic"], row["key"], row["value"]) == (topic, record.key, record.value)
        assert row["millis"] == record.timestamp
    assert got[1, 1]["value"] is None


def test_delta_tables_can_be_written_merged_and_described(spark, tmp_path):
    path = str(tmp_path / "table")
    spark.range(3).write.format("delta").save(path)
    spark.sql(f"MERGE INTO delta.`{path}` t USING (SELECT 2L id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert [row.id for row in spark.read.format("delta").load(path).orderBy("id").collect()] == [0, 1]
    log = sorted((tmp_path / "table" / "_delta_log").glob("*.json"))
    assert [json.loads(file.read_text().splitlines()[0])["commitInfo"]["operation"] for file in log] == [
        "WRITE",
        "MERGE",
    ]
