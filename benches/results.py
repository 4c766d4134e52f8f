"""The last figures of each part, which are committed in `figures/`, and RESULTS.md, which is written from them."""

import json
import os
import platform
import re
import shutil
import statistics
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from targets import ROWS

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "benches" / "figures"
NOTES = """\
- The peers do less. simd-json's tape and `IgnoredAny` decode nothing; derived and prost's structs and apache-avro's
  values keep text; the Python peers, `from_json` and orjson give the row of `data` only, fastavro the row of the after
  image. towpath, Flink and fastjson2 typed give both images whole. towpath's figures are of `op`, `before`, `after`,
  `event_time` (in Python and Spark `produced_time` too), with every rule of the contract in force.
- Every Python and Spark peer's output was compared with towpath's before it was timed, the JVM peers' sums with the
  corpus. In the Rust bench towpath, prost and apache-avro had to find every
  row of the corpus and its sums first, towpath with no error.
- All messages are of the same kind of rows, of 12 columns but for narrow. A message of canal-json and cloudcanal-json is
  a statement of 1.2 rows, a canal-protobuf packet about eight of them with the marks of their transactions, a message of
  TiCDC and of the other dialects one row, as their producers write it. MB/s are of the wire's bytes, so figures of two
  dialects do not compare: Debezium's schema makes a message five times as long.
- A message falls back when no template reads it, but the ordinary reader. In two shapes messages are made to: the
  members of their envelope have white space before their values, each time of another length.
- `auto` and the dialect's name are both towpath: the ratio is what it costs to find each message's dialect. In the
  mixed corpus they take turns, Debezium with and without its schema; its peer is a decoder for each, with its messages.
- Flink 1.20 takes a column for null in a before image when another row of the message names it in its `old`, and for
  unchanged when it was null: such cells are wrong there, and not compared.
- Rust, Python and JVM figures are CPU time of one decoding thread; the JVM's is of the process, with the serial
  collector, after warm-up. Python, JVM and Spark have the wheel of a release, built with a profile if LLVM's tools are
  there, as they were here (`make optimized`), Rust and instructions a build without one: with a profile of the same shapes `wide`, `update` and `narrow` reach 2.0, 1.7 and 2.1. Spark's `cpu` is of the JVM and all its Python workers. `wall` and the two threads suffer
  when the machine has other work.
- The Rust bench decodes one batch of 10,000 messages (1,250 packets) again and again. Python and the JVM go through the
  whole corpus, Python in batches of 10,000.
- Instructions and misses are callgrind's: three runs over 2,000 messages less one run, so that start-up is
  out. Its data cache is the same on every machine: 32 KiB in 8 ways, lines of 64 bytes; misses are of reads and writes.
- Memory is of one batch of 10,000 messages. Allocated is the sum of all that was asked for, used again or not; the peak is
  Linux's, of three decodes after each other, less what was resident before, which is the program and the batch.
- Kafka's part has a broker on the same machine (4 partitions, lz4), whose CPU time is not counted, and Spark 4.0, the others
  the newest Spark. Spark 4.0 spends about 0.2 s of CPU on each Python task before it begins, newer ones next to none: as
  much for identity as for towpath, and with four tasks most of what small topics cost.
- `replicate`'s peer is a recipe: from_json, a window for the newest change of each key, MERGE, four tables at a time. It
  orders by offset, and keeps neither deleted keys nor what it cannot decode. The tables of both were equal afterwards.
- Shapes of `replicate`: hot is
  200,000 changes of 50,000 keys in four batches, million a million of 200,000 (in four batches, and in 40); of 20 tables each has 20 changes in each of
  two batches, of 8, 100 and 500 tables ten. hot, hot by Spark, on Iceberg and million were measured in four rounds, 20M rows in two, every second round in the reverse
  order, on 2026-11-26; the other shapes on the day before on a faster machine, in two rounds, 100 and 500 tables in one.
- `replicate` and its recipe read 8 tables and 8 topics with
  `kafka.fetch.max.wait.ms` = `20`, as `docs/platforms/cluster.md` says for topics with many partitions.
  Kafka's default delays the answer for each partition by up to 500 ms: with it the 8 topics took 33.3 s (31.6-35.0), the recipe 39.3 s.
"""
LIMITS = """\
The rows above that are "not yet" at `must`, and what holds them back. The profile is callgrind's, of `wide` on both images.

| share of the instructions of a wide message | what they do |
|---|---|
| 22 % | numbers, decimals, dates and times to Arrow values, 12 columns in two images |
| 22 % | comparing names, separators and the envelope with the template, and dispatch to the column |
| 6 % | UTF-8: once for the message, once more for each text column, as Arrow's arrays cannot be made without `unsafe` otherwise |
| 10 % | finding the end of strings and copying them |
| 8 % | per message: finding the template, rows of the envelope, truncating what a failed template wrote |
| 4 % | `memcpy` and `memcmp` of the C library |
| 28 % | about 60 functions below 2 % each, Arrow's builder of long texts among them |

- **Rows against simd-json's tape** (wide, update, narrow, ticdc, tables, shuffled, maps, Debezium, Maxwell). towpath takes 0.55 times
  the instructions of the tape and needs 0.7 to 1.0 times its time: the tape is one loop that stays in the cache and in the branch
  predictor, towpath is many small steps, with about 70 mispredicted branches a message (simulated; a third are calls through tables, which
  processors predict better than callgrind does), 35 misses of the
  instruction cache and 75 of the data cache against 18.

  On the same machine, in minutes when its neighbours were quiet, `wide`
  reached 1.49 and `narrow` 1.64; under load both sides slow down, but the tape less. A reader of values without calls, one loop for a
  row's columns and other code layouts were tried: 1 to 2 % each. What is left is one typed routine for each template in place of a
  call for each cell, and text columns that are checked once.
- **Maxwell, Debezium without schema**: messages of 450 to 700 bytes with one row, so what is done once for each message weighs two to
  three times as much as in `wide`; JSON numbers need one more look at what follows them than text does.
- **Every message falls back**: the peer is measured over the same bytes, which have much white space. Making and trying templates costs 9 % of it (14.7k instructions a message, 13.5k without);
  the ordinary reader predicts its keys without white space and looks each of them up here.
- **All default columns**: 15 more columns for each row, of which `source` alone has 14 fields.
- **canal-protobuf, dts-avro**: names and types of each column are compared for each value, as the messages repeat them.
- **Flink, fastjson2, orjson**: of a wheel that was built without a profile the ratios were 5.6 to 6.2, 3.2 and 10.8.
- **Identity in Spark**: the decoder takes about 0.3 s of 400k messages (0.44 GB), and the two images weigh more than the message on
  their way back to the JVM. The ratios were 1.21 and 1.38 of a wheel that was built without a profile.
- **replicate, before 2026-11-30**: the JVM had the options of the tests, without the compiler C2, which no user has. On another machine the
  hot table took the recipe 26.8 s of CPU time, and towpath 10.1 s: the ratio was 0.38. C2 makes Spark's own row loops faster, and they are most of the recipe.
- **replicate, 20M rows**, which Spark's MERGE writes. The first batch of a process takes 1.5 to 1.8 times the recipe's wall time: it reads what the target stores at most,
  and looks up the changes of the latest second. The second and the third batch take 0.9 to 1.0 times.
- **replicate, 20M rows, before 2026-11-27**: an OPTIMIZE of the whole table now and then took 115 s in the last batch. Since then OPTIMIZE merges
  files below 16 MiB only.
- **replicate, 20M rows, order values**: the MERGE reads the order value of each row in the files
  that it changes, 13 columns that the recipe has not, but shuffles 0.02 of the recipe's bytes, as a Bloom filter of the changed keys takes out the rows without
  a change.
- **replicate, hot, by Spark and on Iceberg**: the last batch has 8 messages and takes 1.4 to 3.7 s (the recipe's 0.7 to 1.1): its jobs, not its rows, are what it costs.
- **replicate, million**: the first batch, which creates the target, takes 1.1 to 1.5 times the recipe's wall time, the others 0.8 to 1.1 times: one task merges the table, on one
  of two cores. Before, the first batch was read twice, and took 2.0 to 2.5 times.
- **replicate, 8 topics of 64 partitions**: the first batch takes 2.1 s in place of 0.75, the second 0.9 in place of 0.6. Spark makes a consumer for each of the 512 partitions.
- **Kafka, other numbers of partitions**: 200,000 messages in one partition with lz4 take 1.0 s of CPU on the workers, 2.4 s with the tuned
  `from_json` (2.3 times less; 1.8 times less wall time). In 16 partitions with zstd they take 3.3 s and 5.8 s (1.75 times less),
  and 2.1 s of wall time in place of 7.2 (3.5 times), as Spark's source waits for each partition.
- **Kafka, before the garbage collection after each task excluded modules**: in 16 partitions 1.4 times less, and in 64 partitions 1.1 times (4.5 s and 5.0 s; wall 3.5 s and 19 s): 26 to 30 ms of Python for
  each task, 6 ms now. On Spark 4.0 with Python 3.11 the first task of each worker costs 0.15 s more.
- **Scaling**: the first messages of each call are read by both readers, as their template is made; the largest messages
  are few, so that this shows in their instructions.
"""
ROUNDS = """\
A ratio is the median of the ratios of single rounds, and in a round every way runs once, so that a slow moment of the machine
hits all of them. It need not be the quotient of the two figures beside it, which are medians of their own.

- Rust: in one process each way reads the batch once in each round, every second round in the reverse order; several
  processes, as some are slower than others throughout.
- Python: a round is a process that runs each bench once. For the JVM's peers, a process of each and one of towpath.
- Spark, its data source and Kafka: each way once in each round, in one session.

A part begins when the machine's load average is below {limit}. Its figures are marked `busy` when it was run without waiting. What
is counted (instructions, misses, messages that fall back, memory) does not depend on that.
"""
SCALING = """\
Synthetic canal-json of which one size grows. An exponent is the slope of a straight line through the logarithms of what a
message costs and of its bytes: 1 means that a byte costs the same in small messages and in large ones. Below 1 it is
the fixed cost of a message that large ones share.

One line through all sizes hides what grows faster only at the end, where
the fixed cost at the beginning makes up for it: so the three largest sizes have an exponent of their own, and that is the
one that says how it goes on. Messages of few tables and of many have the same bytes, so there it is the slope over
the number of tables, and 0 means that their number does not matter.
"""


@dataclass(frozen=True)
class Figure:
    """What a part measured under one name, over its rounds. `low` and `high` are the median if there was one round."""

    median: float
    low: float
    high: float
    busy: bool

    def text(self, unit=""):
        spread = "" if self.low == self.high else f" ({number(self.low)}-{number(self.high)})"
        return f"{number(self.median)}{spread} {unit}".strip()


def load(names):
    """The last figures of the parts, by the parts' names."""
    return {name: json.loads(path(name).read_text()) for name in names if path(name).exists()}


def save(name, content):
    FIGURES.mkdir(exist_ok=True)
    path(name).write_text(json.dumps(content, indent=1) + "\n")


def path(name):
    return FIGURES / f"{name}.json"


def summarised(samples):
    """What is kept of a part's samples, which are a list for each name with one sample for each round."""
    return {
        "figures": {name: summary(each) for name, each in samples.items()},
        "ratios": {
            ratio_name(row): rounded(ratio(row, samples))
            for row in ROWS
            if row.theirs and row.ours in samples and row.theirs in samples
        },
    }


def summary(samples):
    return [rounded(statistic(samples)) for statistic in (statistics.median, min, max)]


def rounded(value):
    """Four digits are more than two runs agree on."""
    return float(f"{value:.4g}")


def ratio_name(row):
    return f"{row.ours} : {row.theirs}"


def ratio(row, samples):
    """The median of the rounds' ratios."""
    rounds = zip(samples[row.ours], samples[row.theirs], strict=True)
    less_is_better = row.unit == "s"
    return statistics.median(b / a if less_is_better and not row.cost else a / b for a, b in rounds)


def figures_of(parts):
    return {
        name: Figure(*numbers, part.get("busy", False))
        for part in parts.values()
        for name, numbers in part["figures"].items()
    }


def ratios_of(parts):
    return {name: value for part in parts.values() for name, value in part["ratios"].items()}


# The table.


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def verdict(row, value):
    def reached(target):
        return value <= target if row.cost else value >= target

    if row.goal is not None and reached(row.goal):
        return "goal"
    if row.must is not None and reached(row.must):
        return "must"
    return "" if row.must is None and row.goal is None else "not yet"


def shown(target):
    return "" if target is None else f"{target:,}"


def table_line(row, figures, ratios):
    targets = f"{shown(row.must)} | {shown(row.goal)}"
    names = [name for name in (row.ours, row.theirs) if name]
    if any(name not in figures for name in names):
        return f"| {row.title} | | | not measured | {targets} | |"
    ours = figures[row.ours]
    value = ratios[ratio_name(row)] if row.theirs else ours.median
    theirs = figures[row.theirs].text(row.unit) if row.theirs else ""
    busy = any(figures[name].busy for name in names)
    cells = [row.title, ours.text(row.unit), theirs, number(value) if row.theirs else ""]
    return f"| {' | '.join(cells)} | {targets} | {'busy' if busy else verdict(row, value)} |"


def table(parts, rows=ROWS):
    figures, ratios = figures_of(parts), ratios_of(parts)
    head = ["| what | towpath | peer | ratio | must | goal | reached |", "|---|---|---|---|---|---|---|"]
    return "\n".join(head + [table_line(row, figures, ratios) for row in rows])


# The machine.


def processor():
    about = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.+)", about.read_text()) if about.exists() else []
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
    crates = "simd-json|serde_json|prost|apache-avro|criterion|arrow-array"
    locked = re.findall(rf'name = "({crates})"\nversion = "(.+)"', (ROOT / "Cargo.lock").read_text())
    jvm = ["Flink 1.20.1", "fastjson2 2.0.31"]  # as peers/jvm/pom.xml says
    kafka = [f"for Kafka and Delta pyspark {kafka_spark()}"]
    return ", ".join([f"Python {platform.python_version()}", *python, *tools, *map(" ".join, locked), *jvm, *kafka])


def kafka_spark():
    pins = (ROOT / "requirements" / "bench-kafka.txt").read_text()
    return re.search(r"^pyspark==(\S+)", pins, re.MULTILINE).group(1)


def installed(name):
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False


def dates(parts):
    return "\n".join(map(date, parts, parts.values()))


def date(name, part):
    text = f"- {name}: {part['date']}, {part['machine']}"
    if part["count"]:
        text += f", --count {part['count']}"
    if "load" in part:
        text += ", load average {:.1f} before and {:.1f} after".format(*part["load"])
    if part.get("busy"):
        text += ": **busy**"
    return f"{text}; {part['note']}" if "note" in part else text


def all_versions(parts):
    """Each list of versions once, with the parts that ran with it."""
    names = {}
    for name, part in parts.items():
        names.setdefault(part["versions"], []).append(name)
    return "\n\n".join(f"{', '.join(parts)}: {versions}" for versions, parts in names.items())


def report(parts, limit):
    return f"""\
# Results

Written by `make bench`, which calls `python benches/run.py`; parts of it run alone, as `python benches/run.py rust spark`.
Medians, lowest and highest in brackets. Of MB/s more is better, of seconds and of everything that is counted less. `must`
and `goal` are the project's targets.

{table(parts)}

## Limits

{LIMITS}
## How the ratios are made

{ROUNDS.format(limit=limit)}
## Scaling

{SCALING}
## Notes

{NOTES}
## Machine and versions

{dates(parts)}

{all_versions(parts)}
"""
