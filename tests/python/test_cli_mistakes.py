"""Mistakes at the command line: one line says what is wrong and how to mend it, and nothing is destroyed."""

import bz2
import json
import lzma
import os
import random
import subprocess
import sys
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import towpath
from all_golden import GOLDEN
from canal_messages import SCHEMA, change, order
from towpath.cli import main
from towpath.cli.verbs import infer as infer_verb

CLOUDCANAL = str(GOLDEN / "canal-json/cloudcanal/small.jsonl")


@pytest.fixture
def capture(tmp_path, monkeypatch):
    """A capture in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "capture.jsonl"
    path.write_bytes(b"\n".join(change(data=[order(number, "1.00")]) for number in (1, 2)) + b"\n")
    return path


def errors_of(capsys):
    return capsys.readouterr().err.splitlines()


def warnings_of(capsys):
    return [line for line in errors_of(capsys) if line.startswith("warning: ")]


@pytest.mark.parametrize("verb", ["decode", "report"])
@pytest.mark.parametrize("name", ["capture.jsonl", "./capture.jsonl", "link.jsonl", "hard.jsonl"])
def test_the_input_is_never_overwritten(capture, capsys, verb, name):
    before = capture.read_bytes()
    os.symlink("capture.jsonl", "link.jsonl")
    os.link("capture.jsonl", "hard.jsonl")
    for source, force in product(["capture.jsonl", "captur*.jsonl"], [[], ["--force"]]):
        assert main([verb, source, "-o", name, *force]) == 2
        assert errors_of(capsys) == [f"towpath: -o {name} is an input file; name another output"]
    assert capture.read_bytes() == before


@pytest.mark.parametrize(("verb", "name"), [("decode", "out.jsonl"), ("report", "report.html")])
def test_a_file_is_overwritten_only_with_force(capture, capsys, verb, name):
    (capture.parent / name).write_text("precious")
    assert main([verb, "capture.jsonl", "-o", name]) == 2
    assert errors_of(capsys) == [f"towpath: -o {name} exists; --force overwrites it"]
    assert (capture.parent / name).read_text() == "precious"
    assert main([verb, "capture.jsonl", "-o", name, "--force"]) == 0
    assert (capture.parent / name).read_text() != "precious"


def test_a_column_that_no_row_carries_is_named_with_the_nearest_name(capture, capsys):
    assert main(["decode", "capture.jsonl", "--schema", "id bigint, totl decimal(10,2), colour string"]) == 0
    assert warnings_of(capsys) == [
        "warning: no row has the column 'totl' of the schema; the messages have 'total'",
        "warning: no row has the column 'colour' of the schema",
    ]
    assert main(["report", "capture.jsonl", "--schema", "ID bigint"]) == 0
    page = (capture.parent / "report.html").read_text()
    assert (
        "<strong>Warning:</strong> no row has the column &#x27;ID&#x27; of the schema; the messages have &#x27;id&#x27;"
        in page
    )
    assert warnings_of(capsys) == ["warning: no row has the column 'ID' of the schema; the messages have 'id'"]
    assert main(["decode", "capture.jsonl", "--schema", SCHEMA]) == 0
    assert warnings_of(capsys) == []


def test_a_column_that_some_rows_carry_is_only_counted(capture, capsys):
    with capture.open("ab") as file:
        file.write(change(data=[{"id": "3", "note": "x"}]))
    assert main(["decode", "capture.jsonl", "--schema", "id bigint, note string"]) == 0
    assert errors_of(capsys)[-1] == "2 rows without column 'note'"


def test_a_filter_that_matches_nothing_lists_the_tables(capsys):
    seen = [json.loads(line) for line in Path(CLOUDCANAL).read_bytes().splitlines()]
    tables = {f"{one['database']}.{one['table']}" for one in seen if not one["isDdl"]}
    assert main(["decode", CLOUDCANAL, "--table", "order"]) == 1
    [warning] = warnings_of(capsys)
    assert warning.startswith(f"warning: no message matches --table 'order'; tables in the first {len(seen)} messages")
    assert all(f"{table} (" in warning for table in tables)
    assert main(["decode", CLOUDCANAL, "--table", "orders"]) == 0
    assert warnings_of(capsys) == []


@pytest.mark.parametrize(
    ("arguments", "probable"), [(["--tabel", "orders"], "--table"), (["--lmit=3"], "--limit"), (["other.jsonl"], None)]
)
def test_an_unknown_argument_is_one_of_its_verb(capsys, arguments, probable):
    with pytest.raises(SystemExit) as ended:
        main(["tables" if probable is None else "head", "--dialect", "auto", "-", *arguments, "--what"])
    assert ended.value.code == 2
    [said] = errors_of(capsys)
    verb = said.partition(":")[0]
    assert verb in ("towpath head", "towpath tables")
    assert said.endswith(f"; {verb} --help lists the arguments")
    assert (f"did you mean {probable}?" in said) == (probable is not None)


def test_a_folder_that_does_not_exist_is_named(capture, capsys):
    for verb, name in [("decode", "out.jsonl"), ("report", "report.html")]:
        assert main([verb, "capture.jsonl", "-o", f"absent/{name}"]) == 2
        assert errors_of(capsys) == [f"towpath: -o absent/{name}: there is no folder absent; create it"]
    os.mkdir("empty")
    assert main(["head", "empty"]) == 2
    assert errors_of(capsys) == ["towpath: no file in the folder empty"]


def test_a_table_with_its_database_says_how_both_are_given(capsys):
    for verb in ("head", "infer"):
        main([verb, CLOUDCANAL, "--table", "shop.orders"])
        [said] = errors_of(capsys)
        assert "no message matches --table 'shop.orders'; tables in the first 56 messages: " in said
        assert said.endswith("--table is the name without the database: --database shop --table orders")
        assert main([verb, CLOUDCANAL, "--database", "shop", "--table", "orders"]) == 0
        capsys.readouterr()


def test_infer_tells_the_tables_of_a_snapshot_apart(tmp_path, capsys):
    types = {"a": "int32", "b": "string"}
    for table, kind in types.items():
        fields = [{"field": "after", "type": "struct", "fields": [{"field": "id", "type": kind}]}]
        payload = {"op": "r", "after": {"id": 1}, "source": {"connector": "mysql", "db": "shop", "table": table}}
        message = {"schema": {"type": "struct", "fields": fields}, "payload": payload}
        with (tmp_path / "snapshot.jsonl").open("a") as file:
            file.write(json.dumps(message) + "\n")
    assert main(["infer", str(tmp_path / "snapshot.jsonl")]) == 0
    assert capsys.readouterr().out == "-- shop.a\nid int\n\n-- shop.b\nid string\n"


def test_a_wrong_dialect_says_what_the_messages_look_like(capsys):
    assert main(["decode", CLOUDCANAL, "--dialect", "debezium-json", "--limit", "5"]) == 1
    lines = errors_of(capsys)
    assert lines[-1] == "warning: --dialect is debezium-json, but the first 5 messages are canal-json (5)"
    first = next(line for line in lines if line.startswith("error: "))
    with Path(CLOUDCANAL).open(encoding="utf-8") as file:
        message = file.readline()
    assert first.startswith(f"error: {CLOUDCANAL}: message 1 at byte 0: debezium-json: ")
    assert message[:150] in first


UNREAD = {
    "LZ4": lambda data: compressed(data, "lz4"),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "Brotli": lambda data: compressed(data, "brotli"),
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "UTF-16 ": lambda data: data.decode().encode("utf-16-le"),
    "UTF-16  ": lambda data: data.decode().encode("utf-16-be"),
}


def compressed(data, codec):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("kind", UNREAD)
def test_what_is_not_read_is_named_with_its_command(tmp_path, capsys, kind):
    data = UNREAD[kind](change(data=[order(1, "1.00")]) + b"\n")
    names = ["capture.br"] if kind == "Brotli" else ["capture.jsonl", "capture", "capture.lz4", "capture.txt"]
    for name in names:
        (tmp_path / name).write_bytes(data)
        for more in ([], ["--framing", "lines"]):
            assert main(["tables", str(tmp_path / name), *more]) == 2
            assert f"{name}: {kind.strip()} is not supported, only UTF-8, plain or in gzip" in errors_of(capsys)[0]
    if kind != "Brotli":
        ran = subprocess.run(
            [sys.executable, "-m", "towpath", "tables", "-"], input=data, capture_output=True, check=False
        )
        assert f"standard input: {kind.strip()} is not supported" in ran.stderr.decode()


def test_another_file_in_a_folder_says_what_to_name(tmp_path, capsys):
    (tmp_path / "README.md").write_text("# Captures")
    (tmp_path / "capture.jsonl").write_bytes(change(data=[order(1, "1.00")]))
    assert main(["check", str(tmp_path)]) == 2
    [said] = errors_of(capsys)
    assert "README.md: unknown framing, from the extension and the first bytes" in said
    assert said.endswith(f"; to read some files of the folder only, name them, such as {tmp_path}/*.jsonl")
    assert main(["check", f"{tmp_path}/*.jsonl"]) == 0


def test_a_file_that_is_named_twice_is_refused(capture, capsys):
    for places in (["capture.jsonl"] * 2, [".", "capture.jsonl"], ["*.jsonl", str(capture)]):
        assert main(["check", *places]) == 2
        assert errors_of(capsys)[0].endswith("capture.jsonl is named more than once; its messages would count twice")


def test_infer_looks_at_each_message_once_more(tmp_path, capsys, monkeypatch):
    """Each table's types come from its own messages, so that many tables take no longer than few."""
    looked_at = []

    def count(messages, *arguments, **options):
        looked_at.append(len(messages))
        return towpath.infer_schema(messages, *arguments, **options)

    monkeypatch.setattr(infer_verb, "infer_schema", count)
    texts = [json.dumps(message) for message in (of_table(table) for table in range(60) for _ in range(table % 3 + 1))]
    random.Random(1).shuffle(texts)
    (tmp_path / "tables.jsonl").write_text("\n".join(texts))
    assert main(["infer", str(tmp_path / "tables.jsonl"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {f"s.t{table}": f"c{table} int" for table in range(60)}
    assert (len(looked_at), sum(looked_at)) == (60, len(texts))


def of_table(table):
    row = {"type": "INSERT", "data": [{f"c{table}": "1"}], "mysqlType": {f"c{table}": "int"}}
    return {"database": "s", "table": f"t{table}", **row}


def test_infer_prints_the_ddl_of_each_table(capsys):
    assert main(["infer", CLOUDCANAL]) == 0
    printed = dict(part.split("\n", 1) for part in capsys.readouterr().out.strip().split("\n\n"))
    assert len(printed) > 1
    for name, text in printed.items():
        database, table = name.removeprefix("-- ").split(".")
        assert main(["infer", CLOUDCANAL, "--database", database, "--table", table]) == 0
        assert capsys.readouterr().out.strip() == text.strip()
    assert main(["infer", CLOUDCANAL, "--json"]) == 0
    assert {f"-- {name}": text for name, text in json.loads(capsys.readouterr().out).items()} == {
        name: text.strip() for name, text in printed.items()
    }


def test_shards_have_one_ddl(tmp_path, capsys):
    path = tmp_path / "shards.jsonl"
    types = {"mysqlType": {"id": "bigint"}}
    shards = [change(data=[{"id": "1"}], table=f"orders_{shard}", **types) for shard in (0, 1)]
    path.write_bytes(b"\n".join(shards))
    assert main(["infer", str(path)]) == 0
    assert capsys.readouterr().out == "id bigint\n"


def test_a_table_that_declares_no_types_is_named(tmp_path, capsys):
    path = tmp_path / "some.jsonl"
    typed = change(data=[{"id": "1"}], table="typed", mysqlType={"id": "bigint"})
    path.write_bytes(b"\n".join([typed, change(data=[{"id": "1"}], table="untyped")]))
    assert main(["infer", str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == "id bigint\n"
    assert printed.err.startswith("towpath: shop.untyped: ")


def test_a_schema_from_a_file(capture, capsys):
    (capture.parent / "orders.ddl").write_text("id bigint,\ntotal decimal(10,2)\n")
    assert main(["decode", "capture.jsonl", "--schema", "@orders.ddl", "--fields", "after"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == {"after": {"id": 1, "total": "1.00"}}
    assert main(["decode", "capture.jsonl", "--schema", "@absent.ddl"]) == 2
    assert "absent.ddl" in errors_of(capsys)[0]


NONSENSE = [
    [],
    ["--nonsense"],
    ["nonsense"],
    ["decode"],
    ["decode", ""],
    ["decode", "\udcff"],
    ["decode", "/"],
    ["decode", "absent-*.jsonl"],
    ["decode", "s3://"],
    ["decode", "nonsense://x.jsonl"],
    ["decode", "{capture}", "--limit", "-1"],
    ["decode", "{capture}", "--limit", "x"],
    ["decode", "{capture}", "--framing", "x"],
    ["decode", "{capture}", "--dialect", ""],
    ["decode", "{capture}", "--table", "("],
    ["decode", "{capture}", "--schema", "id"],
    ["decode", "{capture}", "--schema", ""],
    ["decode", "{capture}", "--schema", "@"],
    ["decode", "{capture}", "--schema", "@/"],
    ["decode", "{capture}", "--fields", ""],
    ["decode", "{capture}", "--fields", "op,op"],
    ["decode", "{capture}", "--layout", "flat"],
    ["decode", "{capture}", "--layout", "upsert"],
    ["decode", "{capture}", "-o", ""],
    ["decode", "{capture}", "-o", "absent/rows.jsonl"],
    ["decode", "{capture}", "-o", "/"],
    ["decode", "{capture}", "-o", "rows.csv"],
    ["decode", "{capture}", "--set", "x"],
    ["decode", "{capture}", "--set", "=1"],
    ["decode", "{capture}", "--set", "keep=1"],
    ["decode", "{capture}", "--set", 'keep=["nothing"]'],
    ["decode", "{capture}", "--set", "key=1"],
    ["decode", "{capture}", "--set", "labels=[1]"],
    ["decode", "{capture}", "--set", "lenient=maybe"],
    ["decode", "{capture}", "--set", "claim_check_limit=x"],
    ["decode", "{capture}", "--set", "schema_registry=1"],
    ["decode", "{capture}", "--set", "writer_schemas=1"],
    ["decode", "{capture}", "--set", 'writer_schemas={"x": 1}'],
    ["decode", "-", "--framing", "parquet"],
    ["detect", "{capture}", "--framing", "parquet"],
    ["detect", "{capture}", "--framing", "key-value"],
    ["detect", "{capture}", "--framing", "kcat-json"],
    ["infer", "{capture}"],
    ["infer", "{capture}", "--set", "x=1"],
    ["infer", "{capture}", "--set", "schema_registry=1"],
    ["report", "{capture}", "-o", "/absent/x.html"],
]


@pytest.mark.parametrize("arguments", NONSENSE, ids=lambda arguments: " ".join(arguments).encode(errors="replace"))
def test_nonsense_is_one_line_and_status_2(arguments, capture, capfd, monkeypatch):
    with open(os.devnull) as empty:
        monkeypatch.setattr(sys, "stdin", empty)
        with pytest.raises(SystemExit) as ended:
            sys.exit(main([word.replace("{capture}", "capture.jsonl") for word in arguments]))
    lines = capfd.readouterr().err.splitlines()
    assert (ended.value.code, len(lines)) == (2, 1), lines
    assert lines[0].startswith("towpath")
    assert sorted(os.listdir(capture.parent)) == ["capture.jsonl"]


def test_a_process_prints_no_traceback(capture):
    words = ["decode", os.fsdecode(b"\xff")]
    ran = subprocess.run([sys.executable, "-m", "towpath", *words], capture_output=True, stdin=subprocess.DEVNULL)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert ran.stderr.startswith(b"towpath")
