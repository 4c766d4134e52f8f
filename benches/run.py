"""Runs the benches and writes benches/RESULTS.md: `make bench`, or

    python benches/run.py                     everything: about an hour on two cores
    python benches/run.py python spark        only these parts; the table keeps the others' last figures
    python benches/run.py --quick             a smoke test on a small corpus, without Rust, JVM and Spark
    python benches/run.py --report            only the table, from the last figures

The last figures of each part are in `figures/`, with their date and machine. Nothing here fails for being slow. A part waits
until the machine is idle, and keeps its last figures if it does not become so, or if its tools are missing; with --busy it does
not wait, and its figures are marked. Parts that only count do neither.
"""

import argparse
import datetime
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import corpus
import results
from targets import PYTHON, TITLES

BENCHES = Path(__file__).resolve().parent
ROOT = BENCHES.parent
JVM = BENCHES / "peers" / "jvm"
AXES = ("columns", "rows", "tables", "value")
"""The axes of the part `scaling`."""
COUNT = 200_000
BATCH = 10_000  # messages
CARGO_BENCH = ["cargo", "bench", "--locked"]
KAFKA_PYTHON = ROOT / ".venv-bench-kafka" / "bin" / "python"
LIMIT = 1.5  # load average: one busy core is the bench before this one, more is somebody else
# Of every machine alike, so that counts compare: an L1 of 32 KiB, and enough behind it.
CACHES = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=33554432,16,64"]
LARGE = 3  # sizes at the large end of an axis, which have an exponent of their own
TOWPATH, SIMD_JSON = "towpath typed", "simd-json tape"


class Missing(Exception):
    """A tool that a part needs is not here."""


def run(command, **options):
    print("+", *(str(word) for word in command), file=sys.stderr, flush=True)
    return subprocess.run([str(word) for word in command], cwd=ROOT, check=True, text=True, **options)


def printed(command):
    """The JSON that a command prints."""
    return json.loads(run(command, stdout=subprocess.PIPE).stdout)


def need(*tools):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise Missing(f"{', '.join(missing)} not found")


def executable(bench):
    """A Rust bench, built."""
    command = [*CARGO_BENCH, "--bench", bench, "--no-run", "--message-format=json"]
    built = map(json.loads, run(command, stdout=subprocess.PIPE).stdout.splitlines())
    return next(message["executable"] for message in built if message.get("target", {}).get("name") == bench)


# The parts. Each gives {name: [figure of each round]}, MB/s unless the name says otherwise.


def rust_part(arguments):
    """Rounds in which the ways take turns; in several processes, since some are slower than others throughout."""
    need("cargo")
    decode = executable("decode")
    figures = {}
    for _ in range(arguments.passes):
        for shape in [*TITLES, "mixed"]:
            measured = printed([decode, "rounds", shape, arguments.rounds])
            for way, nanos in measured["nanos"].items():
                speeds = [measured["bytes"] * 1e3 / each for each in nanos]
                figures.setdefault(f"rust {shape}/{way}", []).extend(speeds)
    return figures


def fallback_part(arguments):
    """Per cent of the messages that no template read."""
    need("cargo")
    decode, figures = executable("decode"), {}
    for shape in TITLES:
        counted = printed([decode, "share", shape])
        for way, templated in counted["templated"].items():
            figures[f"fallback {shape}/{way}"] = [100 * (1 - templated / counted["messages"])]
    return figures


def instructions_part(arguments):
    """Instructions and first-level data misses a message, as callgrind counts them."""
    need("cargo", "valgrind")
    decode = executable("decode")
    pairs = [(shape, way) for shape in ("wide", "update", "ticdc") for way in (TOWPATH, SIMD_JSON)]
    figures = {}
    for shape, way in [*pairs, ("tables", TOWPATH)]:
        size, events = counted(decode, shape, way, CACHES)
        figures[f"instructions {shape}/{way}"] = [events["Ir"] / size["messages"]]
        figures[f"L1 data misses {shape}/{way}"] = [(events["D1mr"] + events["D1mw"]) / size["messages"]]
    return figures


def counted(decode, shape, way, caches=()):
    """The size of the shape's fixed batch, and the events of reading it once: half of what three times cost more than one, so
    that start-up is out.
    """
    size, one = simulated(decode, shape, way, 1, caches)
    _, three = simulated(decode, shape, way, 3, caches)
    return size, {name: (three[name] - one[name]) / 2 for name in one}


def simulated(decode, shape, way, times, caches):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *caches]
    ran = run([*command, decode, "fixed", shape, way, times], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    names = re.search(r"Events\s*: (.+)", ran.stderr).group(1).split()
    counts = re.search(r"Collected : (.+)", ran.stderr).group(1).split()
    return json.loads(ran.stdout), dict(zip(names, map(int, counts), strict=True))


def memory_part(arguments):
    """What a decode of one batch allocates, and what the process grows by."""
    need("cargo")
    count = min(arguments.count, BATCH)
    corpus.written("wide", count)
    memory, figures = executable("memory"), {}
    for way in (TOWPATH, "towpath default fields", "towpath maps"):
        measured = printed([memory, corpus.path("wide", count, "bin"), count, way])
        size = measured["bytes"]
        figures |= {
            f"memory allocated {way}": [measured["allocated"] / size],
            f"memory peak {way}": [(measured["peak"] - measured["resident"]) / size],
            f"memory allocations a message {way}": [measured["allocations"] / measured["messages"]],
            f"memory input MiB {way}": [size / 2**20],
            f"memory output MiB {way}": [measured["output"] / 2**20],
            f"memory peak of the process MiB {way}": [measured["peak"] / 2**20],
        }
    return figures


def scaling_part(arguments):
    """CPU time and instructions an input byte as one size grows, and how fast they grow."""
    need("cargo")
    decode = executable("decode")
    axes = {axis: printed([decode, "scaling", axis, arguments.rounds]) for axis in AXES}
    if shutil.which("valgrind"):
        for axis, points in axes.items():
            count_instructions(decode, axis, points)
    figures = {}
    for axis, points in axes.items():
        figures |= scaling_figures(axis, points)
    return figures


def count_instructions(decode, axis, points):
    for point in points:
        size, events = counted(decode, f"{axis}-{point['size']}", TOWPATH)
        point["instructions"] = events["Ir"] / size["bytes"]


def scaling_figures(axis, points):
    def exponents(way, last=0):
        rounds = zip(*(point["nanos"][way] for point in points), strict=True)
        return [exponent(axis, points[-last:], nanos[-last:]) for nanos in rounds]

    figures = {}
    for way, of in ((TOWPATH, ""), (SIMD_JSON, ", simd-json tape")):
        figures[f"exponent of CPU time over {axis}{of}"] = exponents(way)
        figures[f"large exponent of CPU time over {axis}{of}"] = exponents(way, LARGE)
    for point in points:
        each = [nanos / point["bytes"] for nanos in point["nanos"][TOWPATH]]
        figures[f"scaling ns {axis}={point['size']:,}"] = each
    if all("instructions" in point for point in points):
        costs = [point["instructions"] * point["bytes"] for point in points]
        figures[f"exponent of instructions over {axis}"] = [exponent(axis, points, costs)]
        figures[f"large exponent of instructions over {axis}"] = [exponent(axis, points[-LARGE:], costs[-LARGE:])]
        figures |= {f"scaling instructions {axis}={p['size']:,}": [p["instructions"]] for p in points}
    return figures


def exponent(axis, points, costs):
    """How a message's cost grows with its bytes; with the number of tables, where messages stay as they are."""
    each = [cost / point["messages"] for cost, point in zip(costs, points, strict=True)]
    sizes = [point["size"] if axis == "tables" else point["bytes"] / point["messages"] for point in points]
    return statistics.linear_regression([*map(math.log, sizes)], [*map(math.log, each)]).slope


def python_part(arguments):
    """The pytest-benchmark file, one round of every bench in each pass."""
    for shape in corpus.SHAPES:
        corpus.ensure(shape, arguments.count)
    figures = {}
    for _ in range(arguments.passes):
        for name, figure in pytest_figures(arguments):
            figures.setdefault(f"python {name}", []).append(figure)
    return figures


def pytest_figures(arguments, bench=""):
    report = corpus.CACHE / "pytest-benchmark.json"
    environment = {"TOWPATH_BENCH_COUNT": str(arguments.count), "TOWPATH_BENCH_ROUNDS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", f"benches/bench_decode.py{bench}", "--benchmark-json", report]
    command += ["--benchmark-storage", corpus.CACHE, "-p", "no:cacheprovider"]
    # The project's own settings turn warnings into errors, which is not for the peers' libraries.
    run([*command, "--override-ini=filterwarnings="], env=os.environ | environment, stdout=sys.stderr)
    for bench in json.loads(report.read_text())["benchmarks"]:
        size = bench["extra_info"]["bytes"]
        yield bench["name"].removeprefix("test_"), size / 1e6 / bench["stats"]["median"]


def jvm_part(arguments):
    """Flink and fastjson2 over the same messages, and towpath in turn with them. All have to have read the same rows."""
    need("java", "javac", "mvn")
    run(["mvn", "--batch-mode", "--quiet", "--file", JVM, "compile", "dependency:copy-dependencies"])
    corpus.ensure("wide", arguments.count)
    messages = corpus.path("wide", arguments.count, "bin")
    figures = {}
    for _ in range(arguments.passes):
        for peer in ("flink", "fastjson2", "fastjson2-typed"):
            figures.setdefault(f"jvm {peer}", []).append(jvm_figure(peer, messages))
        [(_, figure)] = pytest_figures(arguments, "::test_towpath")
        figures.setdefault("jvm towpath", []).append(figure)
    return figures


def jvm_figure(peer, messages):
    classes = os.pathsep.join([str(JVM / "target" / "classes"), str(JVM / "target" / "dependency" / "*")])
    command = ["java", "-XX:+UseSerialGC", "-Xms3g", "-Xmx3g", "-cp", classes, "JvmPeers", peer, messages, 1]
    result = printed(command)
    if peer != "fastjson2":  # which converts nothing that could be compared
        assert [result[name] for name in ("images", "ids", "cents")] == wide_sums(messages), f"{peer} read other rows"
    return result["mb_s"][0]


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
    return spark_figures(sys.executable, "bench_spark.py", "spark", arguments)


def source_part(arguments):
    """The data source over a file of lines, and other ways over the same bytes."""
    return spark_figures(sys.executable, "bench_source.py", "lines", arguments)


def kafka_part(arguments):
    """A topic of a broker on this machine, with a Spark that has a Kafka source."""
    need_kafka()
    return spark_figures(KAFKA_PYTHON, "bench_kafka.py", "kafka", arguments)


def lakehouse_part(part, arguments):
    """`replicate` and what people write by hand, from Kafka to Delta: the shapes of a part."""
    report = corpus.CACHE / f"{part}.json"
    need_kafka()
    corpus.CACHE.mkdir(exist_ok=True)
    run([KAFKA_PYTHON, BENCHES / "bench_lakehouse.py", "--part", part, "--json", report], stdout=sys.stderr)
    return {
        f"lakehouse {shape} {what} {way}": figures[what]
        for shape, ways in json.loads(report.read_text()).items()
        for way, figures in ways.items()
        for what in ("wall", "cpu")
    }


def need_kafka():
    for needed, made in ((KAFKA_PYTHON, "make bench"), (ROOT / "target/jars/kafka/fetched", "make jars")):
        if not needed.exists():
            raise Missing(f"{needed.relative_to(ROOT)}, which `{made}` makes")


def spark_figures(python, program, prefix, arguments):
    """What a program that measures ways in Spark wrote about each."""
    need("java")
    corpus.CACHE.mkdir(exist_ok=True)
    report = corpus.CACHE / f"{prefix}.json"
    size = ["--count", 2 * arguments.count, "--rounds", arguments.spark_rounds]
    run([python, BENCHES / program, *size, "--json", report], stdout=sys.stderr)
    ways = json.loads(report.read_text())["ways"]
    measures = ("wall", "cpu", "jvm", "workers")
    return {f"{prefix} {what} {way}": [r[what] for r in rounds] for way, rounds in ways.items() for what in measures}


PARTS = {
    "rust": rust_part,
    "python": python_part,
    "jvm": jvm_part,
    "instructions": instructions_part,
    "fallback": fallback_part,
    "memory": memory_part,
    "scaling": scaling_part,
    "spark": spark_part,
    "source": source_part,
    "kafka": kafka_part,
    **{name: partial(lakehouse_part, name) for name in ("lakehouse", "large-tables", "many-tables")},
}
# What other work on the machine does not change.
COUNTED = {"instructions", "fallback", "memory"}


# Running them.


def load_average():
    return os.getloadavg()[0]


def is_idle(patience):
    """Waits for that, as the part before this one is still in the average."""
    deadline = time.monotonic() + patience
    while load_average() > LIMIT and time.monotonic() < deadline:
        time.sleep(5)
    return load_average() <= LIMIT


def measure(name, arguments):
    """Measure a part and keep its figures. Those of before stay, with a note, if it cannot run here and now."""
    if not arguments.busy and name not in COUNTED and not is_idle(arguments.patience):
        keep_last(name, f"the machine is busy: load average {load_average():.1f}")
        return
    before = load_average()
    try:
        samples = PARTS[name](arguments)
    except Missing as missing:
        keep_last(name, str(missing))
        return
    about = {"date": now(), "machine": results.processor(), "versions": results.versions(), "count": arguments.count}
    about |= {"busy": before > LIMIT and name not in COUNTED, "load": [before, load_average()]}
    results.save(name, about | results.summarised(samples))


def keep_last(name, why):
    print(f"{name}: not measured: {why}", file=sys.stderr)
    if last := results.load([name]):
        results.save(name, last[name] | {"note": f"not measured again on {now()}: {why}"})


def now():
    return f"{datetime.datetime.now():%Y-%m-%d %H:%M}"


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--count", type=int, default=COUNT, help="messages a corpus; Spark reads twice as many")
    parser.add_argument("--passes", type=int, default=5, help="processes of Rust; rounds of Python and the JVM")
    parser.add_argument("--rounds", type=int, default=20, help="rounds in each process of Rust")
    parser.add_argument("--spark-rounds", type=int, default=5, help="rounds in Spark")
    parser.add_argument("--busy", action="store_true", help="measure on a busy machine; the figures are marked")
    parser.add_argument("--patience", type=float, default=300, help="seconds to wait for an idle machine")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return arguments


def quick(arguments):
    arguments.count, arguments.passes = 5_000, 1
    part = {"busy": load_average() > LIMIT} | results.summarised(python_part(arguments))
    print(results.table({"python": part}, PYTHON))


def main():
    arguments = parsed()
    if arguments.quick:
        quick(arguments)
        return
    if not arguments.report:
        for name in arguments.parts or PARTS:
            measure(name, arguments)
    text = results.report(results.load(PARTS), LIMIT)
    (BENCHES / "RESULTS.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
