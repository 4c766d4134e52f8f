"""Installs each extra of the wheel alone, and runs the smallest example of what it is for.

The tests' pins hide what an extra lacks. `python tests/support/extras.py dist/*.whl` installs the newest versions that
the extras allow, `--oldest` the oldest. Names after the wheel are the only extras. It needs the network, and Java for
those with Spark.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
MESSAGE = b'{"database":"shop","table":"orders","type":"INSERT","pkNames":["id"],"data":[{"id":"7"}]}'

_SPARK = f"""
from pyspark.sql import SparkSession
import towpath.spark
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
df = spark.createDataFrame([(1, bytearray({MESSAGE}))], "offset long, value binary")
rows = towpath.spark.decode(df, "canal-json", schema="id bigint, tags map<string,int>", layout="upsert").collect()
assert [one.id for one in rows] == [7], rows
if int(spark.version[0]) > 3:
    towpath.spark.register(spark)
    df.createOrReplaceTempView("kafka")
    rows = spark.sql("SELECT after.id, column_types FROM from_cdc(TABLE(kafka), schema => 'id bigint')").collect()
    assert [one.id for one in rows] == [7], rows
"""
_DDL = """
from towpath.lakehouse.statements import read_statements
assert len(read_statements("ALTER TABLE shop.orders ADD COLUMN b int, DROP c")) == 2
"""
_DELTA = """
import tempfile
import deltalake, pyarrow as pa
from towpath.lakehouse.merging import delta_rs
folder = tempfile.mkdtemp()
deltalake.write_deltalake(folder, pa.table({"id": [7]}))
assert deltalake.DeltaTable(folder).version() == 0
"""
_TABLES = f"""
import pathlib, towpath.cli
pathlib.Path("messages.jsonl").write_bytes({MESSAGE})
assert towpath.cli.main(["tables", "messages.jsonl"]) == 0
"""
EXAMPLES = {
    "spark": _SPARK,
    "lakehouse": _SPARK + _DDL + _DELTA,
    "ddl": _DDL,
    "cli": "import argcomplete, tqdm\n" + _TABLES,
    "report": _TABLES + 'assert towpath.cli.main(["report", "messages.jsonl", "-o", "report.html"]) == 0\n',
    "registry": f"""
import sys, pyarrow as pa, towpath
sys.path.insert(0, {str(ROOT / "tests" / "support")!r})
from registry_server import running
with running() as registry:
    fields = '[{{"name": "id", "type": "long"}}]'
    number = registry.register("s", '{{"type": "record", "name": "s.shop.orders.Value", "fields": ' + fields + "}}")
    message = b"\\0" + number.to_bytes(4, "big") + b"\\x0e"
    rows = towpath.Decoder("debezium-avro", "id bigint", schema_registry=registry.url).decode([message]).to_pylist()
    assert rows[0]["after"] == {{"id": 7}}, rows
away = towpath.Decoder("debezium-avro", "id bigint", schema_registry="http://127.0.0.1:1").decode([message])
assert "cannot be reached" in away.to_pylist()[0]["error"]["message"]
""",
    "kafka": """
import towpath.cli
assert towpath.cli.main(["tables", "--kafka", "127.0.0.1:1", "--topic", "t"]) == 2
""",
    "delta": _DELTA,
    "job": f"""
import os, urllib.request
os.environ["KAFKA"] = "broker:9092"
from towpath.job.exporter import Exporter
from towpath.job.file import read_job
assert read_job({str(ROOT / "examples" / "job.yml")!r}).source_options["subscribe"] == "binlog"
port = Exporter("127.0.0.1", 0).port
assert b"towpath_batches_total" in urllib.request.urlopen(f"http://127.0.0.1:{{port}}/metrics").read()
""",
}
"""A program for each extra."""


def declared() -> tuple[list[str], dict[str, list[str]]]:
    """The requirements of the project, and of each extra."""
    text = (ROOT / "pyproject.toml").read_text()
    extras = re.search(r"^\[project.optional-dependencies\]\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    [always] = re.findall(r"^dependencies = \[(.*)\]", text, re.MULTILINE)
    assert extras is not None
    lines = re.findall(r"^(\w+) = \[(.*)\]", extras[1], re.MULTILINE)
    return _quoted(always), {name: _quoted(listed) for name, listed in lines}


def _quoted(listed: str) -> list[str]:
    return re.findall(r'"([^"]+)"', listed)


def oldest(requirements: list[str]) -> list[str]:
    """The oldest versions that requirements allow."""
    return [
        re.sub(r"\[.*\]|>=([\d.]+).*", lambda found: f"=={found[1]}" if found[1] else "", one) for one in requirements
    ]


def check(wheel: Path, extra: str, *, is_oldest: bool) -> bool:
    """Install an extra into an environment of its own, and run its example."""
    always, extras = declared()
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        pins = Path(folder, "pins.txt")
        pins.write_text("\n".join(oldest([*always, *extras[extra]]) if is_oldest else []))
        clean = {name: one for name, one in os.environ.items() if not re.match("PYTHON|PYSPARK|SPARK", name)}
        clean |= {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
        install = [python, "-m", "pip", "install", "--quiet", "--constraint", pins, f"{wheel.resolve()}[{extra}]"]
        for command in (install, [python, "-c", EXAMPLES[extra]]):
            ran = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
            if ran.returncode:
                print(f"{extra}: FAILED\n{ran.stdout}{ran.stderr}", flush=True)
                return False
    print(f"{extra}: ok", flush=True)
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=Path)
    parser.add_argument("extras", nargs="*", default=list(EXAMPLES))
    parser.add_argument("--oldest", action="store_true")
    given = parser.parse_args()
    results = [check(given.wheel, extra, is_oldest=given.oldest) for extra in given.extras]
    sys.exit(not all(results))
