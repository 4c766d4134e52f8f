"""`format("towpath")` on topics does what Spark's own Kafka source does: the same tests run against both."""

import json
import re
import time
import zlib

import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.errors import StreamingQueryException

import captures_for_replication
import towpath
from all_golden import captures
from canal_messages import MIXED, SCHEMA, change, order
from documents import block, run
from exactly_once import Lake, prove
from guarded_broker import GuardedBroker, certificates
from kafka_queries import EVERY, fill, finished, numbered, numbers, source, started, table, values
from kafka_source import KEPT
from spark_rows import of_spark
from token_endpoint import CLIENT, SECRET, TokenEndpoint

# Spark's own source does the same, which `make soak` shows.
BOTH = pytest.mark.parametrize("format", [pytest.param("kafka", marks=pytest.mark.soak), "towpath"])
# Spark's source waits this long for messages beyond the end.
PATIENCE: dict[str, dict[str, int]] = {"kafka": {"kafkaConsumer.pollTimeoutMs": 1000}, "towpath": {}}
ALL = ("key", *KEPT[:2], "offset", "timestamp", "timestampType")


def delete_until(kafka, topic, offset):
    admin = kafka.admin()
    [done] = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    done.result(30)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("canal-json/canal-mysql/mixed.flat.jsonl.zst", marks=pytest.mark.soak),
        "debezium-json/mysql-default/mixed.kv.jsonl.zst",
        pytest.param("dts-avro/dts_v2_born.lenrec.zst", marks=pytest.mark.soak),
        pytest.param("ticdc-open/open_protocol.kvrec.zst", marks=pytest.mark.soak),
    ],
)
def test_rows_are_those_of_decode(spark, kafka, topic, name):
    dialect = name.partition("/")[0]
    [capture] = [one for one in captures(dialect) if one.name == name]
    kafka.create_topic(topic, 2, compression_type="zstd")
    kafka.produce(topic, [(record.key, record.value, at % 2) for at, record in enumerate(capture.records[:2000])])
    ours = source(spark, kafka, subscribe=topic, dialect=dialect, layout="change", keep=",".join(ALL))
    wanted = towpath.spark.decode(source(spark, kafka, "kafka", subscribe=topic), dialect, keep=ALL, key="key")
    assert ours.schema == wanted.schema
    rows = [of_spark(one.collect()) for one in (ours, wanted)]
    assert len(rows[0]) == len(rows[1]) > 0
    # Tasks of one partition are in the order of partitions in both.
    assert [pair for pair in zip(*rows, strict=True) if pair[0] != pair[1]] == []


def test_flat_layouts(spark, kafka, topic):
    """Each has the rows of `decode`, and FAILFAST names the offset of a bad one."""
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, message, 0) for message in MIXED])
    options = {"schema": SCHEMA, "table": "orders"}
    frame = source(spark, kafka, "kafka", subscribe=topic)
    for layout in ("changelog", "upsert"):
        read = {"subscribe": topic, "dialect": "canal-json", "layout": layout, "keep": ",".join(ALL)}
        ours = source(spark, kafka, **read, **options)
        wanted = towpath.spark.decode(frame, "canal-json", keep=ALL, key="key", layout=layout, **options)
        assert ours.schema == wanted.schema
        rows = [of_spark(one.collect()) for one in (ours, wanted)]
        assert rows[0] == rows[1] != []
    bad = rf"partition 0 of topic {topic}: offset 1: canal-json: .*total: .12,50. is not"
    with pytest.raises(Exception, match=bad):
        source(spark, kafka, **read, **options, mode="FAILFAST").collect()


def test_sequence_orders_by_offset_without_keep(spark, kafka, topic):
    kafka.create_topic(topic)
    rows = [change("UPDATE", data=[order(1, f"{n}.00")], old=[{"total": "0.00"}], es=1714979289000) for n in range(500)]
    kafka.produce(topic, [(None, row, 0) for row in rows])
    frame = source(spark, kafka, subscribe=topic, dialect="canal-json", schema=SCHEMA, layout="upsert")
    assert [int(row.total) for row in frame.orderBy("_sequence").collect()] == list(range(500))


@BOTH
def test_columns_and_headers(spark, kafka, topic, format):
    kafka.create_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    messages = [
        {"value": b"a", "key": b"k", "headers": [("x", b"1"), ("x", None), ("ü", b"")]},
        {"value": None, "key": b"", "headers": []},
        {"value": b"", "key": None, "headers": [("y", b"\x00\xff")]},
    ]
    for number, message in enumerate(messages):
        producer.produce(topic, partition=0, timestamp=1_700_000_000_123 + number, **message)
    producer.flush(30)
    frame = source(spark, kafka, format, subscribe=topic, includeHeaders=True)
    assert frame.schema == source(spark, kafka, "kafka", subscribe=topic, includeHeaders=True).schema
    rows = of_spark(frame.collect())
    assert [(row["key"], row["value"], row["offset"]) for row in rows] == [
        (b"k", b"a", 0),
        (b"", None, 1),
        (None, b"", 2),
    ]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {(topic, 0, 0)}
    assert [row["timestamp"].timestamp() for row in rows] == [1_700_000_000.123, 1_700_000_000.124, 1_700_000_000.125]
    pairs = [row["headers"] and [(one["key"], one["value"]) for one in row["headers"]] for row in rows]
    assert pairs == [[("x", b"1"), ("x", None), ("ü", b"")], None, [("y", b"\x00\xff")]]


def test_headers_are_kept(spark, kafka, topic):
    kafka.create_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    two = change(data=[order(1, "1.00"), order(2, "2.00")])
    producer.produce(topic, two, partition=0, headers=[("origin", b"a")])
    producer.produce(topic, change(data=[order(3, "3.00")]), partition=0)
    producer.flush(30)
    frame = source(spark, kafka, subscribe=topic, dialect="canal-json", schema=SCHEMA, layout="change", keep="headers")
    rows = of_spark(frame.select("after.id", "headers").collect())
    origin = [{"key": "origin", "value": b"a"}]
    assert rows == [{"id": 1, "headers": origin}, {"id": 2, "headers": origin}, {"id": 3, "headers": None}]


@BOTH
def test_offsets_bound_a_batch(spark, kafka, topic, format):
    fill(kafka, topic)
    read = {"format": format, "subscribe": topic}
    assert numbers(source(spark, kafka, **read)) == list(range(30))
    starting = f'{{"{topic}": {{"0": 3, "1": -2, "2": 9}}}}'
    ending = f'{{"{topic}": {{"0": 5, "1": 2, "2": -1}}}}'
    frame = source(spark, kafka, **read, startingOffsets=starting, endingOffsets=ending)
    assert values(frame) == {0: [b"9", b"12"], 1: [b"1", b"4"], 2: [b"29"]}
    with pytest.raises(Exception, match=r"artition"):
        source(spark, kafka, **read, startingOffsets=f'{{"{topic}": {{"0": 3}}}}').collect()
    with pytest.raises(Exception, match=r"(?i)latest|the end of a partition"):
        source(spark, kafka, **read, startingOffsets="latest").collect()


@BOTH
def test_times_bound_a_batch(spark, kafka, topic, format):
    kafka.create_topic(topic, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(20):
        producer.produce(topic, b"%d" % number, partition=number % 2, timestamp=1000 + number // 2)
    producer.flush(30)
    read = {"format": format, "subscribe": topic}
    assert numbers(source(spark, kafka, **read, startingTimestamp="1004", endingTimestamp="1007")) == list(range(8, 14))
    each = f'{{"{topic}": {{"0": 1008, "1": 1009}}}}'
    assert numbers(source(spark, kafka, **read, startingOffsetsByTimestamp=each)) == [16, 18, 19]
    assert numbers(source(spark, kafka, **read, endingOffsetsByTimestamp=each)) == [*range(16), 17]
    late = source(spark, kafka, **read, startingTimestamp="2000", startingOffsetsByTimestampStrategy="latest")
    assert late.collect() == []
    with pytest.raises(Exception, match=r"(?i)no (message|offset)"):
        source(spark, kafka, **read, startingTimestamp="2000").collect()


@BOTH
def test_topics_by_pattern_and_partitions_by_name(spark, kafka, topic, format):
    for name in ("a", "b", "other"):
        fill(kafka, f"{topic}.{name}", 6)
    frame = source(spark, kafka, format, subscribePattern=rf"{topic}\.[ab]")
    assert {(row.topic, row.partition) for row in frame.collect()} == {
        (f"{topic}.{name}", number) for name in "ab" for number in range(3)
    }
    frame = source(spark, kafka, format, assign=f'{{"{topic}.a": [0, 2]}}')
    assert values(frame) == {0: [b"0", b"3"], 2: [b"2", b"5"]}
    assert numbers(source(spark, kafka, format, subscribe=f"{topic}.a,{topic}.b")) == sorted([*range(6)] * 2)
    with pytest.raises(Exception, match=r"(?i)unknown.?topic|does not exist"):
        source(spark, kafka, format, subscribe=f"{topic}.none").collect()


@BOTH
def test_long_ranges_are_split(spark, kafka, topic, format):
    kafka.create_topic(topic, 2)
    kafka.produce(topic, [(None, b"%d" % number, int(number >= 10)) for number in range(100)])
    frame = source(spark, kafka, format, subscribe=topic, minPartitions="10")
    assert frame.rdd.getNumPartitions() == 10
    assert numbers(frame) == list(range(100))


@BOTH
def test_transactions(spark, kafka, topic, format):
    """Markers leave gaps in the offsets, at the end too; what was aborted counts only without `read_committed`."""
    kafka.create_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for at in range(3):
            producer.produce(topic, b"%d" % (3 * number + at), partition=0)
        producer.flush()
        producer.abort_transaction() if number % 2 else producer.commit_transaction()
    committed = [number for number in range(18) if number // 3 % 2 == 0]
    for level, wanted in (("read_committed", committed), ("read_uncommitted", list(range(18)))):
        frame = source(spark, kafka, format, **{"subscribe": topic, "kafka.isolation.level": level})
        assert numbers(frame) == wanted


@pytest.mark.soak
def test_compacted_topics_have_gaps(spark, kafka, topic):
    kafka.create_topic(
        topic, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001", delete_retention_ms="100"
    )
    # The last segment is not compacted, so each key's last value is followed by other messages.
    kafka.produce(topic, [(b"%d" % (number % 10), b"%d" % number, 0) for number in range(1000)])
    deadline = time.monotonic() + 300
    frame = source(spark, kafka, subscribe=topic)
    while frame.count() > 500:
        assert time.monotonic() < deadline, "the topic was not compacted"
        time.sleep(0.3)
        kafka.produce(topic, [(b"last", b"1000", 0)])
    key = "concat(topic, partition, offset) as place"
    both = [
        source(spark, kafka, one, subscribe=topic, endingOffsets=f'{{"{topic}": {{"0": 990}}}}')
        for one in ("kafka", "towpath")
    ]
    found = [[row.place for row in one.selectExpr(key).collect()] for one in both]
    assert found[0] == found[1]
    assert set(range(990, 1000)) <= set(numbers(frame))


def test_compressed_and_large_messages(spark, kafka, topic):
    """15 MB is far beyond the size of a fetch, and a queue of 1 MB."""
    kafka.create_topic(topic, max_message_bytes="16000000")
    small = [b"%d" % number * 100 for number in range(300)]
    parts = {"gzip": small, "snappy": small, "lz4": small, "zstd": small, "none": [*small, b"x" * 15_000_000, b"end"]}
    for codec, part in parts.items():
        settings = {"compression.type": codec, "message.max.bytes": 16_000_000}
        producer = Producer({"bootstrap.servers": kafka.bootstrap, **settings})
        for value in part:
            producer.produce(topic, value, partition=0)
        producer.flush(60)
    frame = source(spark, kafka, subscribe=topic, fetchBufferBytes="1m")
    lengths = [tuple(row) for row in frame.selectExpr("length(value)", "crc32(value)").collect()]
    assert lengths == [(len(value), zlib.crc32(value)) for part in parts.values() for value in part]


@BOTH
def test_lost_messages(spark, kafka, topic, format):
    fill(kafka, topic, 30, 1)
    delete_until(kafka, topic, 10)
    deleted = f'{{"{topic}": {{"0": 5}}}}'
    beyond = f'{{"{topic}": {{"0": 40}}}}'
    read = {"format": format, "subscribe": topic, **PATIENCE[format]}
    for bounds in ({"startingOffsets": deleted}, {"endingOffsets": beyond}):
        with pytest.raises(Exception, match=rf"(?s)messages lost.*{topic}|{topic}.*lost"):
            source(spark, kafka, **read, **bounds).collect()
        frame = source(spark, kafka, **read, **bounds, failOnDataLoss=False)
        assert numbers(frame) == list(range(10, 30))


@BOTH
def test_a_stream_continues_with_new_topics_and_partitions(spark, kafka, topic, tmp_path, format):
    """It reads both from their beginning, in bounded micro-batches: topics that it finds, and what a restart finds."""
    first, second = f"{topic}.a", f"{topic}.b"
    fill(kafka, first, 30, 3)
    options = {"subscribePattern": rf"{topic}\..*", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 20}
    frame = source(spark, kafka, format, True, **options, **{"kafka.metadata.max.age.ms": 500})
    query = started(frame, tmp_path, **EVERY)
    query.processAllAvailable()
    kafka.create_topic(second)
    kafka.produce(second, numbered(5, 1, 30))
    query.processAllAvailable()
    query.stop()
    kafka.add_partitions(first, 4)
    kafka.produce(first, [(None, b"%d" % number, number % 4) for number in range(35, 70)])
    again = finished(frame, tmp_path, **EVERY)
    assert numbers(table(spark, tmp_path)) == list(range(70))
    sizes = [one.numInputRows for one in (*query.recentProgress, *again.recentProgress)]
    assert sum(sizes) == 70
    assert max(sizes) <= 25
    assert json.loads(again.lastProgress.sources[0].endOffset)[second] == {"0": 5}


@pytest.mark.soak  # `tests/spark` has it for towpath
@pytest.mark.parametrize("format", ["kafka", "towpath"])
def test_a_stream_starts_at_the_latest_offsets_by_default(spark, kafka, topic, tmp_path, format):
    fill(kafka, topic, 30, 3)
    query = started(source(spark, kafka, format, True, subscribe=topic), tmp_path, **EVERY)
    query.processAllAvailable()
    kafka.produce(topic, numbered(9, 3, 30))
    query.processAllAvailable()
    query.stop()
    assert numbers(table(spark, tmp_path)) == list(range(30, 39))


@pytest.mark.soak  # the messages of a stream are planned as those of a batch
@pytest.mark.parametrize("format", ["kafka", "towpath"])
def test_a_stream_that_lost_messages(spark, kafka, topic, tmp_path, format):
    """They were deleted while the query was stopped."""
    fill(kafka, topic, 10, 1)
    options = {"subscribe": topic, "startingOffsets": "earliest", **PATIENCE[format]}
    finished(source(spark, kafka, format, True, **options), tmp_path, **EVERY)
    kafka.produce(topic, numbered(20, 1, 10))
    delete_until(kafka, topic, 15)
    with pytest.raises(StreamingQueryException, match=r"(?s)gone|lost"):
        finished(source(spark, kafka, format, True, **options), tmp_path, **EVERY)
    finished(source(spark, kafka, format, True, **options, failOnDataLoss=False), tmp_path, **EVERY)
    assert numbers(table(spark, tmp_path)) == [*range(10), *range(15, 30)]


def test_a_recreated_topic(spark, kafka, topic, tmp_path):
    fill(kafka, topic, 10, 1)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    finished(source(spark, kafka, "towpath", True, **options), tmp_path, **EVERY)
    admin = kafka.admin()
    admin.delete_topics([topic])[topic].result(30)
    time.sleep(1)
    fill(kafka, topic, 4, 1)
    with pytest.raises(StreamingQueryException, match=rf"partition 0 of topic {topic} ends at 4, before offset 10: "):
        finished(source(spark, kafka, "towpath", True, **options), tmp_path, **EVERY)
    query = started(source(spark, kafka, "towpath", True, **options, failOnDataLoss=False), tmp_path, **EVERY)
    query.processAllAvailable()
    kafka.produce(topic, numbered(3, 1, 100))
    query.processAllAvailable()
    query.stop()
    assert numbers(table(spark, tmp_path)) == [*range(10), 100, 101, 102]


def test_a_checkpoint_of_sparks_source_is_continued(spark, kafka, topic, tmp_path):
    fill(kafka, topic, 30, 3)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    finished(source(spark, kafka, "kafka", True, **options), tmp_path)
    kafka.produce(topic, numbered(30, 3, 30))
    finished(source(spark, kafka, "towpath", True, **options), tmp_path, **EVERY)
    assert numbers(table(spark, tmp_path)) == list(range(60))


def test_the_pages_streams(spark, kafka, topic, tmp_path):
    """Of the rows of a table, and of messages for `replicate`, which reads them without the connector."""
    kafka.create_topic(topic, 2)
    types = {"id": "bigint", "total": "decimal(10,2)", "placed_at": "datetime"}
    rows = [change(data=[order(number, f"{number}.50")], pkNames=["id"], mysqlType=types) for number in range(20)]
    kafka.produce(topic, [(None, row, at % 2) for at, row in enumerate(rows)] + [(None, b"none", 0)])
    names = {"spark": spark, "broker": kafka.bootstrap, "lake": str(tmp_path), "towpath": towpath}
    run("docs/spark/kafka.md", block("docs/spark/kafka.md", '"upsert"').replace("binlog.shop", topic), names)
    for text, target, dead in (("apply_changes", "orders", "dead_letters"), ('"messages"', "shop/orders", "dead")):
        run("docs/spark/kafka.md", block("docs/spark/kafka.md", text).replace("binlog.shop", topic), names)
        names["query"].processAllAvailable()
        names["query"].stop()
        found, letters = (spark.read.format("delta").load(str(tmp_path / name)).collect() for name in (target, dead))
        assert sorted((row.id, str(row.total)) for row in found) == [(n, f"{n}.50") for n in range(20)]
        assert [(bytes(row.message), row.partition, row.offset) for row in letters] == [(b"none", 0, 10)]


def refused(spark, kafka, **settings):
    began = time.monotonic()
    with pytest.raises(Exception, match="Error") as error:
        source(spark, kafka, **{"subscribe": "t", **settings}).collect()
    return str(error.value), time.monotonic() - began


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "ConnectionError: Kafka at 127.0.0.1:1: .*Connection refused"),
        ({"kafka.bootstrap.servers": "none.invalid:9092"}, "ConnectionError: Kafka at none.invalid:9092: .*resolve"),
        ({"kafka.security.protocol": "SSL"}, "ConnectionError: Kafka at .*SSL"),
    ],
    ids=str,
)
def test_what_cannot_work_is_one_line_within_seconds(spark, kafka, settings, said):
    text, seconds = refused(spark, kafka, **settings)
    assert re.search(said, text)
    assert seconds < 20


LOGIN = 'org.apache.kafka.common.security.{}.{}LoginModule required username="reader" password="{}";'


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A broker with passwords and TLS, and a topic `t` of 30 messages; the certificate of its authority."""
    folder = tmp_path_factory.mktemp("tls")
    certificates(folder)
    endpoint = TokenEndpoint(folder)
    with GuardedBroker(folder, endpoint.keys) as broker:
        fill(broker, "t")
        yield broker, folder, endpoint
    endpoint.stop()


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT", "SSL"])
def test_login_and_tls(spark, guarded, protocol):
    broker, folder, _ = guarded
    settings = {
        "kafka.bootstrap.servers": broker.listeners[protocol],
        "kafka.security.protocol": protocol,
        "subscribe": "t",
    }
    tls = {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": str(folder / "ca.pem")}
    logins = [{"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": LOGIN.format("plain", "Plain", "right")}]
    if protocol == "SASL_SSL":
        login = LOGIN.format("scram", "Scram", "right")
        logins.append({"kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": login})
    for login in logins if "SASL" in protocol else [{}]:
        good = {**settings, **(tls if "SSL" in protocol.removeprefix("SASL_") else {}), **login}
        assert numbers(source(spark, broker, **good)) == list(range(30))
    if "SASL" in protocol:
        text, seconds = refused(spark, broker, **good, **{"kafka.sasl.password": "wrong"})
        assert re.search("ConnectionError: Kafka at .*[Aa]uthentication", text)
        assert "right" not in text
        assert seconds < 20
    if "kafka.ssl.truststore.location" in good:
        del good["kafka.ssl.truststore.location"]
        text, seconds = refused(spark, broker, **good)
        assert re.search("ConnectionError: Kafka at .*certificate", text)
        assert seconds < 20


def test_login_with_a_token(spark, guarded):
    """Driver and workers each get tokens of the endpoint, and the broker checks their signature."""
    broker, _, endpoint = guarded
    login = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId='{}' clientSecret='{}';"
    )
    settings = {
        "kafka.bootstrap.servers": broker.listeners["SASL_PLAINTEXT"],
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "subscribe": "t",
    }
    frame = source(spark, broker, **settings, **{"kafka.sasl.jaas.config": login.format(CLIENT, SECRET)})
    assert numbers(frame) == list(range(30))
    issued = endpoint.issued
    assert issued >= 2
    text, seconds = refused(spark, broker, **settings, **{"kafka.sasl.jaas.config": login.format(CLIENT, "wrong")})
    assert re.search("ConnectionError: Kafka at ", text)
    assert endpoint.issued == issued
    assert seconds < 20


@pytest.mark.soak
def test_tables_equal_the_sources_after_drivers_are_killed(spark, kafka, tmp_path):
    """Nothing is lost or doubled: drivers are killed with their workers, and an old checkpoint comes back."""
    case = captures_for_replication.canal_json_small()
    prove(spark, kafka, Lake(tmp_path), case, seed=4, report=lambda name, cells: print(name, cells), format="towpath")
