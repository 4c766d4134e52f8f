"""What a micro-batch of `replicate` costs: seconds for some numbers of tables and changes, and the constants that explain them.

    make jars && .venv/bin/python benches/bench_batches.py                 measure, fit, and print both
    python benches/bench_batches.py --predict 1000 20000 --cores 2         what the committed constants say of a batch

A batch takes `fixed + table * tables + change * changes` seconds, of which the tables' and the changes' parts are spread over the
cores. The messages are files of a stream, one file for each batch, so that no broker is measured. The first batches create
the tables and warm up the JVM; they have a constant of their own, `new_table`, and are left out of the others.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

import results

HERE = Path(__file__).resolve().parent
CONSTANTS = HERE / "figures" / "batches.json"
POINTS = [(1, 1_000), (1, 50_000), (1, 100_000), (20, 400), (60, 1_200)]
"""Tables, and changes of a batch."""
WARM_UP, BATCHES = 2, 4
KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"


def predicted(constants, tables, changes, cores, new_tables=0):
    """The seconds of a batch."""
    of_tables = constants["table"] * tables + constants["change"] * changes + constants["new_table"] * new_tables
    return constants["fixed"] + of_tables * constants["cores"] / cores


def write_batches(spark, folder, tables, changes):
    """A file for each batch, in which the tables take turns."""
    import bench_lakehouse

    each = changes // tables
    count = WARM_UP + BATCHES
    sources = [list(bench_lakehouse.changes(f"t{at:04}", each * count, each, at)) for at in range(tables)]
    for batch in range(count):
        values = [source[at][1] for at in range(batch * each, (batch + 1) * each) for source in sources]
        first = batch * len(values)
        rows = [(None, value, "topic", at % 4, first + at, None) for at, value in enumerate(values)]
        frame = spark.createDataFrame(rows, KAFKA).coalesce(1)
        frame.write.mode("append").parquet(f"{folder}/messages")


def batch_seconds(spark, folder, tables, changes):
    """The seconds of the first batch, and of the others after the warm-up."""
    import towpath

    write_batches(spark, folder, tables, changes)
    messages = spark.readStream.schema(KAFKA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/messages")
    query = towpath.spark.replicate(
        messages,
        f"{folder}/lake/{{table}}",
        "canal-json",
        checkpoint=f"{folder}/checkpoint",
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    seconds = [one["durationMs"]["addBatch"] / 1000 for one in query.recentProgress if one["numInputRows"]]
    assert len(seconds) == WARM_UP + BATCHES
    return seconds[0], seconds[WARM_UP:]


def fitted(measured, cores):
    """The constants with the least relative error over all points."""
    import numpy as np

    rows = np.array([[1, tables, changes] for tables, changes, _, _ in measured], float)
    seconds = np.array([median(steady) for _, _, _, steady in measured])
    fixed, table, change = np.linalg.lstsq(rows / seconds[:, None], np.ones(len(seconds)), rcond=None)[0]
    constants = {"fixed": fixed, "table": table, "change": change, "cores": cores, "new_table": 0}
    tables, changes, first, _ = measured[-1]  # that with the most tables
    constants["new_table"] = (first - predicted(constants, tables, changes, cores)) / tables
    return {name: results.rounded(value) for name, value in constants.items()}


def table(measured, constants):
    lines = ["| tables | changes | measured, s | predicted, s |", "|---|---|---|---|"]
    for tables, changes, _, steady in measured:
        expected = predicted(constants, tables, changes, constants["cores"])
        spread = f"{median(steady):.2f} ({min(steady):.2f}-{max(steady):.2f})"
        lines.append(f"| {tables:,} | {changes:,} | {spread} | {expected:.2f} |")
    return "\n".join(lines)


def measure(spark, points, cores):
    measured = []
    for tables, changes in points:
        with tempfile.TemporaryDirectory(prefix="towpath-batches-") as folder:
            measured.append((tables, changes, *batch_seconds(spark, folder, tables, changes)))
            print(measured[-1], file=sys.stderr, flush=True)
    return measured


def measure_all():
    sys.path.insert(0, str(HERE.parent / "tests" / "support"))
    import bench_lakehouse
    import run
    from lake_session import lake_session

    cores = 2
    with tempfile.TemporaryDirectory() as folder:
        spark = lake_session(Path(folder) / "warehouse", bench_lakehouse.SETTINGS)
        measured = measure(spark, POINTS, cores)
        spark.stop()
    constants = fitted(measured, cores)
    points = [[tables, changes, results.rounded(median(steady))] for tables, changes, _, steady in measured]
    about = {"date": run.now(), "machine": results.processor(), "load": run.load_average()}
    CONSTANTS.write_text(json.dumps({**about, "constants": constants, "points": points}, indent=1) + "\n")
    print(table(measured, constants))
    print(json.dumps(constants))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--predict", nargs=2, type=int, metavar=("TABLES", "CHANGES"), help="print the seconds of a batch"
    )
    parser.add_argument("--cores", type=int, default=2, help="with --predict")
    parser.add_argument("--new-tables", type=int, default=0, help="with --predict: how many of them do not exist yet")
    arguments = parser.parse_args()
    if arguments.predict:
        constants = json.loads(CONSTANTS.read_text())["constants"]
        seconds = predicted(constants, *arguments.predict, arguments.cores, arguments.new_tables)
        print(f"{seconds:.1f} s: {arguments.predict[1] / seconds:,.0f} changes a second")
    else:
        measure_all()


if __name__ == "__main__":
    main()
