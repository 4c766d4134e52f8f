"""Sample messages of eight dialects become typed Spark rows. Run by `make demo`."""

from __future__ import annotations

import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tqdm import tqdm

import towpath
from towpath.report import FIELDS

if TYPE_CHECKING:
    from pyspark.sql import Column

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
OUTPUT = ROOT / "demo-output" / "order_line.parquet"
REPORT = ROOT / "demo-output" / "report.html"

CANAL = "canal-json: Alibaba canal, MySQL"

Result = TypeVar("Result")

# The topics of the demo, and the captures with their messages.
TOPICS = {
    CANAL: "canal-json/canal-mysql/mixed.flat.jsonl.zst",
    "canal-json: Alibaba canal, MariaDB": "canal-json/canal-maria/mixed.flat.jsonl.zst",
    "canal-json: TiCDC": "canal-json/ticdc/canal_json_stream_ext.jsonl.zst",
    "canal-json: CloudCanal": "canal-json/cloudcanal/small.jsonl",
    "canal-json: Tencent": "canal-json/tencent/small.jsonl",
    "canal-protobuf: Alibaba canal, MySQL": "canal-protobuf/canal-mysql/mixed.pb.bin.zst",
    "cloudcanal-json: CloudCanal": "cloudcanal-json/small_isDdl.jsonl",
    "debezium-json: Debezium, MySQL": "debezium-json/mysql-default/mixed.kv_schemas.jsonl.zst",
    "debezium-json: CloudCanal": "debezium-json/cloudcanal/small_op_i.jsonl.zst",
    "dts-avro: Aliyun DTS": "dts-avro/dts_v2_born.lenrec.zst",
    "river-json: KafkaRiverCanal": "river-json/small_null_v_omitted.jsonl",
    "maxwell-json: Maxwell, MariaDB": "maxwell-json/maxwell-maria/maxwell.jsonl.zst",
    "ticdc-open: TiCDC": "ticdc-open/open_protocol.kvrec.zst",
}

ORDER_LINE = "order_id int, line_no smallint, sku string, qty int, price decimal(12,2)"


def main() -> None:
    """Start Spark, decode, show, store, report."""
    started = time.monotonic()
    # The bar counts steps; without a terminal it shows nothing.
    with tqdm(
        total=8, bar_format="  {bar:20} {n_fmt}/{total_fmt}  {desc}", leave=False, disable=None, file=sys.stdout
    ) as bar:
        spark = step(bar, "starting a local Spark", local_spark)
        kafka = step(bar, "reading the captures", lambda: topics(spark))
        step(bar, "decoding eight dialects", lambda: show_dialects(kafka))
        step(bar, "decoding one table", lambda: show_changes(kafka))
        step(bar, "decoding statements", lambda: show_ddl_and_watermarks(kafka))
        step(bar, "decoding damaged messages", lambda: show_bad_messages(spark))
        step(bar, "writing Parquet", lambda: store(kafka))
        step(bar, "writing a report", lambda: report(kafka))
    print(f"\nAll of this took {time.monotonic() - started:.0f} s.")
    print("From a topic to Delta tables: towpath replicate examples/job.yml (docs/lakehouse/job.md)")
    spark.stop()


def step(bar: Any, what: str, run: Callable[[], Result]) -> Result:
    """Run one step, with its name in the progress bar."""
    bar.set_description_str(what)
    result = run()
    bar.update()
    return result


def topics(spark: SparkSession) -> DataFrame:
    """All captures as a DataFrame like that of Spark's Kafka source."""
    rows = [(topic, *message) for topic, path in TOPICS.items() for message in messages(path)]
    return spark.createDataFrame(rows, "topic string, key binary, value binary").cache()


def local_spark() -> SparkSession:
    """Two cores, no web UI, and workers that run this Python, which has towpath."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return (
        SparkSession.builder.master("local[2]")
        .appName("towpath demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def messages(path: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values of a capture; its extension says the framing."""
    with pa.input_stream(str(GOLDEN / path), compression="zstd" if path.endswith(".zst") else None) as file:
        content: bytes = file.read()
    if ".kvrec" in path:
        parts = records(content)
        return zip(parts, parts, strict=True)
    if ".lenrec" in path or ".bin" in path:
        return ((None, record) for record in records(content))
    if ".kv" in path:
        return map(key_and_value, content.splitlines())
    return ((None, line) for line in content.splitlines())


def records(content: bytes) -> Iterator[bytes]:
    """The length-prefixed parts."""
    at = 0
    while at < len(content):
        start = at + 4
        at = start + int.from_bytes(content[at:start], "big")
        yield content[start:at]


def key_and_value(line: bytes) -> tuple[bytes | None, bytes | None]:
    """Of `{"topic":..,"key":..,"value":..}`, unparsed; a null is a tombstone."""
    key, value = line[:-1].split(b',"key":', 1)[1].split(b',"value":', 1)
    return (None if key == b"null" else key), (None if value == b"null" else value)


def show_dialects(kafka: DataFrame) -> None:
    """One line for each topic: its row changes, transactions, statements and others."""
    decoded = towpath.spark.decode(kafka, fields=["op", "error"], keep=["topic"], key="key")

    def count(condition: Column) -> Column:
        return f.count_if(condition)

    row_changes = ("insert", "update", "delete")
    counts = decoded.groupBy("topic").agg(
        *(count(f.col("op") == op).alias(op) for op in row_changes),
        count(f.col("op").isin("begin", "commit")).alias("transactions"),
        count(f.col("op").isin("ddl", "query", "truncate")).alias("statements"),
        count(f.col("op").isin("watermark", "heartbeat", "tombstone")).alias("signs of life"),
        count(f.col("op").isin("rollback", "gtid", "other", "snapshot")).alias("others"),
        count(f.col("error").isNotNull()).alias("errors"),
    )
    order = {topic: place for place, topic in enumerate(TOPICS)}
    table(
        "Eight dialects, from one DataFrame",
        'Read by one call without options: the dialect is "auto", which looks at each message by itself.',
        ["dialect: producer", *counts.columns[1:]],
        sorted(map(tuple, counts.collect()), key=lambda row: order[row[0]]),
    )


def show_changes(kafka: DataFrame) -> None:
    """One table of a real MySQL server, typed."""
    decoded = order_lines(kafka).filter(f.col("topic") == CANAL)
    by_op = {op: [row for row in decoded.collect() if row.op == op] for op in ("insert", "update", "delete")}
    some = [*by_op["insert"][:2], *by_op["update"][:4], *by_op["delete"][:2]]
    rows = [(row.op, ", ".join(row.changed or []), image(row.before), image(row.after)) for row in some]
    columns = ["op", "changed", "before", "after"]
    table(
        "Changes of the table shop_a.order_line, typed",
        "Asked with the schema " + ORDER_LINE + ".\n"
        "A message has only the changed columns' old values; `before` is the whole row all the same.",
        columns,
        rows,
    )
    say("\n  The types Spark sees in `after`:  " + decoded.schema["after"].dataType.simpleString())


def order_lines(kafka: DataFrame) -> DataFrame:
    """Typed changes of one table, from every producer that has it."""
    decoded = towpath.spark.decode(
        kafka,
        "auto",
        ORDER_LINE,
        table="order_line",
        fields=["op", "database", "table", "primary_key", "before", "after", "changed", "event_time"],
        keep=["topic"],
        key="key",
    )
    return decoded.filter(f.col("op").isin("insert", "update", "delete"))


def image(row: Any) -> str:
    """A row image in one line."""
    return "" if row is None else "  ".join("NULL" if cell is None else str(cell) for cell in row)


def show_ddl_and_watermarks(kafka: DataFrame) -> None:
    """Events that are no row changes: statements, and TiCDC's watermarks."""
    decoded = towpath.spark.decode(
        kafka, fields=["op", "database", "table", "sql", "event_time", "source"], keep=["topic"], key="key"
    )
    one_of_each = decoded.filter(f.col("op").isin("ddl", "query", "truncate", "watermark")).dropDuplicates(
        ["topic", "op"]
    )
    watermark = f.concat(f.lit("watermark_ts "), "source.watermark_ts")
    statement = f.when(f.col("op") == "watermark", watermark).otherwise(f.col("sql"))
    shown = one_of_each.select("topic", "op", "database", "table", statement, "event_time").orderBy("topic", "op")
    rows = [row for row in shown.collect() if "MariaDB" not in row.topic]
    table(
        "DDL and watermarks",
        "Messages that change no row are rows of their own, so that nothing is lost.",
        ["dialect: producer", "op", "database", "table", "statement or timestamp", "event_time"],
        rows,
    )


def show_bad_messages(spark: SparkSession) -> None:
    """A few messages that are corrupted on purpose, and a valid one."""
    inserts = (value for _, value in messages(TOPICS[CANAL]) if value and b"INSERT" in value)
    good = next(message for message in inserts if b'"table":"order_line"' in message)
    damaged = {
        "undamaged": good,
        "a price with a comma": good.replace(b'"price":"', b'"price":"1,', 1),
        "a quantity out of range": good.replace(b'"qty":"', b'"qty":"99999999999', 1),
        "cut in the middle": good[: len(good) // 2],
        "a byte that is no UTF-8": good.replace(b'"sku":"', b'"sku":"\xff', 1),
        "no JSON at all": b"hello",
        "another JSON": b'{"hello": "world"}',
    }
    frame = spark.createDataFrame(list(damaged.items()), "what string, value binary").coalesce(1)
    decoded = towpath.spark.decode(
        frame, "canal-json", ORDER_LINE, fields=["op", "row", "after", "error"], keep=["what"]
    )
    # A valid message has no error; its first row is enough to show.
    shown = decoded.filter("error is not null or row = 0")
    rows = [(row.what, row.op, *why(row.error), image(row.after)) for row in shown.collect()]
    table(
        "Bad messages",
        'mode="PERMISSIVE" keeps them, says what is wrong and where, and leaves their neighbours alone.',
        ["message", "op", "kind", "byte", "error", "after"],
        rows,
    )


def why(error: Any) -> Sequence[Any]:
    """An error's kind, position and message."""
    return ("", "", "") if error is None else (error.kind, error.byte, error.message)


def store(kafka: DataFrame) -> None:
    """The typed rows as Parquet, and what was written."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    order_lines(kafka).coalesce(1).write.parquet(str(OUTPUT))
    rows = kafka.sparkSession.read.parquet(str(OUTPUT)).count()
    say(f"\n{rows} typed changes were written to {OUTPUT}")


def report(kafka: DataFrame) -> None:
    """A page with plots of all messages."""
    decoded = towpath.spark.decode(kafka, fields=FIELDS, key="key")
    towpath.spark.report(decoded, REPORT, "Golden messages of eight dialects")
    say(f"\nA report with plots was written to {REPORT}")


def say(text: str) -> None:
    """Print above the bar."""
    tqdm.write(text)


def table(title: str, subtitle: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; cells are truncated to the width of a terminal."""
    cells = [[cut(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(columns, *cells, strict=True)]
    say(f"\n{title}\n{subtitle}\n")
    for line in ([*columns], ["-" * size for size in widths], *cells):
        padded = (cell + " " * (size - width(cell)) for cell, size in zip(line, widths, strict=True))
        say("  " + "  ".join(padded).rstrip())


def cut(cell: Any, limit: int = 58) -> str:
    """A cell as one line of text."""
    text = " ".join(str("" if cell is None else cell).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def width(text: str) -> int:
    """How many columns of a terminal the text takes: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


if __name__ == "__main__":
    main()
