"""The same functions on Spark Connect."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

import towpath
from canal_messages import MIXED, SCHEMA
from golden_files import messages

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def connected():
    """What a Connect session in another process decoded."""
    program = ROOT / "tests" / "support" / "connect_session.py"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_TESTING": "1",  # the server chooses a free port, and the client asks for it
    }
    ran = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


pytestmark = pytest.mark.skipif(pyspark.__version__ < "4", reason="pyspark 3.5 does not carry the Connect server")


def test_it_is_a_connect_session(connected):
    assert connected["session"] == "pyspark.sql.connect.session"


def test_it_decodes_what_the_decoder_decodes(connected):
    wanted = towpath.Decoder("canal-json", fields=["op"]).decode(messages("tencent/small.jsonl"))
    assert connected["ops"] == wanted.column("op").to_pylist()
    assert connected["schema"] is True


def test_the_decoder_is_the_function_there_too(connected):
    rows = towpath.Decoder("canal-json", SCHEMA, table="orders").decode(pa.array(MIXED)).to_pylist()
    assert len(connected["function"]) == len(rows) == 4
    assert "total=Decimal('12.50')" in connected["function"][0]
    assert "total=None" in connected["function"][1]
    assert connected["counted"] == connected["function"]


def test_files_are_read_there_too(connected):
    assert connected["read"] == connected["function"]


def test_the_function_of_sql_is_there_too(connected):
    assert sorted(connected["sql"]) == sorted(connected["function"])


def test_counts_arrive(connected):
    assert connected["counts"] == {
        "messages": 5,
        "rows": 4,
        "filtered": 1,
        "errors": 2,
        "errors_type": 1,
        "errors_syntax": 1,
    }


def test_the_listener_reports(connected):
    assert connected["listener"] == {"messages": 5, "rows": 4, "syntax": 1, "type": 1}


def test_reports_are_counted(connected):
    ops = Counter()
    for row in connected["summary"]:
        ops[row["op"]] += row["rows"]
    assert ops == Counter(connected["ops"])
