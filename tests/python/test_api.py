"""Public names other than `Decoder`, errors that name what is allowed, and the dependencies of an import."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import towpath
from canal_messages import change, order
from golden_files import CAPTURES, lines

ROOT = Path(__file__).parents[2]


def test_dialects_are_described():
    for dialect in towpath.dialects():
        assert set(dialect) >= {"name", "producer", "wire", "description"}
        assert all(dialect[key] for key in ("name", "producer", "wire", "description"))
    assert "canal-json" in [dialect["name"] for dialect in towpath.dialects()]


@pytest.mark.parametrize("name", ["ticdc-canal-json", "cloudcanal-canal-json", "tencent-canal-json"])
def test_producers_names_are_accepted(name):
    rows = towpath.Decoder(name).decode(pa.array([change(data=[order(1, "1.00")])])).to_pylist()
    assert dict(rows[0]["after"]) == order(1, "1.00")


@pytest.mark.parametrize("capture", CAPTURES)
def test_detect_knows_every_producer(capture):
    assert {towpath.detect(line) for line in lines(capture)} == {"canal-json"}


@pytest.mark.parametrize("value", [b"", b"nonsense", b"[1,2]", b"{}", b'{"a":1}', "text", b"\xff\xfe"])
def test_detect_says_none_when_it_does_not_know(value):
    assert towpath.detect(value) is None


def test_infer_schema_reads_declared_types():
    types = {"id": "bigint(20) unsigned", "total": "decimal(10,2)", "placed_at": "datetime(6)", "paid_at": "timestamp"}
    message = change(data=[dict.fromkeys(types)], mysqlType=types)
    other = change(data=[{"id": "1"}], mysqlType={"other": "int"}, table="customers")
    schema = towpath.infer_schema(pa.array([message, other]), "canal-json", database="shop", table="orders")
    assert dict(zip(schema.names, schema.types, strict=True)) == {
        "id": pa.decimal128(20, 0),
        "total": pa.decimal128(10, 2),
        "placed_at": pa.timestamp("us"),
        "paid_at": pa.timestamp("us", "UTC"),
    }


MYSQL_TYPES = [
    *(
        "tinyint(1)",
        "tinyint unsigned",
        "smallint(6)",
        "mediumint",
        "int(11)",
        "int(10) unsigned zerofill",
        "bigint(20)",
    ),
    *(
        "bigint unsigned",
        "decimal(10,2)",
        "decimal(10,2) unsigned",
        "float(10,2)",
        "double",
        "double unsigned",
        "bit(1)",
    ),
    *("bit(12)", "date", "datetime", "datetime(6)", "timestamp", "timestamp(3)", "year(4)", "char(3)", "varchar(20)"),
    *(
        "tinytext",
        "longtext",
        "binary(16)",
        "varbinary(16)",
        "mediumblob",
        "enum('a','b,c)')",
        "set('x','y''z')",
        "json",
    ),
    *("geometry", "multipoint"),
]


@pytest.mark.parametrize("declared", MYSQL_TYPES)
def test_a_schema_in_the_spelling_of_mysql_is_that_of_messages(declared):
    message = change(data=[{"c": None}], mysqlType={"c": declared})
    inferred = towpath.infer_schema(pa.array([message]), "canal-json")
    after = towpath.Decoder("canal-json", f"c {declared} NOT NULL, d int").schema.field("after").type
    assert after.field("c").type == inferred.field("c").type


def test_infer_schema_gives_a_decoder_its_schema():
    array = pa.array(lines("cloudcanal/small.jsonl"))
    schema = towpath.infer_schema(array, table="orders")
    decoder = towpath.Decoder("canal-json", schema, table="orders", mode="FAILFAST")
    assert decoder.schema.field("after").type.names == schema.names
    assert len(decoder.decode(array)) == 28


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dialect": "canel-json"}, "canal-json"),
        ({"layout": "flat"}, "changelog"),
        ({"mode": "LENIENT"}, "PERMISSIVE"),
        ({"fields": ["opp"]}, "event_time"),
        ({"zero_date": "zero"}, "text"),
        ({"compression": "brotli"}, "zstd"),
        ({"missing": "zero"}, "error"),
        ({"time_zone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"database": "("}, "database"),
        ({"table": "["}, "table"),
        ({"schema": "id bigint, total money"}, "money"),
        ({"schema": "id"}, "decimal"),
        ({"schema": ""}, "schema"),
        ({"schema": "id int, id int"}, "id"),
        ({"schema": pa.schema({"id": pa.month_day_nano_interval()})}, "id"),
        ({"tabel": "orders"}, "table"),
        ({"keep": ["op"]}, "op"),
        ({"schema": "CREATE TABLE orders (id bigint)"}, "pass its columns without keys"),
        ({"schema": "orders.ddl"}, "not a file name; the command line reads"),
        ({"schema": "/schemas/orders"}, "not a file name; the command line reads"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_a_value_error_that_names_what_is_allowed(arguments, named):
    with pytest.raises(ValueError, match=named.replace("[", r"\[")):
        towpath.Decoder(**{"dialect": "canal-json", **arguments})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"schema": 5}, "DDL text"),
        ({"labels": {"e": [1]}}, "labels"),
        ({"labels": {"e": "S"}}, r"a list such as \{'e': \['S', 'M'\]\}, not 'S'"),
        ({"keep": "topic"}, "a sequence of names"),
        ({"fields": "op"}, "a sequence of names"),
        ({"table": ["orders"]}, r'table: expected a regular expression such as "orders\|items", not \[\'orders'),
        ({"database": 7}, "database: expected a regular expression"),
    ],
    ids=str,
)
def test_an_argument_of_a_wrong_python_type_is_a_type_error(arguments, expected):
    with pytest.raises(TypeError, match=expected):
        towpath.Decoder("canal-json", **arguments)


def test_nan_is_named():
    with pytest.raises(TypeError, match="not float: NaN is how pandas writes a missing value"):
        towpath.Decoder("canal-json").decode([b"{}", float("nan")])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("dialect", ["auto", "canal-json", "debezium-json", "debezium-avro", "maxwell-json"])
def test_a_message_in_utf_16_says_so(dialect, encoding):
    message = change(data=[order(1, "1.00")]).decode().encode(encoding)
    assert towpath.detect(message) is None
    [row] = towpath.Decoder(dialect).decode([message]).to_pylist()
    assert row["error"]["message"].endswith("; the message is UTF-16; convert it to UTF-8")
    assert dialect != "auto" or row["error"]["kind"] == "encoding"


def test_decode_error_is_raised_as_value_error_with_attributes():
    with pytest.raises(ValueError, match="canal-json") as caught:
        towpath.Decoder("canal-json", mode="FAILFAST").decode(pa.array([change(data=[order(1, "1.00")]), b"{"]))
    assert type(caught.value) is towpath.DecodeError
    assert (caught.value.row, caught.value.column, caught.value.kind) == (1, None, "syntax")


def test_version_is_the_crates():
    manifest = (ROOT / "Cargo.toml").read_text()
    assert f'version = "{towpath.__version__}"' in manifest


def test_import_and_decode_need_only_pyarrow():
    program = """
import sys
for absent in ("pyspark", "pandas", "numpy", "typing_extensions"):
    sys.modules[absent] = None
import pyarrow as pa, towpath
print(towpath.Decoder("canal-json", "id int", fields=["op"]).decode(pa.array([b"null"])).num_rows)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("1\n", "")


def test_public_names_are_documented():
    for name in towpath.__all__:
        assert name == "__version__" or getattr(towpath, name).__doc__, name


@pytest.mark.parametrize("dialect", [None, b"canal-json", 1])
def test_a_dialect_is_a_text(dialect):
    with pytest.raises(TypeError, match='dialect: expected a string such as "canal-json" or "auto", not '):
        towpath.Decoder(dialect)
