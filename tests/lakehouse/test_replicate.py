"""Whole topics into Delta tables: one target per table, DDL, dead letters, TiCDC's commit times and watermarks."""

import json
from datetime import datetime

import pytest

import towpath
from fidelity import lines
from golden_files import GOLDEN
from spark_rows import of_spark
from towpath.ddl import quoted

TSO = 1 << 18  # a millisecond of TiDB's clock


def kafka_frame(spark, messages):
    """A DataFrame like that of the Kafka source, from (topic, partition, value); offsets are ascending."""
    rows = [(None, value, topic, partition, at, None) for at, (topic, partition, value) in enumerate(messages)]
    return spark.createDataFrame(
        rows, "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
    )


def read(spark, table):
    return of_spark(spark.read.format("delta").load(str(table)).drop("_towpath").collect())


def canal(kind, table, row=None, types=None, database="shop", **more):
    keys = [next(iter(row))] if row else None
    message = {"database": database, "table": table, "type": kind, "pkNames": keys, "es": 1_700_000_000_000}
    message |= {"data": row and [row], "mysqlType": types, "isDdl": False, **more}
    return json.dumps(message).encode()


def test_each_table_goes_to_its_own_and_grows(spark, tmp_path):
    types = {"id": "int", "value": "varchar(9)", "offset": "time(3)"}
    rows = {"id": "1", "value": "v", "offset": "-01:02:03.500"}
    sent = [
        canal("CREATE", "a", sql="create table a (...)", isDdl=True),
        canal("INSERT", "a", rows, types),
        canal("INSERT", "odd `name", {"编号": "7"}, {"编号": "bigint unsigned"}),
        canal("INSERT", "left out", {"id": "1"}, {"id": "int"}, database="other"),
        b"no message",
        canal("INSERT", "a", {"id": "2", "value": "w", "offset": None}, types),
    ]
    lake = tmp_path / "lake"

    def replicate(messages, **options):
        towpath.spark.replicate(
            kafka_frame(spark, [("t", 0, value) for value in messages]),
            f"{lake}/{{database}}/{{table}}",
            "canal-json",
            database="shop",
            ddl=str(lake / "ddl"),
            dead_letters=str(lake / "dead"),
            **options,
        )

    replicate(sent)
    # The columns have the names of Kafka's, and a TIME is text as MySQL prints it.
    want = [rows | {"id": 1}, {"id": 2, "value": "w", "offset": None}]
    assert sorted(read(spark, lake / "shop" / "a"), key=lambda row: row["id"]) == want
    assert [{key: int(cell) for key, cell in row.items()} for row in read(spark, lake / "shop" / "odd `name")] == [
        {"编号": 7}
    ]
    assert not (lake / "other").exists()
    (dead_letter,) = read(spark, lake / "dead")
    assert (dead_letter["message"], dead_letter["offset"], dead_letter["kind"]) == (b"no message", 4, "syntax")
    (statement,) = read(spark, lake / "ddl")
    assert (statement["offset"], statement["table"], statement["sql"]) == (0, "a", "create table a (...)")
    # An ALTER TABLE: a wider type and another column, from the next message on.
    altered = {"id": "bigint", "value": "varchar(9)", "offset": "time(3)", "new": "decimal(5,2)"}
    more = canal("INSERT", "a", {"id": str(2**40), "value": None, "offset": None, "new": "1.25"}, altered)
    replicate([*sent, more])
    assert [str(row["new"]) for row in read(spark, lake / "shop" / "a") if row["id"] == 2**40] == ["1.25"]
    assert len(read(spark, lake / "shop" / "a")) == 3
    assert len(read(spark, lake / "ddl")) == len(read(spark, lake / "dead")) == 1
    with pytest.raises(ValueError, match="column id is bigint in the table and string in the messages"):
        replicate([canal("INSERT", "a", {"id": "x"}, {"id": "varchar(20)"})], on_table_error="fail")


def test_a_table_that_changes_within_a_message(spark, tmp_path):
    types = {"id": "int"}
    early = canal("INSERT", "a", {"id": "1"}, types), canal("INSERT", "a", {"id": "2"}, types)
    late = canal("INSERT", "a", {"id": "3", "new": "x"}, types | {"new": "varchar(5)"})
    # Several messages in one of Kafka's, as canal sends them.
    values = [early[0], b"[" + early[1] + b"," + canal("INSERT", "b", {"id": "7"}, types) + b"," + late + b"]"]
    frame = kafka_frame(spark, [("t", 0, value) for value in values])
    towpath.spark.replicate(frame, f"{tmp_path}/{{table}}", "canal-json")
    rows = [{"id": 1, "new": None}, {"id": 2, "new": None}, {"id": 3, "new": "x"}]
    assert sorted(read(spark, tmp_path / "a"), key=lambda row: row["id"]) == rows
    assert read(spark, tmp_path / "b") == [{"id": 7}]


def test_shards_of_a_table_share_a_target(spark, tmp_path):
    types = {"id": "int"}
    sent = [canal("INSERT", "t_0", {"id": "1"}, types), canal("INSERT", "t_1", {"id": "2"}, {"id": "bigint"})]
    messages = kafka_frame(spark, [("t", 0, value) for value in [*sent, canal("DELETE", "t_0", {"id": "1"}, types)]])
    towpath.spark.replicate(messages, lambda database, table: f"{tmp_path}/{database}/{table[0]}", "canal-json")
    assert read(spark, tmp_path / "shop" / "t") == [{"id": 2}]


def test_missing_information_is_an_error_that_names_the_argument(spark, tmp_path):
    def replicate(value, **options):
        frame = kafka_frame(spark, [("t", 0, value)])
        towpath.spark.replicate(frame, {"shop.a": f"default.`{tmp_path.name}_a`"}, "canal-json", **options)

    with pytest.raises(ValueError, match=r"shop\.a: the messages do not declare.*schemas=\{'shop\.a'"):
        replicate(canal("INSERT", "a", {"id": "1"}))
    with pytest.raises(ValueError, match=r"shop\.a: the messages say no primary key.*keys=\{'shop\.a'"):
        replicate(canal("INSERT", "a", {"id": "1"}, {"id": "int"}, pkNames=None))
    with pytest.raises(ValueError, match=r"1 messages cannot be read.*dead_letters"):
        replicate(b"[")
    with pytest.raises(ValueError, match="layout: replicate chooses it"):
        replicate(b"{}", layout="change")
    with pytest.raises(ValueError, match=r"no \{table\} in it"):
        towpath.spark.replicate(kafka_frame(spark, [("t", 0, b"{}")]), "lake.orders")
    replicate(canal("INSERT", "a", {"id": "1"}, pkNames=None), schemas={"shop.a": "id bigint"}, keys={"shop.a": ["id"]})
    replicate(canal("INSERT", "b", {"id": "1"}))  # not in the mapping
    assert of_spark(spark.table(f"default.`{tmp_path.name}_a`").drop("_towpath").collect()) == [{"id": 1}]


def ticdc(kind, commit, row=None, **more):
    types = {"id": "bigint", "name": "varchar"}
    tidb = {"watermarkTs": commit} if kind == "TIDB_WATERMARK" else {"commitTs": commit}
    return canal(kind, "t", row, types, _tidb={**tidb, **more.pop("_tidb", {})}, **more)


def test_ticdc_is_ordered_by_commit_time_and_watermarks(spark, tmp_path):
    lake = tmp_path / "lake"
    sent = []

    def replicate(*messages):
        first = len(sent)
        sent.extend(("t", partition, value) for partition, value in messages)
        towpath.spark.replicate(
            kafka_frame(spark, sent).filter(f"offset >= {first}"),
            {"shop.t": str(lake / "t")},
            "ticdc-canal-json",
            dead_letters=str(lake / "dead"),
            watermarks=str(lake / "watermarks"),
            status=str(lake / "status"),
        )

    def names():
        return {row["id"]: row["name"] for row in read(spark, lake / "t")}

    def ignored():
        return sum(status["ignored_as_old"] for status in read(spark, lake / "status"))

    insert = ticdc("INSERT", 100 * TSO, {"id": "1", "name": "a"})
    update = ticdc("UPDATE", 300 * TSO, {"id": "1", "name": "c"}, old=[{"name": "b"}])
    deleted = [
        ticdc("INSERT", 210 * TSO, {"id": "2", "name": "x"}),
        ticdc("DELETE", 220 * TSO, {"id": "2", "name": "x"}),
    ]
    watermark = ticdc("TIDB_WATERMARK", 400 * TSO)
    # The newest change comes first, in another partition.
    replicate((1, update), (0, insert), (0, deleted[0]), (0, deleted[1]), (0, watermark))
    assert names() == {1: "c"}
    (mark,) = read(spark, lake / "watermarks")
    assert (mark["topic"], mark["partition"], mark["watermark_ts"]) == ("t", 0, 400 * TSO)
    assert mark["complete_until"] == datetime(1970, 1, 1, 0, 0, 0, 400_000)
    # Again, at higher offsets and without the later changes; then a new key below the watermark.
    replicate((1, ticdc("UPDATE", 200 * TSO, {"id": "1", "name": "b"}, old=[{"name": "a"}])), (1, deleted[0]))
    counted = ignored()
    replicate((0, ticdc("INSERT", 399 * TSO, {"id": "3", "name": "z"})), (1, ticdc("TIDB_WATERMARK", 10 * TSO)))
    assert ignored() - counted == 1
    assert names() == {1: "c"}
    # Newer than the watermark, and a key-only row.
    partial = ticdc("INSERT", 500 * TSO, {"id": "5"}, _tidb={"onlyHandleKey": True})
    replicate((0, ticdc("INSERT", 401 * TSO, {"id": "4", "name": "d"})), (0, partial))
    assert names() == {1: "c", 4: "d"}
    (dead_letter,) = read(spark, lake / "dead")
    assert dead_letter["message"] == partial
    assert "only the row's key" in dead_letter["reason"]
    # A watermark that no producer can have reached hides no change, nor does one that a former version stored.
    future = ticdc("TIDB_WATERMARK", 2**63 - 1)
    replicate((0, future), (0, ticdc("INSERT", 402 * TSO, {"id": "6", "name": "f"})))
    spark.sql(f"UPDATE delta.`{lake}/watermarks` SET watermark_ts = {2**63 - 1}, complete_until = '3084-01-01'")
    replicate((0, ticdc("INSERT", 403 * TSO, {"id": "7", "name": "g"})), (0, ticdc("TIDB_WATERMARK", 404 * TSO)))
    assert names() == {1: "c", 4: "d", 6: "f", 7: "g"}
    assert {mark["watermark_ts"] for mark in read(spark, lake / "watermarks") if mark["partition"] == 0} == {404 * TSO}
    assert [letter["kind"] for letter in read(spark, lake / "dead") if letter["message"] == future] == ["range"]


def debezium(position, second, row, op="u", server=5):
    source = {"db": "shop", "table": "t", "server_id": server, "file": "bin.000007", "pos": position}
    source |= {"ts_ms": 1_700_000_000_000 + second * 1000, "connector": "mysql"}
    return json.dumps({"before": None, "after": row, "op": op, "source": source}).encode()


def test_a_binlogs_position_tells_what_arrived_again(spark, tmp_path):
    target, offsets = tmp_path / "t", iter(range(100))

    def replicate(*messages):
        rows = [(b'{"id":1}', value, "t", 0, next(offsets), None) for value in messages]
        names = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
        frame = spark.createDataFrame(rows, names)
        schemas = {"shop.t": "id bigint, name string"}
        towpath.spark.replicate(frame, {"shop.t": str(target)}, "debezium-json", schemas=schemas)
        return read(spark, target)[0]["name"]

    def row(name):
        return {"id": 1, "name": name}

    old, new = debezium(100, 10, row("a"), op="c"), debezium(200, 10, row("b"))
    # In one batch, and in a later one: the old one is known by its position, though it has the highest offset.
    assert replicate(old, new, old) == "b"
    assert replicate(old) == "b"
    # Two changes at one position, as in a compressed transaction.
    assert replicate(debezium(200, 10, row("c"))) == "c"
    # Another server took over, and then the binlogs of this one were reset.
    assert replicate(debezium(4, 30, row("d"), server=6)) == "d"
    assert (
        replicate(
            debezium(4, 50, row("e"), server=6),
            debezium(3, 60, row("f"), server=6),
        )
        == "f"
    )


# Those of Delta are compared in test_exactly_once.py.
@pytest.mark.parametrize("format", [pytest.param("delta", marks=pytest.mark.soak), "iceberg"])
def test_a_real_capture_as_a_batch_is_the_sources_tables(spark, tmp_path, format):
    """Every table of the capture whose rows canal sends completely; the keys are those in the messages."""
    import captures_for_replication

    case = captures_for_replication.canal_json_small()
    values = lines(GOLDEN.parent / "canal-json" / "canal-mysql" / "mixed.flat.jsonl.zst")
    paths = {name: f"{tmp_path}/{name}" for name in case.tables}
    in_catalog = {name: f"ice.{quoted(tmp_path.name)}.{'.'.join(map(quoted, name.split('.')))}" for name in paths}
    targets = in_catalog if format == "iceberg" else paths
    towpath.spark.replicate(kafka_frame(spark, [("canal", 0, value) for value in values]), targets)
    for name, rows in case.tables.items():
        key = case.keys[name][0]
        table = spark.table(targets[name] if format == "iceberg" else f"delta.`{targets[name]}`")
        found = of_spark(table.drop("_towpath").collect())
        assert sorted(found, key=lambda row: row[key]) == sorted(rows, key=lambda row: row[key])


@pytest.mark.parametrize("given", [None, "7"])
def test_the_list_of_a_tables_files_is_read_in_few_tasks(spark, tmp_path, given):
    """Delta takes 50 tasks by default, after each commit of each table. What the user has set stays."""
    name, session, context = "spark.databricks.delta.snapshotPartitions", spark.newSession(), spark.sparkContext
    session.conf.set(name, given) if given else session.conf.unset(name)
    group = f"few-tasks-{given}"
    context.setJobGroup(group, "")
    for number, kind in enumerate(["INSERT", "DELETE"]):
        message = canal(kind, "a", {"id": "1"}, {"id": "int"}, es=1_700_000_000_000 + number * 1000)
        frame = kafka_frame(session, [(f"t{number}", 0, message)])
        towpath.spark.replicate(frame, f"{tmp_path}/lake/{{table}}", "canal-json", status=f"{tmp_path}/status")
    context.setLocalProperty("spark.jobGroup.id", None)
    assert session.conf.get(name, None) == given
    tracker = context.statusTracker()
    stages = [stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds]
    tasks = [info.numTasks for stage in stages if (info := tracker.getStageInfo(stage))]
    assert len(tasks) > 10
    assert max(tasks) <= int(given or 4)
    assert read(spark, tmp_path / "lake" / "a") == []


def test_small_tables_are_joined_without_broadcasts(spark, tmp_path):
    """A hashed relation takes a page of memory, until the JVM collects garbage: those of hundreds of tables fill it."""
    memory = spark._jvm.org.apache.spark.SparkEnv.get().memoryManager()
    tables = ("a", "b", "c")

    def replicate(kind, number):
        at = 1_700_000_000_000 + number * 1000
        sent = [canal(kind, table, {"id": str(key)}, {"id": "int"}, es=at) for key in range(3) for table in tables]
        target = f"{tmp_path}/lake/{{table}}"
        towpath.spark.replicate(kafka_frame(spark, [(f"t{number}", 0, value) for value in sent]), target, "canal-json")

    replicate("INSERT", 0)
    before = memory.storageMemoryUsed()
    kinds = ["INSERT", "UPDATE", "DELETE"]
    for number, kind in enumerate(kinds, 1):
        replicate(kind, number)
    pages = (memory.storageMemoryUsed() - before) / memory.pageSizeBytes()
    assert pages < len(kinds) * len(tables) / 2
    assert read(spark, tmp_path / "lake" / "a") == []
