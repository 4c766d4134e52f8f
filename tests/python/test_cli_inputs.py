"""What the command reads without options: any name, pipes, what kcat prints; and what it says of nothing."""

import gzip
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canal_messages import change, order
from towpath.cli import main
from towpath.foreign_json import parsed_json
from towpath.spark import source_options
from towpath.spark.kafka import offsets

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "towpath"]
LINE = change(data=[order(1, "12.50")])


def kcat(payload, **more):
    """A line as kcat's manual prints it for -J."""
    place = {"topic": "t", "partition": 0, "offset": 5, "tstype": "create", "ts": 1732500000000, "broker": 1}
    return json.dumps({**place, "key": "k", "payload": payload.decode(), **more}).encode()


def parquet(path):
    pq.write_table(pa.table({"value": pa.array([LINE], pa.binary())}), path)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["capture", "capture.txt", "capture.log", "capture.bak.2"])
@pytest.mark.parametrize("made", ["lines", "marked", "array", "gzip", "parquet", "kcat"])
def test_the_first_bytes_tell_how_a_file_of_any_name_is_read(capsys, tmp_path, name, made):
    data = {
        "lines": LINE,
        "marked": b"\xef\xbb\xbf" + LINE,
        "array": b"[" + LINE + b"]",
        "gzip": gzip.compress(LINE),
        "parquet": parquet(tmp_path / "x.parquet"),
        "kcat": kcat(LINE),
    }
    (tmp_path / name).write_bytes(data[made])
    assert main(["check", str(tmp_path / name)]) == 0
    assert capsys.readouterr().out == "1 messages, 1 rows, 0 errors\n"


@pytest.mark.parametrize(
    "place", ["<(cat $0)", "/dev/stdin < $0", "/dev/stdin < <(cat $0)", "- < $0", "/dev/fd/3 3< $0"]
)
@pytest.mark.parametrize("made", ["lines", "kcat"])
def test_pipes_are_read(tmp_path, place, made):
    file = tmp_path / "made.jsonl"
    file.write_bytes((LINE if made == "lines" else kcat(LINE)) + b"\n")
    words = f"{' '.join(COMMAND)} check {place}"
    found = subprocess.run(["bash", "-c", words, str(file)], capture_output=True, text=True, check=True)
    assert found.stdout == "1 messages, 1 rows, 0 errors\n"


def test_kcats_place_is_kept_and_a_framing_that_is_given_holds(capsys, tmp_path):
    (tmp_path / "k.jsonl").write_bytes(kcat(b"no message"))
    assert main(["check", str(tmp_path / "k.jsonl")]) == 1
    assert "partition 0, offset 5" in " ".join(capsys.readouterr())
    (tmp_path / "k.jsonl").write_bytes(kcat(LINE))
    assert main(["check", str(tmp_path / "k.jsonl"), "--framing", "lines"]) == 1
    assert main(["check", str(tmp_path / "k.jsonl")]) == 0


@pytest.mark.parametrize("data", [b"", gzip.compress(b"", mtime=0)], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", ["empty.jsonl", "empty"])
@pytest.mark.parametrize("verb", ["head", "tables", "check", "detect"])
def test_an_empty_file_says_so(capsys, tmp_path, verb, name, data):
    (tmp_path / name).write_bytes(data)
    assert main([verb, str(tmp_path / name)]) == 0
    assert f"warning: {tmp_path / name} has no messages" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["-1", "x", "1.5"])
def test_a_number_of_rows_is_not_negative(capsys, tmp_path, number):
    (tmp_path / "a.jsonl").write_bytes(LINE)
    with pytest.raises(SystemExit) as ended:
        main(["head", "-n", number, str(tmp_path / "a.jsonl")])
    assert ended.value.code == 2
    assert f"argument -n: '{number}' is not a number of messages or rows" in capsys.readouterr().err


def test_rows_of_a_snapshot_are_read(capsys, tmp_path):
    source = {"db": "shop", "table": "t", "connector": "mysql", "ts_ms": 1732500000000}
    snapshot = {"before": None, "after": {"id": 1}, "op": "r", "source": source}
    (tmp_path / "a.jsonl").write_text(json.dumps(snapshot))
    assert main(["tables", str(tmp_path / "a.jsonl")]) == 0
    head, row = capsys.readouterr().out.splitlines()
    found = dict(zip(head.split(), row.split(), strict=False))
    assert (found["table"], found["read"], found["others"]) == ("shop.t", "1", "0")


@pytest.mark.parametrize("depth", [200, 1000, 2000, 100_000])
@pytest.mark.parametrize("at", [0, 2])
def test_a_line_that_is_nested_deeply_is_one_bad_message(tmp_path, capsys, depth, at):
    """Python's parser of JSON fails where the decoder has an error row."""
    brackets = ["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth]
    deep = [f'{{"database":"a","table":"b","type":"INSERT","data":[{{"id":{inner}}}]}}' for inner in brackets]
    good = '{"database":"a","table":"b","type":"INSERT","data":[{"id":"1"}]}'
    for line in [*deep, *brackets]:
        lines = [good] * 3
        lines.insert(at, line)
        (tmp_path / "deep.jsonl").write_text("\n".join(lines))
        for verb in ("tables", "check", "head"):
            main([verb, str(tmp_path / "deep.jsonl")])
            assert "deep" in "".join(capsys.readouterr())
        main(["decode", str(tmp_path / "deep.jsonl")])
        ops = [json.loads(row)["op"] for row in capsys.readouterr().out.splitlines()]
        assert (ops.count("insert"), ops.count("error")) == (3, 1)
        assert main(["tables", str(tmp_path / "deep.jsonl"), "--framing", "kcat-json"]) == 2
        assert "--framing kcat-json" in capsys.readouterr().err


@pytest.mark.parametrize(
    "parse", [parsed_json, offsets._object, source_options._json], ids=["all", "offsets", "option"]
)
def test_deep_json_of_others_is_a_value_error(parse):
    with pytest.raises(ValueError):  # noqa: PT011
        parse("[" * 100_000)
