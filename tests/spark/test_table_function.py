"""The table function `from_cdc` of SQL returns what `decode` returns, and a view can be one of files or topics."""

import gzip
from decimal import Decimal

import pyspark
import pytest
from pyspark.errors import AnalysisException

import towpath
from canal_messages import MIXED, SCHEMA, change, order
from documents import blocks, run_block
from golden_files import lines
from spark_rows import of_spark

pytestmark = pytest.mark.skipif(pyspark.__version__ < "4", reason="Spark has such functions since 4.0")

EVERY_TYPE = (
    "i tinyint, l bigint, d decimal(38,10), f double, s string, b binary, o boolean, day date, at timestamp, "
    "local timestamp_ntz, took interval day to second, doc struct<a: int, m: map<string, int>, l: array<string>>"
)


@pytest.fixture
def kafka(spark):
    """A view of messages with keys and offsets, and columns that nobody needs."""
    towpath.spark.register(spark)

    def view(values):
        rows = [(number, number + 2**40, bytes(str(number), "ascii"), value) for number, value in enumerate(values)]
        frame = spark.createDataFrame(rows, "`a number` int, offset long, key binary, value binary").coalesce(2)
        frame.createOrReplaceTempView("kafka")
        return frame

    return view


def called(spark, **options):
    named = "".join(f", {name} => '{text}'" for name, text in options.items())
    return spark.sql(f"SELECT * FROM from_cdc(TABLE(kafka){named})")


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (MIXED, {"schema": SCHEMA, "table": "orders"}),
        (MIXED, {"schema": SCHEMA, "table": "orders", "layout": "upsert", "keep": "offset,a number"}),
        (MIXED, {"table": "no such table"}),
        ([*lines("canal-mysql/mixed.flat.jsonl.zst")[:300], None], {"keep": "offset"}),
    ],
)
def test_the_rows_are_those_of_decode(spark, kafka, monkeypatch, values, options):
    frame = kafka(values)
    arguments = {**options, "keep": options["keep"].split(",")} if "keep" in options else options
    wanted = towpath.spark.decode(frame, "canal-json", key="key", **arguments)
    found = called(spark, dialect="canal-json", **options)
    assert found.schema.simpleString() == wanted.schema.simpleString()
    assert of_spark(found.collect()) == of_spark(wanted.collect())
    assert found.count() > 0 or options["table"] == "no such table"


def test_the_table_may_be_a_stream(spark, kafka, tmp_path):
    """Each task of a micro-batch decodes what it was given, whatever waits in it at its end."""
    frame = kafka(MIXED)
    for _ in range(3):
        frame.write.mode("append").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    stream.createOrReplaceTempView("kafka")
    rows = called(spark, dialect="canal-json", schema=SCHEMA, table="orders")
    assert rows.isStreaming
    query = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    found = of_spark(spark.read.parquet(str(tmp_path / "out")).collect())
    wanted = of_spark(towpath.spark.decode(frame, "canal-json", SCHEMA, table="orders").collect())
    assert sorted(found, key=repr) == sorted(3 * wanted, key=repr)


def test_every_type(spark, kafka):
    value = (
        b'{"type":"INSERT","database":"d","table":"t","data":[{"i":"-3","l":"9","d":"12345678901234567890.1","f":"1.5",'
        b'"s":"\\u00e9","b":"\\u00ff","o":"1","day":"2024-02-29","at":"2024-02-29 01:02:03.000004",'
        b'"local":"2024-02-29 01:02:03.000004","took":"-838:59:59",'
        b'"doc":"{\\"a\\":1,\\"m\\":{\\"k\\":2},\\"l\\":[\\"x\\"]}"}]}'
    )
    frame = kafka([value])
    options = {"dialect": "canal-json", "schema": EVERY_TYPE, "layout": "upsert"}
    found = called(spark, **options).collect()
    assert of_spark(found) == of_spark(towpath.spark.decode(frame, **options).collect())
    assert found[0]["_error"] is None, found[0]["_error"]
    assert found[0]["doc"].asDict(recursive=True) == {"a": 1, "m": {"k": 2}, "l": ["x"]}


def test_flags_and_numbers_may_be_those_of_sql(spark, kafka):
    kafka(MIXED)
    query = "SELECT * FROM from_cdc(TABLE(kafka), lenient => true, max_expansion => 1000, dialect => 'canal-json')"
    assert spark.sql(query).count() == called(spark, dialect="canal-json").count()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("from_cdc(TABLE(kafka), tabel => 'a')", "did you mean table?"),
        ("from_cdc(TABLE(kafka), dialect => 'canal')", "did you mean canal-json?"),
        ("from_cdc(TABLE(kafka), lenient => 'yes')", "option lenient: 'yes' is not true or false"),
        ("from_cdc(TABLE(kafka), keep => 'topic')", "keep: the table has no column topic"),
        ("from_cdc(TABLE(kafka), schema_registry => 'https://u:s3cret@host')", "query plans show SQL constants"),
        (
            """from_cdc(TABLE(kafka), schema_registry => '{"url": "http://h", "basic.auth.user.info": "u:s3cret"}')""",
            "query plans show SQL constants",
        ),
        ("from_cdc('x')", "expected the table of the messages"),
        ("from_cdc(TABLE(SELECT 1 AS v))", "the table has no column value with the messages, only v"),
        ("from_cdc(TABLE(SELECT 1 AS value))", "column value: expected binary or string, not int"),
        (
            "from_cdc(TABLE(SELECT value FROM kafka), dialect => 'canal-json', schema => 'id int', layout => 'upsert')",
            "add the bigint column 'offset' to the table",
        ),
    ],
)
def test_mistakes(spark, kafka, query, said):
    kafka(MIXED)
    with pytest.raises(AnalysisException) as caught:
        spark.sql(f"SELECT * FROM {query}").collect()
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_many_messages_are_decoded_in_parts(spark, kafka, monkeypatch):
    from towpath.spark import table_function  # it needs Spark 4

    monkeypatch.setattr(table_function, "_MOST", 7)
    analyzed = table_function._Analyzed(
        towpath.Decoder("canal-json").spark_schema,
        arguments={"dialect": "canal-json", "fields": ["op"]},
        columns={"value": towpath.Decoder("canal-json").schema.field("sql").type},
    )
    function = table_function.FromCdc(analyzed)
    parts = [
        len(list(function.eval({"value": value.decode()})))
        for value in [*lines("canal-mysql/mixed.flat.jsonl.zst")[:20]]
    ]
    rest = len(list(function.terminate()))
    assert [at for at, count in enumerate(parts) if count] == [6, 13]
    array = [value.decode() for value in lines("canal-mysql/mixed.flat.jsonl.zst")[:20]]
    assert sum(parts) + rest == towpath.Decoder("canal-json").decode(array).num_rows


def test_the_page(spark, kafka):
    frame = kafka(MIXED)
    names = {"df": frame, "towpath": towpath, "spark": spark}
    run_block("docs/spark/index.md", "FROM from_cdc", names)
    wanted = towpath.spark.decode(
        frame, "canal-json", "id bigint, total decimal(10,2)", table="orders", layout="upsert", keep=["offset"]
    )
    assert names["orders"].count() == wanted.count() > 0


def test_a_view_of_files(spark, tmp_path):
    messages = [change(data=[order(number, f"{number}.50")]) for number in range(3)]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"\n".join(messages)))
    [page] = blocks("docs/spark/source.md", "sql")
    create, select, _ = page.replace("captures/", f"{tmp_path}/").split(";")
    spark.catalog.dropTempView("orders")
    spark.sql(create)
    found = spark.sql(f"{select} ORDER BY id").collect()
    assert list(map(tuple, found)) == [("insert", number, Decimal(f"{number}.50")) for number in range(3)]
