"""The command `towpath`, compared with the decoder, with other readers of the captures, and with their truth."""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import towpath
from all_golden import GOLDEN
from canal_messages import MIXED, SCHEMA
from golden_files import lines, truth
from towpath.cli import main
from towpath.cli.arguments import add_decoder
from towpath.ddl import ddl


def printed_by(capsys):
    """Standard output, and the lines of standard error."""
    out, err = capsys.readouterr()
    return out, err.splitlines()


def test_dialects(capsys):
    assert main(["dialects"]) == 0
    assert [line.split()[0] for line in printed_by(capsys)[0].splitlines()] == [
        one["name"] for one in towpath.dialects()
    ]


def test_detect(capsys, mixed):
    capture = str(GOLDEN / "ticdc-open/open_protocol.kvrec.zst")
    with open(mixed, "a", encoding="utf-8") as file:
        file.write("hello\n")
    assert main(["detect", capture, mixed]) == 1
    [open_protocol, *others] = printed_by(capsys)[0].splitlines()
    assert open_protocol == f"{capture}: ticdc-open: 36"
    assert others == [f"{mixed}: canal-json: 5", f"{mixed}: unknown: 1"]


def test_infer_prints_what_a_decoder_takes(capsys):
    capture = "canal-mysql/mixed.flat.jsonl.zst"
    wanted = towpath.infer_schema(pa.array(lines(capture)), table="all_types")
    assert main(["infer", str(GOLDEN / "canal-json" / capture), "--table", "all_types"]) == 0
    printed = printed_by(capsys)[0]
    assert towpath.Decoder("canal-json", printed, fields=["after"]).schema.field("after").type == pa.struct(
        list(wanted)
    )
    assert printed.splitlines()[:2] == ["id bigint,", "c_tinyint tinyint,"]


def test_infer_looks_at_the_first_messages_only(capsys, mixed):
    assert main(["infer", mixed, "--limit", "0"]) == 2
    assert printed_by(capsys)[1] == ["towpath: infer: the input has no messages"]


def test_ddl_quotes_names_that_need_it():
    schema = pa.schema([("a b", pa.int32()), ("c`d", pa.decimal128(5, 2)), ("值", pa.duration("us"))])
    assert ddl(schema) == "`a b` int,\n`c``d` decimal(5,2),\n`值` interval day to second"
    assert towpath.Decoder(schema=ddl(schema), fields=["after"]).schema.field("after").type == pa.struct(list(schema))


def test_json_lines_have_the_databases_values(capsys):
    capture = str(GOLDEN / "canal-json/cloudcanal/small.jsonl")
    schema = "order_id bigint, total_amount decimal(12,2), updated_at timestamp, status string"
    arguments = ["decode", capture, "--table", "orders", "--schema", schema, "--fields", "op,before,after"]
    assert main(arguments) == 0
    out, counts = printed_by(capsys)
    rows = [json.loads(line) for line in out.splitlines()]
    wanted = [one for one in truth("cloudcanal/small.truth.jsonl") if one["table"] == "orders"]
    assert counts == ["56 messages", "28 rows", "28 filtered", "0 dropped", "0 errors"]
    images = [row["before"] if row["op"] == "delete" else row["after"] for row in rows]
    assert len(rows) == len(wanted)
    for image, want in zip(images, wanted, strict=True):
        values = dict(zip(want["cols"], want["row"] or want["old"], strict=True))
        assert (image["order_id"], image["total_amount"], image["status"]) == (
            int(values["order_id"]),
            values["total_amount"],
            values["status"],
        )


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl"])
def test_files_hold_what_the_decoder_gives(tmp_path, capsys, suffix):
    capture = "canal-mysql/mixed.flat.jsonl.zst"
    output = tmp_path / f"out{suffix}"
    arguments = ["decode", str(GOLDEN / "canal-json" / capture), "--dialect", "canal-json", "-o", str(output)]
    assert main(arguments) == 0
    wanted = towpath.Decoder("canal-json").decode(pa.array(lines(capture)))
    if suffix == ".parquet":
        assert pq.read_table(output).to_pylist() == wanted.to_pylist()
    elif suffix == ".arrow":
        assert pa.ipc.open_file(output).read_all().equals(pa.table(wanted))
    else:
        rows = [json.loads(line) for line in output.read_text(encoding="utf-8").split("\n") if line]
        assert [row["after"] for row in rows] == [
            None if after is None else dict(after) for after in wanted.column("after").to_pylist()
        ]
    assert [path.name for path in tmp_path.iterdir()] == [output.name]


def test_json_of_types_that_json_lacks(capsys, tmp_path):
    path = tmp_path / "one.jsonl"
    data = {"t": "-838:59:59.5", "b": "\u00ff\u0001", "d": "2024-05-06", "j": '[{"a":1}]', "n": None}
    path.write_text(json.dumps({"type": "INSERT", "database": "d", "table": "t", "data": [data]}))
    schema = "t interval day to second, b binary, d date, j array<struct<a: int>>, n double"
    assert main(["decode", str(path), "--schema", schema, "--fields", "after"]) == 0
    assert json.loads(printed_by(capsys)[0])["after"] == {
        "t": "-838:59:59.500000",
        "b": "/wE=",
        "d": "2024-05-06",
        "j": [{"a": 1}],
        "n": None,
    }


@pytest.mark.parametrize(("mode", "rows", "dropped"), [("PERMISSIVE", 4, 0), ("DROPMALFORMED", 2, 2)])
def test_errors_are_counted_and_are_the_status(capsys, mixed, mode, rows, dropped):
    assert main(["decode", mixed, "--schema", SCHEMA, "--table", "orders", "--mode", mode]) == 1
    out, counts = printed_by(capsys)
    assert len(out.splitlines()) == rows
    wanted = ["5 messages", f"{rows} rows", "1 filtered", f"{dropped} dropped", "2 errors: 1 syntax, 1 type"]
    assert counts[:-2] == wanted
    [of_type, of_syntax] = counts[-2:]
    reason = 'canal-json: after.total: "12,50" is not a decimal(10,2)'
    assert of_type == f"error: {mixed}: message 2 at byte {len(MIXED[0]) + 1}: {reason}: {MIXED[1].decode()}"
    assert of_syntax.startswith(f"error: {mixed}: message 4 at byte {sum(map(len, MIXED[:3])) + 3}: canal-json: ")
    assert of_syntax.endswith(MIXED[3].decode())


def test_failfast_leaves_no_file(capsys, mixed, tmp_path):
    output = tmp_path / "out.parquet"
    assert main(["decode", mixed, "--schema", SCHEMA, "--mode", "FAILFAST", "-o", str(output)]) == 1
    byte = MIXED[1].index(b"12,50")
    place = f"{mixed}: message 2 at byte {len(MIXED[0]) + 1}"
    reason = f'canal-json: after.total: "12,50" is not a decimal(10,2) (byte {byte} of the message)'
    assert printed_by(capsys)[1] == [f"towpath: {place}: {reason}"]
    assert os.listdir(tmp_path) == ["mixed.jsonl"]


def test_any_argument_of_the_decoder_can_be_set(capsys, tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_bytes(b'{"type":"INSERT","database":"d","table":"t","data":[{"e":"2","at":"2024-05-06 08:00:00"}]}')
    settings = ["--set", 'labels={"e":["x","y"]}', "--set", "time_zone=Asia/Shanghai"]
    assert main(["decode", str(path), "--schema", "e string, at timestamp", "--fields", "after", *settings]) == 0
    assert json.loads(printed_by(capsys)[0]) == {"after": {"e": "y", "at": "2024-05-06T00:00:00+00:00"}}


def test_a_setting_may_be_in_a_file(tmp_path):
    (tmp_path / "secret").write_text("hunter2\n")
    (tmp_path / "labels.json").write_text('{"e": ["x"]}\n')
    parser = argparse.ArgumentParser()
    add_decoder(parser)
    files = ["--client", f"sasl.password=@{tmp_path}/secret", "--set", f"labels=@{tmp_path}/labels.json"]
    parsed = parser.parse_args(["x", *files, "--client", "sasl.username=@@me"])
    assert (parsed.client, parsed.set) == (
        [("sasl.password", "hunter2"), ("sasl.username", "@me")],
        [("labels", {"e": ["x"]})],
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["decode"], "name either files to read, or a broker and topics"),
        (["decode", "--kafka", "localhost:9092"], "--kafka requires --topic, and --topic requires --kafka"),
        (["decode", "a.jsonl", "--kafka", "localhost:9092", "--topic", "t"], "name either files to read, or a broker"),
        (
            ["tables", "--kafka", "h:1", "--topic", "t", "--client", "key.deserializer=x"],
            "kafka.key.deserializer is not",
        ),
        (["decode", "absent.jsonl"], "absent.jsonl"),
        (["decode", "{mixed}", "--dialect", "canel"], "canal-json"),
        (["decode", "{mixed}", "-o", "out.csv"], ".parquet, .arrow, .jsonl"),
        (["decode", "{mixed}", "--set", "tabel=1"], "table"),
        (
            ["detect", "messages"],
            "--framing to one of lines, length-prefixed, key-value, kcat-json, print-key, parquet",
        ),
    ],
)
def test_what_cannot_be_carried_out_is_status_2(capsys, mixed, arguments, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "messages").write_bytes(b"\0\0\0\1{")
    assert main([argument.format(mixed=mixed) for argument in arguments]) == 2
    assert named in printed_by(capsys)[1][0]


@pytest.mark.parametrize(
    "arguments",
    [["decode", "--since", "noon"], ["decode", "x", "--set", "y"], ["decode", "--client", "a=@/nowhere"], ["nonsense"]],
)
def test_wrong_usage_is_status_2(capsys, arguments):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("towpath")
    assert "--help" in line


def test_as_a_process_in_a_pipe():
    capture = GOLDEN / "canal-json/cloudcanal/small.jsonl"
    command = [sys.executable, "-m", "towpath", "decode", "-"]
    ran = subprocess.run(command, input=capture.read_bytes(), capture_output=True, check=False)
    ops = Counter(json.loads(line)["op"] for line in ran.stdout.splitlines())
    types = Counter(json.loads(line)["type"].lower() for line in capture.read_bytes().splitlines())
    assert ran.returncode == 0
    assert {op: ops[op] for op in ("insert", "update", "delete", "truncate")} == {
        op: types[op] for op in ops if op != "ddl"
    }
    assert ops.total() == types.total()
    assert ran.stderr.decode().splitlines()[-1] == "0 errors", "nothing but counts, where there is no terminal"
    cut = subprocess.run(
        f"{sys.executable} -m towpath decode {capture} | head -1", shell=True, capture_output=True, check=False
    )
    assert (len(cut.stdout.splitlines()), b"Traceback" in cut.stderr) == (1, False)


def test_times_as_mysql_prints_them():
    from towpath.sinks import _time

    spans = [timedelta(hours=838, minutes=59, seconds=59), -timedelta(microseconds=1), timedelta(0)]
    assert [_time(span) for span in spans] == ["838:59:59", "-00:00:00.000001", "00:00:00"]
