"""debezium-avro in Spark: the workers fetch the schemas, or they have them from the driver."""

import json

import pyarrow as pa
import pyspark
import pytest

import registry_server
import towpath
from fidelity import ROOT, records
from spark_rows import of_arrow, of_spark

FOLDER = ROOT / "tests" / "golden" / "debezium-avro"
SCHEMAS = json.loads((FOLDER / "shop.avsc").read_text())
SCHEMA = "order_id bigint, price decimal(10,2)"


@pytest.fixture(scope="module")
def registry():
    """A registry that has the schemas of the golden file."""
    with registry_server.running() as found:
        for number, schema in SCHEMAS.items():
            assert found.register("golden", json.dumps(schema)) == int(number)
        yield found


@pytest.fixture(scope="module")
def batch():
    parts = records(FOLDER / "shop.kvrec.zst")
    columns = {"key": [part or None for part in parts[::2]], "value": parts[1::2]}
    return pa.record_batch({name: pa.array(values, pa.binary()) for name, values in columns.items()})


def options_from(registry, source):
    texts = {number: json.dumps(schema) for number, schema in SCHEMAS.items()}
    return {"schema_registry": registry.url} if source == "registry" else {"writer_schemas": texts}


@pytest.mark.parametrize("source", ["registry", "given"])
def test_map_in_arrow(spark, registry, batch, source):
    decoder = towpath.Decoder("debezium-avro", SCHEMA, table="order_line", key="key", **options_from(registry, source))
    wanted = of_arrow(decoder.decode(batch))
    assert {row["op"] for row in decoder.decode(batch).to_pylist()} >= {"insert", "update", "delete", "begin"}
    frame = spark.createDataFrame(batch.to_pandas(), "key binary, value binary").coalesce(1)
    assert of_spark(frame.mapInArrow(decoder, decoder.spark_schema).collect()) == wanted
    registry.requests.clear()
    options = {"table": "order_line", **options_from(registry, source)}
    decoded = towpath.spark.decode(frame, "debezium-avro", schema=SCHEMA, key="key", **options)
    assert of_spark(decoded.collect()) == wanted
    # The worker that has decoded before has kept the answers.
    assert len(registry.requests) <= (len(SCHEMAS) if source == "registry" else 0)


@pytest.mark.parametrize("source", ["registry", "given"])
@pytest.mark.skipif(pyspark.__version__ < "4", reason="data sources in Python came with Spark 4")
def test_data_source(spark, registry, batch, source):
    options = options_from(registry, source)
    decoder = towpath.Decoder("debezium-avro", SCHEMA, table="order_line", key="key", **options)
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    read = spark.read.format("towpath").options(dialect="debezium-avro", schema=SCHEMA, table="order_line", **texts)
    rows = of_spark(read.load(str(FOLDER / "shop.kvrec.zst")).collect())
    assert rows == of_arrow(decoder.decode(batch))


def test_a_registry_that_is_away_fails_no_task(spark, batch):
    with registry_server.running() as gone:
        url = gone.url
    decoder = towpath.Decoder("debezium-avro", fields=["op", "error"], schema_registry=url)
    frame = spark.createDataFrame(batch.to_pandas(), "key binary, value binary")
    rows = frame.mapInArrow(decoder, decoder.spark_schema).collect()
    assert {row.op for row in rows} == {"error"}
    assert all("cannot be reached" in row.error.message for row in rows)
