"""`spark.read.format("towpath")` returns what the decoder returns for the messages of the files."""

import gzip
import inspect
import struct

import pyarrow as pa
import pyspark
import pytest

import all_golden
import towpath
from canal_messages import MIXED, SCHEMA, change, order
from spark_rows import of_arrow, of_spark
from towpath.spark import source_options as options

pytestmark = pytest.mark.skipif(pyspark.__version__ < "4", reason="data sources in Python came with Spark 4")

ORDERS = [change(data=[order(number, f"{number}.25")]) for number in range(200)]


def source(spark, dialect="canal-json", **settings):
    """A reader, discovered by its name: no test here calls `register` before."""
    return spark.read.format("towpath").options(dialect=dialect, **settings)


def written(path, values, end=b"\n"):
    path.write_bytes(b"".join(value + end for value in values))
    return str(path)


def decoded(values, **arguments):
    return of_arrow(towpath.Decoder("canal-json", **arguments).decode(pa.array(values, pa.binary())))


def prefixed(part):
    return b"\xff\xff\xff\xff" if part is None else struct.pack(">I", len(part)) + part


def readable(capture, folder):
    """The capture's own file; JSON pairs of key and value are converted to key-value framing first."""
    if "jsonl" not in capture.name or ".kv" not in capture.name:
        return str(all_golden.GOLDEN / capture.name)
    path = folder / (capture.name.replace("/", "-") + ".kvrec")
    path.write_bytes(b"".join(prefixed(record.key) + prefixed(record.value) for record in capture.records))
    return str(path)


@pytest.mark.parametrize("dialect", [dialect["name"] for dialect in towpath.dialects()])
def test_golden_files_of_every_dialect(spark, tmp_path, dialect):
    captures = all_golden.captures(dialect)
    paths = [readable(capture, tmp_path) for capture in captures]
    framing = "length-prefixed" if dialect == "canal-protobuf" else "auto"
    read = source(spark, dialect, framing=framing, keep="_file").load(paths).toArrow()
    wanted = []
    for capture, path in zip(captures, paths, strict=True):
        decoder = towpath.Decoder(dialect, key="key" if path.endswith((".kvrec", ".kvrec.zst")) else None)
        rows = decoder.decode(capture.batch())
        wanted.append(rows.append_column("_file", pa.repeat(path, len(rows))))
    assert read == pa.Table.from_batches(wanted).cast(read.schema)


@pytest.mark.parametrize(
    ("name", "pack", "end"),
    [
        ("a.jsonl", bytes, b"\n"),
        ("a.jsonl", bytes, b"\r\n"),
        ("a.jsonl.gz", gzip.compress, b"\r\n"),
        ("a.jsonl.zst", lambda data: pa.compress(data, codec="zstd", asbytes=True), b"\n"),
    ],
)
def test_files_of_several_parts(spark, tmp_path, name, pack, end):
    path = tmp_path / name
    path.write_bytes(pack(end.join(ORDERS)))  # the last line has no newline
    frame = source(spark, schema=SCHEMA, maxPartitionBytes="8k", keep="_offset").load(str(path))
    rows = of_spark(frame.collect())
    assert frame.rdd.getNumPartitions() == (1 if path.suffix != ".jsonl" else -(-len(end.join(ORDERS)) // 8192))
    offsets = [row.pop("_offset") for row in rows]
    assert rows == decoded(ORDERS, schema=SCHEMA)
    data = end.join(ORDERS)
    assert [data[at:].partition(end)[0] for at in offsets] == ORDERS


def test_several_files_and_file_systems(spark, tmp_path):
    for name in "cab":
        written(tmp_path / f"{name}.jsonl", ORDERS[ord(name) - 97 :: 3])
    written(tmp_path / "_ignored.jsonl", [b"{"])
    wanted = decoded([*ORDERS[::3], *ORDERS[1::3], *ORDERS[2::3]], fields=["after"])
    reader = source(spark, fields="after")
    for place in (tmp_path, f"{tmp_path}/[abc].jsonl", f"file://{tmp_path}/*.jsonl"):
        assert of_spark(reader.load(str(place)).collect()) == wanted
    paths = [f"{tmp_path}/a.jsonl", f"file://{tmp_path}/b.jsonl"]
    assert of_spark(reader.load(paths).collect()) == wanted[: 2 * len(ORDERS) // 3 + 1]
    assert reader.option("pathGlobFilter", "[ab].*").load(str(tmp_path)).count() == len(paths) * 67


@pytest.mark.parametrize("layout", ["change", "changelog", "upsert"])
def test_the_layout_decides_the_columns(spark, tmp_path, layout):
    path = written(tmp_path / "a.jsonl", MIXED)
    arguments = {"schema": SCHEMA, "layout": layout, "table": "orders"}
    frame = source(spark, **arguments).load(path)
    decoder = towpath.Decoder("canal-json", **arguments)
    assert frame.schema == decoder.spark_schema
    rows, wanted = of_spark(frame.collect()), of_arrow(decoder.decode(pa.array(MIXED)))
    assert len(rows) == len(wanted)
    for row, want in zip(rows, wanted, strict=True):
        assert {**row, "_sequence": None} == {**want, "_sequence": None}


def test_sequence_orders_by_file_and_place(spark, tmp_path):
    values = [
        change("UPDATE", data=[order(1, f"{n}.00")], old=[{"total": "0.00"}], es=1714979289000) for n in range(90)
    ]
    written(tmp_path / "1.jsonl", values[:60])
    written(tmp_path / "2.jsonl", values[60:])
    frame = source(spark, schema=SCHEMA, layout="upsert", maxPartitionBytes="4k").load(str(tmp_path))
    assert [int(row.total) for row in frame.orderBy("_sequence").collect()] == list(range(90))


def test_modes(spark, tmp_path):
    path = written(tmp_path / "a.jsonl", MIXED)
    arguments = {"schema": SCHEMA, "table": "orders"}
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        rows = of_spark(source(spark, mode=mode, **arguments).load(path).collect())
        assert rows == decoded(MIXED, mode=mode, **arguments)
    with pytest.raises(Exception, match=rf"a\.jsonl: byte {len(MIXED[0]) + 1}: canal-json: .*total: .12,50. is not"):
        source(spark, mode="FAILFAST", **arguments).load(path).collect()


def test_options_of_every_kind(spark, tmp_path):
    typed = change(data=[{"ID": "1", "kind": "2", "note": "a\tb"}]).replace(rb"\t", b"\t")
    path = written(tmp_path / "a.jsonl", [typed])
    reader = source(spark, SCHEMA="id int, kind string, note string", Fields="op, after")
    reader = reader.option("labels", '{"kind": ["small", "large"]}').option("case_sensitive", False)
    [row] = reader.option("LENIENT", True).load(path).collect()
    assert (row.op, row.after.asDict()) == ("insert", {"id": 1, "kind": "large", "note": "a\tb"})


def test_every_argument_of_a_decoder_is_an_option():
    with pytest.raises(ValueError, match="expected one of ") as refused:
        towpath.Decoder("canal-json", no_such_argument=1)
    allowed = set(str(refused.value).partition("expected one of ")[2].split(", "))
    named = set(inspect.signature(towpath.Decoder.__new__).parameters) - {"cls", "options"}
    own = {"path", "paths", "framing", "file_compression", "pathGlobFilter", "maxPartitionBytes"}
    assert set(options._PARSERS) == (allowed | named | own) - {"value", "key"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"no_such": "1"}, r"unknown option .no_such.; expected one of dialect, schema, "),
        ({"framing": "blocks"}, r"option framing: .blocks. is not one of auto, lines, length-prefixed, key-value"),
        ({"file_compression": "lz4"}, r"option file_compression: .lz4. is not one of auto, none, gzip, zstd"),
        ({"maxPartitionBytes": "0"}, r"option maxPartitionBytes: .0. is not a number of bytes"),
        ({"keep": "offset"}, r"option keep: .offset. is not of _file, _offset"),
        ({"lenient": "yes"}, r"option lenient: .yes. is not true or false"),
        ({"labels": "{"}, r"option labels: .{. is not JSON: "),
        ({"dialect": "klingon"}, r"dialect: unknown .*; expected one of auto, canal-json"),
        ({"fields": "op,nope"}, r"fields: unknown .*nope"),
    ],
    ids=str,
)
def test_wrong_options_name_what_is_allowed(given, said):
    from towpath.spark.source import TowpathDataSource

    with pytest.raises(ValueError, match=said):
        TowpathDataSource({"path": "a.jsonl", **given})


def test_tasks_are_bounded(tmp_path):
    from towpath.spark.source import TowpathReader

    (tmp_path / "a.jsonl").write_bytes(b"{}\n" * 40_000)
    reader = TowpathReader(options.parse_options({"path": str(tmp_path), "maxPartitionBytes": "1"}))
    with pytest.raises(ValueError, match=r"^maxPartitionBytes: expected a larger number; these files would need more"):
        reader.partitions()


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("65536k", 64 << 20), ("64m", 64 << 20), ("64MB", 64 << 20), ("1 g", 1 << 30)]
)
def test_numbers_of_bytes(text, number):
    assert options.parse_options({"maxPartitionBytes": text}).part_bytes == number


def test_errors_reach_the_user(spark, tmp_path):
    path = written(tmp_path / "a.jsonl", MIXED)
    with pytest.raises(Exception, match=r"unknown option .no_such."):
        source(spark, no_such="1").load(path)
    with pytest.raises(Exception, match=r"Set the table.s columns with option"):
        source(spark).schema("id bigint").load(path).collect()
    with pytest.raises(Exception, match="no file at "):
        source(spark).load(path + ".no").collect()
    damaged = tmp_path / "a.lenrec"
    damaged.write_bytes(prefixed(ORDERS[0]) + prefixed(ORDERS[1])[:-1])
    with pytest.raises(Exception, match=rf"a\.lenrec: byte {len(ORDERS[0]) + 4}: the file ends within"):
        source(spark).load(str(damaged)).collect()


def test_registering_what_was_found_already(spark, tmp_path):
    path = written(tmp_path / "a.jsonl", ORDERS)
    towpath.spark.register(spark)
    assert source(spark).load(path).count() == len(ORDERS)
