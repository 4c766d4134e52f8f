"""The verbs that inspect: `head`, `tables`, `check`, `doctor`, and what Kafka's own tools print."""

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import towpath
from all_golden import GOLDEN
from canal_messages import MIXED, SCHEMA, change, order
from towpath.cli import main
from towpath.cli.command import VERBS
from towpath.cli.verbs import doctor as doctor_verb
from towpath.versions import TESTED, combination_with

CLOUDCANAL = GOLDEN / "canal-json/cloudcanal/small.jsonl"


def test_tables_counts_what_the_messages_say(capsys):
    assert main(["tables", str(CLOUDCANAL), "--json"]) == 0
    tables = {one["table"]: one for one in json.loads(capsys.readouterr().out)}
    messages = [json.loads(line) for line in CLOUDCANAL.read_bytes().splitlines()]
    wanted: dict[str, Counter[str]] = {}
    for one in messages:
        op = "ddl" if one["isDdl"] and one["type"] != "TRUNCATE" else one["type"].lower()
        wanted.setdefault(f"{one['database']}.{one['table']}", Counter())[op] += len(one["data"] or [None])
    assert {name: Counter(table["ops"]) for name, table in tables.items()} == wanted
    for name, table in tables.items():
        times = [one["es"] for one in messages if f"{one['database']}.{one['table']}" == name]
        first, last = (datetime.fromisoformat(table[end]).timestamp() * 1000 for end in ("first", "last"))
        assert (first, last) == (min(times), max(times))
    assert main(["tables", str(CLOUDCANAL)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "table"
    assert [line.split()[0] for line in lines] == list(tables)


def test_tables_counts_errors(capsys, mixed):
    assert main(["tables", mixed, "--schema", SCHEMA, "--table", "orders", "--json"]) == 1
    tables = {one["table"]: one["errors"] for one in json.loads(capsys.readouterr().out)}
    assert tables == {"shop.orders": 1, "-": 1}


def test_head_marks_what_changed(capsys, tmp_path):
    path = tmp_path / "update.jsonl"
    path.write_bytes(change("UPDATE", [order(1, "13.00") | {"note": None}], [{"total": "12.50"}]))
    assert main(["head", str(path), "--schema", SCHEMA + ", note string"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "update  shop.orders",
        "    column     before               after",
        "    id         1                    1",
        " *  total      12.50                13.00",
        "    placed_at  2024-05-06T07:08:09  2024-05-06T07:08:09",
        "    note       NULL                 NULL",
        "",
    ]


def test_head_shows_changes_that_name_no_table(capsys, tmp_path):
    """As Flink's are."""
    path = tmp_path / "flink.jsonl"
    path.write_text('{"data":[{"id":1}],"type":"INSERT"}\n{"data":[{"id":2}],"type":"DELETE"}\n')
    assert main(["head", str(path), "--schema", "id int", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["op"], one["before"], one["after"]) for one in rows] == [
        ("insert", None, {"id": 1}),
        ("delete", {"id": 2}, None),
    ]


def test_head_shows_so_many_rows_and_their_errors(capsys, mixed):
    assert main(["head", mixed, "-n", "2", "--json", "--schema", SCHEMA, "--table", "orders"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["after"]["total"] for row in rows] == ["12.50", None]
    assert rows[1]["error"]["kind"] == "type"
    assert main(["head", mixed, "-n", "1"]) == 0


def test_check_names_everything_that_does_not_decode(capsys, mixed):
    assert main(["check", mixed, "--schema", SCHEMA, "--table", "orders"]) == 1
    *errors, counts = capsys.readouterr().out.splitlines()
    assert counts == "5 messages, 4 rows, 2 errors: 1 syntax, 1 type"
    assert [line.split(" at byte")[0] for line in errors] == [f"{mixed}: message 2", f"{mixed}: message 4"]
    assert main(["check", mixed, "--table", "customers"]) == 1
    assert main(["check", str(CLOUDCANAL), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["messages"] == 56


@pytest.mark.parametrize("framing", ["kcat-json", "print-key"])
def test_what_kafkas_tools_print(framing, tmp_path, capsys):
    """The tools' own formats, with text that JSON has to escape; the place of a message is in errors."""
    messages = [(None, MIXED[0]), (b'k"1', None), (b"2", MIXED[4]), (b"\xe5\x80\xbc", MIXED[1])]
    path = tmp_path / "printed"
    path.write_bytes(b"".join(printed(framing, at, *message) + b"\n" for at, message in enumerate(messages)))
    assert main(["decode", str(path), "--framing", framing, "--fields", "op", "--set", 'keep=["key","offset"]']) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    wanted = ["insert", "tombstone", "update", "insert"]
    assert [(row["op"], row["offset"]) for row in rows] == [(op, 100 + at) for at, op in enumerate(wanted)]
    assert [row["key"] for row in rows] == [None, "ayIx", "Mg==", "5YC8"]  # base64
    assert main(["decode", str(path), "--framing", framing, "--schema", SCHEMA, "--mode", "FAILFAST"]) == 1
    topic = "topic binlog, " if framing == "kcat-json" else ""
    byte = path.read_bytes().rindex(printed(framing, 3, *messages[3]))
    assert f": message 4 at byte {byte}, {topic}partition 2, offset 103: " in capsys.readouterr().err


def printed(framing, at, key, value):
    text = [None if part is None else part.decode() for part in (key, value)]
    if framing == "kcat-json":
        place = {"topic": "binlog", "partition": 2, "offset": 100 + at, "tstype": "create", "ts": 1_700_000_000_000}
        return json.dumps({**place, "broker": 1, "key": text[0], "payload": text[1]}).encode()
    key, value = (b"null" if part is None else part for part in (key, value))
    return b"\t".join([b"CreateTime:1700000000000", b"Partition:2", f"Offset:{100 + at}".encode(), key, value])


@pytest.mark.parametrize(
    ("framing", "line", "reason"),
    [
        ("kcat-json", MIXED[0], 'a "payload"'),
        ("kcat-json", b"[]", 'a "payload"'),
        ("kcat-json", b'{"payload": {"a": 1}}', "without -s"),
        ("print-key", MIXED[0], "print.key=true"),
    ],
)
def test_another_framing_is_named(framing, line, reason, tmp_path, capsys):
    path = tmp_path / "printed.jsonl"
    path.write_bytes(b"\n".join([line, line]))
    assert main(["decode", str(path), "--framing", framing]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith(f"towpath: {path}: message 1 at byte 0: --framing {framing}: ")
    assert reason in said


def test_parquet_with_kafkas_columns(tmp_path, capsys):
    """As Spark writes a topic to Parquet."""
    values = {"value": MIXED[:2], "key": [b"a", None], "topic": ["t"] * 2, "partition": [0, 0], "offset": [7, 8]}
    pq.write_table(pa.table(values), tmp_path / "part-0.snappy.parquet")
    assert main(["check", str(tmp_path), "--schema", SCHEMA]) == 1
    place = f"{tmp_path}/part-0.snappy.parquet: message 2, topic t, partition 0, offset 8: "
    assert capsys.readouterr().out.startswith(place)
    pq.write_table(pa.table({"message": MIXED[:2]}), tmp_path / "part-0.snappy.parquet")
    assert main(["check", str(tmp_path)]) == 2
    assert "no column 'value', only message" in capsys.readouterr().err


def test_the_limit_counts_messages_of_all_files(tmp_path, capsys):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join([MIXED[0]] * 3))
    for limit, wanted in ((0, 0), (2, 2), (3, 3), (4, 4), (100, 9)):
        assert main(["decode", str(tmp_path), "--limit", str(limit), "--json"]) == 0
        out, err = capsys.readouterr()
        assert (len(out.splitlines()), json.loads(err)["messages"]) == (wanted, wanted)


def test_json_is_an_option_of_every_verb(mixed, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "typed.jsonl").write_bytes(change(data=[{"id": "1"}], mysqlType={"id": "bigint"}))
    for verb in VERBS.keys() - {"replicate"}:  # tests/lakehouse/test_job_runs.py
        main([verb, *([] if verb in ("dialects", "doctor") else ["typed.jsonl"]), "--json"])
        out, err = capsys.readouterr()
        assert all(json.loads(line) for line in (err if verb == "report" else out).splitlines()), verb
        assert out, verb


def doctor(*arguments, **variables):
    command = [sys.executable, "-m", "towpath", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})


def test_doctor_says_what_is_installed():
    ran = doctor("--json", PYSPARK_PYTHON=sys.executable)
    found = {one["name"]: one for one in json.loads(ran.stdout)}
    assert found["towpath"]["found"] == towpath.__version__
    assert found["Python"]["found"] == sys.version.split()[0]
    assert found["pyarrow"]["found"] == pa.__version__
    assert found["pyspark"]["found"] in [one.spark for one in TESTED]
    assert found["Spark's workers"]["verdict"] == "ok"
    for jar, release in [("Delta's jar", "delta"), ("Iceberg's jar", "iceberg"), ("Kafka's jar", "kafka")]:
        assert found[jar]["found"] == getattr(combination_with(found["pyspark"]["found"]), release)
        assert found[jar]["cure"].endswith(f":{found[jar]['found']}")
    assert ran.returncode == int(any(one["verdict"] == "problem" for one in found.values()))


@pytest.mark.parametrize("spark", ["4.3.0", "4.9.0", "3.5.9"])
def test_doctor_says_which_jars_are_not_tested(monkeypatch, spark):
    monkeypatch.setattr(doctor_verb, "_version", lambda package: spark if package == "pyspark" else "2.3.3")
    found = {one.name: one for one in doctor_verb.examine()}
    assert found["Delta's jar"].verdict == "absent"
    assert "cannot write Delta tables" in found["Delta's jar"].cure
    assert "towpath[lakehouse]" in found["Delta's jar"].cure


@pytest.mark.parametrize(
    ("variables", "name", "cure"),
    [
        ({"PYSPARK_PYTHON": "/absent/python"}, "Spark's workers", f"export PYSPARK_PYTHON={sys.executable}"),
        ({"PYSPARK_PYTHON": "false"}, "Spark's workers", f"export PYSPARK_PYTHON={sys.executable}"),
        ({"JAVA_HOME": "/absent"}, "Java", "set JAVA_HOME"),
    ],
)
def test_doctor_has_a_cure(variables, name, cure):
    ran = doctor(**variables)
    assert ran.returncode == 1
    [line] = [line for line in ran.stdout.splitlines() if line.startswith(name)]
    assert "problem" in line
    assert cure in line


def completed(tmp_path, line):
    """What the shell is offered, as argcomplete's shell functions ask for it."""
    answer = tmp_path / "answer"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    asked |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
    subprocess.run([sys.executable, "-m", "towpath"], env=os.environ | asked, check=True, timeout=300)
    return sorted(word.strip() for word in answer.read_text().split("\n"))


def test_the_shell_completes_verbs_flags_and_values(tmp_path):
    assert completed(tmp_path, "towpath de") == ["decode", "detect"]
    assert completed(tmp_path, "towpath decode --dialect deb") == ["debezium-avro", "debezium-json"]
    assert completed(tmp_path, "towpath decode --dialect au") == ["auto"]
    assert completed(tmp_path, "towpath decode --layo") == ["--layout"]
    assert completed(tmp_path, "towpath decode --layout ") == ["change", "changelog", "upsert"]
