"""Runs the benches and writes benches/RESULTS.md: `make bench`, or

    python benches/run.py                     everything: about half an hour on two cores
    python benches/run.py python spark        only these parts; the table keeps the others' last figures
    python benches/run.py --quick             a smoke test on a small corpus, without Rust, JVM and Spark
    python benches/run.py --report            only the table, from the last figures

A part whose tools are missing says so in the table. Nothing here fails for being slow.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import corpus

BENCHES = Path(__file__).resolve().parent
ROOT = BENCHES.parent
FIGURES = corpus.CACHE / "figures"
JVM = BENCHES / "peers" / "jvm"
COUNT = 200_000
CARGO_BENCH = ["cargo", "bench", "--locked", "--bench", "decode"]


class Missing(Exception):
    """A tool that a part needs is not here."""


def run(command, **options):
    print("+", *(str(word) for word in command), file=sys.stderr, flush=True)
    return subprocess.run([str(word) for word in command], cwd=ROOT, check=True, text=True, **options)


def need(*tools):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise Missing(f"{', '.join(missing)} not found")


# The parts. Each gives {name: [figure of each round]}, MB/s unless the name says otherwise.


def rust_part(arguments):
    """The criterion bench, several times over, so that a slow minute does not decide."""
    need("cargo")
    figures = {}
    for _ in range(arguments.passes):
        started = datetime.datetime.now().timestamp()
        run([*CARGO_BENCH, "--", "--noplot", "--warm-up-time", "1", "--measurement-time", "2"])
        for name, figure in criterion_figures(started):
            figures.setdefault(f"rust {name}", []).append(figure)
    return figures


def criterion_figures(started):
    """What criterion has written about each bench since then."""
    described = run(["cargo", "metadata", "--format-version", "1", "--no-deps"], stdout=subprocess.PIPE).stdout
    target = Path(json.loads(described)["target_directory"])
    for file in target.glob("criterion/**/new/benchmark.json"):
        if file.stat().st_mtime >= started:
            about = json.loads(file.read_text())
            nanos = json.loads((file.parent / "estimates.json").read_text())["median"]["point_estimate"]
            yield f"{about['group_id']}/{about['value_str']}", about["throughput"]["Bytes"] * 1e3 / nanos


def instructions_part(arguments):
    """Instructions a message, counted by callgrind: those of three runs less those of one, so that start-up is out."""
    need("cargo", "valgrind")
    figures = {}
    for shape, way in [("wide", "towpath typed"), ("wide", "simd-json tape"), ("tables", "towpath typed")]:
        one, three = (instructions(shape, way, times) for times in (1, 3))
        figures[f"instructions {shape}/{way}"] = [(three - one) / 2 / 2_000]  # decode.rs: FIXED_MESSAGES
    return figures


def bench_executable():
    lines = run([*CARGO_BENCH, "--no-run", "--message-format=json"], stdout=subprocess.PIPE).stdout.splitlines()
    built = [json.loads(line) for line in lines]
    return next(message["executable"] for message in built if message.get("target", {}).get("name") == "decode")


def instructions(shape, way, times):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", bench_executable()]
    output = run([*command, "fixed", shape, way, str(times)], stderr=subprocess.PIPE).stderr
    return int(re.search(r"Collected : (\d+)", output).group(1))


def python_part(arguments):
    """The pytest-benchmark file, several times over."""
    for shape in corpus.SHAPES:
        corpus.ensure(shape, arguments.count)
    figures = {}
    for _ in range(arguments.passes):
        for name, rounds in pytest_figures(arguments):
            figures.setdefault(f"python {name}", []).extend(rounds)
    return figures


def pytest_figures(arguments):
    report = corpus.CACHE / "pytest-benchmark.json"
    environment = {"TOWPATH_BENCH_COUNT": str(arguments.count), "TOWPATH_BENCH_ROUNDS": str(arguments.rounds)}
    command = [sys.executable, "-m", "pytest", "-q", "benches/bench_decode.py", "--benchmark-json", report]
    command += ["--benchmark-storage", corpus.CACHE, "-p", "no:cacheprovider"]
    # The project's own settings turn warnings into errors, which is not for the peers' libraries.
    run([*command, "--override-ini=filterwarnings="], env=os.environ | environment, stdout=sys.stderr)
    for bench in json.loads(report.read_text())["benchmarks"]:
        size = bench["extra_info"]["bytes"]
        yield bench["name"].removeprefix("test_"), [size / 1e6 / seconds for seconds in bench["stats"]["data"]]


def jvm_part(arguments):
    """Flink and fastjson2 over the same messages. They have to have read the same rows."""
    need("java", "javac", "mvn")
    run(["mvn", "--batch-mode", "--quiet", "--file", JVM, "compile", "dependency:copy-dependencies"])
    corpus.ensure("wide", arguments.count)
    messages = corpus.path("wide", arguments.count, "bin")
    figures = {}
    for _ in range(arguments.passes):
        for peer in ("flink", "fastjson2", "fastjson2-typed"):
            figures.setdefault(f"jvm {peer}", []).extend(jvm_figures(peer, messages, arguments.rounds))
    return figures


def jvm_figures(peer, messages, rounds):
    classes = os.pathsep.join([str(JVM / "target" / "classes"), str(JVM / "target" / "dependency" / "*")])
    command = ["java", "-XX:+UseSerialGC", "-Xms3g", "-Xmx3g", "-cp", classes, "JvmPeers", peer, messages, rounds]
    result = json.loads(run(command, stdout=subprocess.PIPE).stdout)
    if peer != "fastjson2":  # which converts nothing that could be compared
        assert [result[name] for name in ("images", "ids", "cents")] == wide_sums(messages), f"{peer} read other rows"
    return result["mb_s"]


def wide_sums(messages):
    """What a reader of both images has to find: how many, the sum of their ids, and the cents of those after."""
    images = ids = cents = 0
    for message in read_binary(messages):
        flat = json.loads(message)
        copies = 2 if flat["type"] == "UPDATE" else 1  # the key never changes
        images += copies * len(flat["data"])
        ids += copies * sum(int(row["id"]) for row in flat["data"])
        cents += sum(round(float(row["total"]) * 100) for row in flat["data"])
    return [images, ids, cents]


def read_binary(path):
    content = path.read_bytes()
    at = 0
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        yield content[at + 4 : at + 4 + length]
        at += 4 + length


def spark_part(arguments):
    return spark_figures("bench_spark.py", "spark", ("wall", "cpu", "jvm", "workers"), arguments)


def source_part(arguments):
    """The data source over a file of lines, and other ways over the same bytes."""
    return spark_figures("bench_source.py", "lines", ("cpu", "wall"), arguments)


def spark_figures(program, prefix, measures, arguments):
    """What a program that measures ways in Spark wrote about each."""
    need("java")
    report = corpus.CACHE / f"{prefix}.json"
    size = ["--count", 2 * arguments.count, "--rounds", max(5, arguments.rounds)]
    run([sys.executable, BENCHES / program, *size, "--json", report], stdout=sys.stderr)
    ways = json.loads(report.read_text())["ways"]
    return {f"{prefix} {what} {way}": [r[what] for r in rounds] for way, rounds in ways.items() for what in measures}


PARTS = {
    "rust": rust_part,
    "python": python_part,
    "jvm": jvm_part,
    "instructions": instructions_part,
    "spark": spark_part,
    "source": source_part,
}


# The table.


@dataclass
class Row:
    """One comparison: how many times `ours` is better than `theirs`, or with `cost` how many times dearer."""

    title: str
    ours: str
    theirs: str | None = None
    first: float | None = None
    goal: float | None = None
    cost: bool = False


TYPED = "rust {}/towpath typed"
TAPE = "rust {}/simd-json tape"
IDENTITY = "spark cpu identity mapInArrow"


def against_tape(title, shape, first=None, goal=None):
    return Row(f"{title}: against simd-json's tape", TYPED.format(shape), TAPE.format(shape), first, goal)


def against_name(title, shape):
    """What it costs to find each message's dialect: both are towpath, over the same messages."""
    return Row(f"auto, {title}: against the dialect's name", f"rust {shape}/towpath auto", TYPED.format(shape))


def against_spark(title, what, way, first, goal):
    """Rows alike: what the from_json ways put out, and no more."""
    return Row(
        f"Spark, rows, {what}: against {title}", f"spark {what} towpath rows", f"spark {what} {way}", first, goal
    )


def against_lines(title, way, goal=None):
    return Row(f"Spark, data source over lines, rows, cpu: against {title}", "lines cpu source, rows", way, None, goal)


ROWS = [
    against_tape("wide, typed, both images", "wide", 0.8, 2.0),
    against_tape("ten tables mixed", "tables", 0.5, 1.5),
    against_tape("keys shuffled", "shuffled", 0.5, 1.0),
    Row("wide, map output: against simd-json's tape", "rust wide/towpath maps", TAPE.format("wide"), 0.4, 1.0),
    Row("ten tables, map output: against simd-json's tape", "rust tables/towpath maps", TAPE.format("tables")),
    against_tape("ticdc", "ticdc", 0.7, 1.8),
    against_tape("narrow", "narrow", 0.7, 1.8),
    against_tape("update-heavy", "update", 0.7, 1.8),
    Row("wide, after image only: against simd-json's tape", "rust wide/towpath after only", TAPE.format("wide")),
    Row("wide, 3 of 12 columns: against simd-json's tape", "rust wide/towpath 3 of 12", TAPE.format("wide")),
    Row("wide: against serde_json IgnoredAny (no decode)", TYPED.format("wide"), "rust wide/serde_json IgnoredAny"),
    Row("wide: against serde derive into HashMap", TYPED.format("wide"), "rust wide/serde derive"),
    Row("wide: against Flink's canal-json, both images", "python towpath", "jvm flink", 2.5, 8),
    Row("wide: against fastjson2 to typed values, both images", "python towpath", "jvm fastjson2-typed", 1.5, 4),
    Row("wide: against fastjson2 to FlatMessage, no values", "python towpath", "jvm fastjson2"),
    Row("wide, both images: against orjson to pyarrow, which has one", "python towpath", "python peer[orjson_loads]"),
    Row(
        "wide, after image: against orjson to pyarrow", "python towpath_after_only", "python peer[orjson_loads]", 5, 14
    ),
    Row("wide: against json.loads to pyarrow (after image)", "python towpath", "python peer[json_loads]"),
    Row("wide: against pyarrow.json (after image)", "python towpath", "python peer[pyarrow_json]"),
    Row("wide: against polars (after image)", "python towpath", "python peer[polars_json]"),
    Row("wide: against duckdb (after image)", "python towpath", "python peer[duckdb_json]"),
    Row("wide, every envelope column: against orjson", "python towpath_default_fields", "python peer[orjson_loads]"),
    against_tape("cloudcanal-json", "cloudcanal"),
    against_tape("debezium-json without schema", "debezium", None, 1.5),
    against_tape("debezium-json with schema", "debezium-schema", None, 4),
    against_tape("maxwell-json", "maxwell"),
    against_tape("river-json", "river"),
    Row(
        "canal-protobuf: against prost into owned structs",
        TYPED.format("protobuf"),
        "rust protobuf/prost structs",
        None,
        5,
    ),
    Row("dts-avro: against apache-avro into its values", TYPED.format("dts"), "rust dts/apache-avro", None, 8),
    Row("dts-avro, both images: against fastavro to pyarrow, which has one", "python towpath_dts", "python fastavro"),
    Row(
        "dts-avro, after image: against fastavro to pyarrow",
        "python towpath_dts_after_only",
        "python fastavro",
        None,
        15,
    ),
    against_name("canal-json", "wide"),
    against_name("cloudcanal-json", "cloudcanal"),
    against_name("debezium-json without schema", "debezium"),
    against_name("debezium-json with schema", "debezium-schema"),
    against_name("maxwell-json", "maxwell"),
    against_name("river-json", "river"),
    against_name("canal-protobuf", "protobuf"),
    against_name("dts-avro", "dts"),
    Row(
        "auto, all of these mixed: against each by its name, sorted out",
        "rust mixed/towpath auto",
        "rust mixed/towpath by name",
    ),
    Row("two threads, one decoder, wall: against one", "python threads[2]", "python threads[1]", None, 1.9),
    Row("instructions a wide message", "instructions wide/towpath typed", None, 25_000, 10_000, cost=True),
    Row("the same, simd-json's tape", "instructions wide/simd-json tape", cost=True),
    Row("the same, ten tables mixed, typed", "instructions tables/towpath typed", cost=True),
    Row("Spark, rows, cpu: times identity mapInArrow", "spark cpu towpath rows", IDENTITY, 1.25, 1.10, True),
    Row("Spark, both images, cpu: times identity mapInArrow", "spark cpu towpath", IDENTITY, None, None, True),
    Row(
        "Spark, both images, cpu: against from_json tuned, one image", "spark cpu towpath", "spark cpu from_json tuned"
    ),
    against_spark("from_json tuned", "cpu", "from_json tuned", 1.4, 1.8),
    against_spark("from_json tuned", "wall", "from_json tuned", 1.4, 1.8),
    against_spark("from_json naive", "cpu", "from_json naive", 2.3, 3.0),
    against_spark("from_json naive", "wall", "from_json naive", 2.3, 3.0),
    against_spark("orjson in mapInArrow", "cpu", "orjson mapInArrow", None, None),
    against_lines("from_json tuned over the same lines", "lines cpu text, from_json tuned", 2.6),
    against_lines("mapInArrow over the same lines", "lines cpu text, mapInArrow, rows"),
    against_lines("mapInArrow over Parquet", "lines cpu parquet, mapInArrow, rows"),
]
NOTES = """\
- The peers do less. simd-json's tape and `IgnoredAny` decode nothing; derived and prost's structs and apache-avro's
  values keep text; the Python peers, `from_json` and orjson give the row of `data` only, fastavro that of the after
  image. towpath, Flink and fastjson2 typed give both images whole. towpath's figures are of `op`, `before`, `after`,
  `event_time` (in Python and Spark `produced_time` too), with every rule of the contract in force.
- Every Python and Spark peer's output was compared with towpath's before it was timed, fastavro's with what its records
  were made of, the JVM peers' sums with the corpus. In the Rust bench towpath, prost and apache-avro had to find every
  row of the corpus and its sums first, towpath with no error.
- All messages are of the same kind of rows, of 12 columns but for narrow. A message of canal-json and cloudcanal-json is
  a statement of 1.2 rows, a canal-protobuf packet about eight of them with the marks of their transactions, a message of
  TiCDC and of the other dialects one row, as their producers write it. MB/s are of the wire's bytes, so figures of two
  dialects do not compare: Debezium's schema makes a message five times as long.
- `auto` and the dialect's name are both towpath: the ratio is what it costs to find each message's dialect. In the
  mixed corpus they take turns, Debezium with and without its schema; its peer is a decoder for each, with its messages.
- Flink 1.20 takes a column for null in a before image when another row of the message names it in its `old`, and for
  unchanged when it was null: such cells are wrong there, and not compared.
- Rust, Python and JVM figures are CPU time of one decoding thread; the JVM's is of the process, with the serial
  collector, after warm-up. Spark's `cpu` is of the JVM and all its Python workers. `wall` and the two threads suffer
  when the machine has other work.
- The Rust bench decodes one batch of 10,000 messages (1,250 packets) again and again. Python and the JVM go through the
  whole corpus, Python in batches of 10,000.
- Instructions are callgrind's: those of three runs over 2,000 messages less those of one, so that start-up is out.
"""


def load():
    """The last figures of every part."""
    return {name: json.loads(path.read_text()) for name in PARTS if (path := FIGURES / f"{name}.json").exists()}


def save(name, content):
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / f"{name}.json").write_text(json.dumps(content, indent=1))


def measure(name, arguments):
    content = {"date": f"{datetime.datetime.now():%Y-%m-%d %H:%M}", "count": arguments.count}
    try:
        content["figures"] = PARTS[name](arguments)
    except Missing as missing:
        content |= {"figures": {}, "missing": str(missing)}
    save(name, content)


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(samples):
    return f"{number(statistics.median(samples))} ({number(min(samples))}-{number(max(samples))})"


def ratio(row, figures):
    ours = statistics.median(figures[row.ours])
    if row.theirs is None:
        return ours
    theirs = statistics.median(figures[row.theirs])
    seconds = row.ours.startswith(("spark", "lines"))
    return theirs / ours if seconds and not row.cost else ours / theirs


def verdict(row, value):
    def reached(target):
        return value <= target if row.cost else value >= target

    if row.goal is not None and reached(row.goal):
        return "goal"
    if row.first is not None:
        return "first" if reached(row.first) else "**not yet**"
    return "not yet" if row.goal is not None else ""


def table_line(row, figures):
    if any(name not in figures for name in filter(None, (row.ours, row.theirs))):
        return f"| {row.title} | | | not measured | {row.first or ''} | {row.goal or ''} | |"
    value = ratio(row, figures)
    unit = "" if row.ours.startswith(("spark", "lines", "instructions")) else " MB/s"
    theirs = spread(figures[row.theirs]) + unit if row.theirs else ""
    shown = number(value) if row.theirs else ""
    targets = f"{row.first or ''} | {row.goal or ''}"
    return (
        f"| {row.title} | {spread(figures[row.ours])}{unit} | {theirs} | {shown} | {targets} | {verdict(row, value)} |"
    )


def table(figures, rows=ROWS):
    head = ["| what | towpath | peer | ratio | first | goal | reached |", "|---|---|---|---|---|---|---|"]
    return "\n".join(head + [table_line(row, figures) for row in rows])


def other_figures(figures):
    named = {name for row in ROWS for name in (row.ours, row.theirs)}
    lines = [f"| {name} | {spread(samples)} |" for name, samples in figures.items() if name not in named]
    return "\n".join(["| what | median (lowest-highest) |", "|---|---|", *lines])


def processor():
    models = (
        re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text()) if Path("/proc/cpuinfo").exists() else []
    )
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


def first_line(command):
    if shutil.which(command[0]) is None:
        return f"no {command[0]}"
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return (result.stdout or result.stderr).splitlines()[0]


def versions():
    packages = ["towpath", "pyarrow", "orjson", "polars", "duckdb", "fastavro", "pyspark"]
    python = [f"{name} {metadata.version(name)}" for name in packages if installed(name)]
    tools = [first_line(["rustc", "--version"]), first_line(["java", "-version"])]
    locked = re.findall(
        r'name = "(simd-json|serde_json|prost|apache-avro|criterion|arrow-array)"\nversion = "(.+)"', cargo_lock()
    )
    jvm = ["Flink 1.20.1", "fastjson2 2.0.31"]  # as peers/jvm/pom.xml says
    return ", ".join([f"Python {platform.python_version()}", *python, *tools, *map(" ".join, locked), *jvm])


def installed(name):
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False


def cargo_lock():
    return (ROOT / "Cargo.lock").read_text()


def dates(parts):
    return "\n".join(
        f"- {name}: {part['date']}, --count {part['count']}"
        + (f"; left out: {part['missing']}" if "missing" in part else "")
        for name, part in parts.items()
    )


def report(parts):
    figures = {name: samples for part in parts.values() for name, samples in part["figures"].items()}
    return f"""\
# Results

Written by `make bench`, which calls `python benches/run.py`; parts of it run alone with
`python benches/run.py rust python jvm instructions spark source`. Medians, lowest and highest in brackets. Of MB/s more is
better, of Spark's seconds and of instructions less. `first` and `goal` are the project's targets.

{table(figures)}

## Other figures

MB/s; Spark's in seconds over twice as many messages.

{other_figures(figures)}

## Notes

{NOTES}
## Machine and versions

{processor()}

{versions()}

{dates(parts)}
"""


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--count", type=int, default=COUNT, help="messages a corpus")
    parser.add_argument("--passes", type=int, default=3, help="how often each part starts anew")
    parser.add_argument("--rounds", type=int, default=3, help="rounds in each pass")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return arguments


def quick(arguments):
    arguments.count, arguments.passes, arguments.rounds = 5_000, 1, 1
    print(
        table(
            python_part(arguments), [row for row in ROWS if row.ours.startswith("python") and "jvm" not in row.theirs]
        )
    )


def main():
    arguments = parsed()
    assert corpus.fingerprint() == corpus.FINGERPRINT, "corpus.py and corpus/mod.rs differ"
    if arguments.quick:
        quick(arguments)
        return
    if not arguments.report:
        for name in arguments.parts or PARTS:
            measure(name, arguments)
    text = report(load())
    (BENCHES / "RESULTS.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
