"""The rows of the table in RESULTS.md, and the project's targets."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One comparison: how many times `ours` is better than `theirs`, or with `cost` how many times dearer. Without `theirs`
    it is a figure of its own.
    """

    title: str
    ours: str
    theirs: str | None = None
    must: float | None = None
    goal: float | None = None
    cost: bool = False
    unit: str = "MB/s"


TYPED = "rust {}/towpath typed"
TAPE = "rust {}/simd-json tape"
TITLES = {
    "wide": "wide, typed, both images",
    "update": "update-heavy",
    "narrow": "narrow",
    "ticdc": "ticdc",
    "tables": "ten tables mixed",
    "shuffled": "keys shuffled",
    "fallback-tenth": "every tenth message falls back",
    "fallback-all": "every message falls back",
    "cloudcanal": "cloudcanal-json",
    "debezium": "debezium-json without schema",
    "debezium-schema": "debezium-json with schema",
    "maxwell": "maxwell-json",
    "river": "river-json",
    "protobuf": "canal-protobuf",
    "dts": "dts-avro",
}
DIALECTS = ["cloudcanal", "debezium", "debezium-schema", "maxwell", "river", "protobuf", "dts"]


def against_tape(shape, must=None, goal=None):
    return Row(f"{TITLES[shape]}: against simd-json's tape", TYPED.format(shape), TAPE.format(shape), must, goal)


def wide_against_tape(title, way, must=None, goal=None):
    return Row(f"wide, {title}: against simd-json's tape", f"rust wide/{way}", TAPE.format("wide"), must, goal)


def against_name(title, shape):
    """What it costs to find each message's dialect: both are towpath, over the same messages."""
    ours, theirs = f"rust {shape}/towpath auto", TYPED.format(shape)
    return Row(f"auto, {title}: against the dialect's name", ours, theirs, 0.95, 0.98)


RUST = [
    against_tape("wide", 1.8, 2.4),
    against_tape("update", 1.5, 2.0),
    against_tape("narrow", 2.0, 3.3),
    against_tape("ticdc", 1.3, 2.0),
    against_tape("tables", 1.5, 2.0),
    against_tape("shuffled", 1.1, 1.5),
    wide_against_tape("map output", "towpath maps", 1.3, 1.8),
    Row(
        "ten tables, map output: against simd-json's tape", "rust tables/towpath maps", TAPE.format("tables"), 1.1, 1.8
    ),
    Row(
        "wide, every tenth message falls back: share of the speed of none",
        TYPED.format("fallback-tenth"),
        "rust fallback-tenth/towpath typed, none falls back",
        0.8,
    ),
    # Without templates towpath was at 0.91: falling back must not be slower than that.
    Row(
        "wide, every message falls back: against simd-json's tape",
        TYPED.format("fallback-all"),
        TAPE.format("fallback-all"),
        0.91,
    ),
    wide_against_tape("templates turned off", "towpath no templates", 0.91),
    wide_against_tape("after image only", "towpath after only"),
    wide_against_tape("3 of 12 columns", "towpath 3 of 12"),
    Row("wide: against serde_json IgnoredAny (no decode)", TYPED.format("wide"), "rust wide/serde_json IgnoredAny"),
    Row("wide: against serde derive into HashMap", TYPED.format("wide"), "rust wide/serde derive"),
    Row(
        "wide, all default envelope columns: share of the speed with op, before, after, event_time",
        "rust wide/towpath default fields",
        TYPED.format("wide"),
        0.8,
        0.9,
    ),
    against_tape("cloudcanal", 1.6, 1.8),
    against_tape("debezium", 1.2, 1.6),
    against_tape("debezium-schema", 4, 5),
    against_tape("maxwell", 0.85, 1.8),
    against_tape("river", 1.5, 1.8),
    Row(
        "canal-protobuf: against prost into owned structs",
        TYPED.format("protobuf"),
        "rust protobuf/prost structs",
        5,
        6,
    ),
    Row("dts-avro: against apache-avro into its values", TYPED.format("dts"), "rust dts/apache-avro", 8.5, 10),
    against_name("canal-json", "wide"),
    *(against_name(TITLES[shape], shape) for shape in DIALECTS),
    Row(
        "auto, all of these mixed: against each by its name, sorted out",
        "rust mixed/towpath auto",
        "rust mixed/towpath by name",
        0.9,
        0.98,
    ),
]


def fallback(shape, way="towpath typed", title=None):
    return Row(f"messages that fall back: {title or TITLES[shape]}", f"fallback {shape}/{way}", cost=True, unit="%")


FALLBACK = [
    *(fallback(shape) for shape in TITLES),
    fallback("wide", "towpath maps", "wide, map output"),
    fallback("tables", "towpath maps", "ten tables, map output"),
    fallback("wide", "towpath default fields", "wide, all default envelope columns"),
]


def counted(what, shape, way, must=None, goal=None):
    title = f"{what} a message: {TITLES[shape] if way == 'towpath typed' else f'{shape}, simd-json tape'}"
    return Row(title, f"{what} {shape}/{way}", None, must, goal, True, "")


INSTRUCTIONS = [
    counted("instructions", "wide", "towpath typed", 6_500, 5_000),
    counted("instructions", "wide", "simd-json tape"),
    counted("instructions", "update", "towpath typed"),
    counted("instructions", "update", "simd-json tape"),
    counted("instructions", "ticdc", "towpath typed"),
    counted("instructions", "ticdc", "simd-json tape"),
    counted("instructions", "tables", "towpath typed"),
    counted("L1 data misses", "wide", "towpath typed", 60, 40),
    counted("L1 data misses", "wide", "simd-json tape"),
    counted("L1 data misses", "update", "towpath typed"),
    counted("L1 data misses", "update", "simd-json tape"),
    counted("L1 data misses", "ticdc", "towpath typed"),
    counted("L1 data misses", "ticdc", "simd-json tape"),
    counted("L1 data misses", "tables", "towpath typed"),
]


def memory(title, way):
    name = f"memory {{}} {way}"
    return [
        Row(f"bytes allocated an input byte: {title}", name.format("allocated"), cost=True, unit=""),
        Row(f"peak resident memory an input byte, without the input: {title}", name.format("peak"), cost=True, unit=""),
    ]


MEMORY = [
    *memory("wide, typed, both images", "towpath typed"),
    *memory("wide, all default envelope columns", "towpath default fields"),
    *memory("wide, map output", "towpath maps"),
]


def growth(title, axis):
    return [
        Row(
            f"scaling, {title}: exponent of {what}{where}",
            f"{prefix}exponent of {what} over {axis}",
            cost=True,
            unit="",
        )
        for what in ("CPU time", "instructions")
        for where, prefix in (("", ""), (", the three largest", "large "))
    ]


SCALING = [
    *growth("4 to 1,000 columns", "columns"),
    *growth("1 to 1,000 rows a message", "rows"),
    *growth("values of 10 B to 1 MB", "value"),
    *growth("1 to 10,000 tables", "tables"),
]


def wide_in_python(title, peer, ours="python towpath", must=None, goal=None):
    return Row(f"wide, {title}", ours, peer, must, goal)


PYTHON = [
    wide_in_python(
        "after image: against orjson to pyarrow", "python peer[orjson_loads]", "python towpath_after_only", 12, 16
    ),
    wide_in_python("both images: against orjson to pyarrow, which has one", "python peer[orjson_loads]"),
    wide_in_python(
        "all default envelope columns: against orjson", "python peer[orjson_loads]", "python towpath_default_fields"
    ),
    wide_in_python("both images: against json.loads to pyarrow (after image)", "python peer[json_loads]"),
    wide_in_python("both images: against pyarrow.json (after image)", "python peer[pyarrow_json]"),
    wide_in_python("both images: against polars (after image)", "python peer[polars_json]"),
    wide_in_python("both images: against duckdb (after image)", "python peer[duckdb_json]"),
    Row("dts-avro, both images: against fastavro to pyarrow, which has one", "python towpath_dts", "python fastavro"),
    Row(
        "dts-avro, after image: against fastavro to pyarrow",
        "python towpath_dts_after_only",
        "python fastavro",
        50,
        60,
    ),
    Row("two threads, one decoder, wall: against one", "python threads[2]", "python threads[1]", 1.85, 1.95),
]
JVM = [
    wide_in_python("both images: against Flink's canal-json", "jvm flink", "jvm towpath", 6.5, 8.5),
    wide_in_python("both images: against fastjson2 to typed values", "jvm fastjson2-typed", "jvm towpath", 3.5, 4.5),
    wide_in_python("both images: against fastjson2 to FlatMessage, no values", "jvm fastjson2", "jvm towpath"),
]


def seconds(title, prefix, ours, theirs, must=None, goal=None, cost=False):
    """Spark's: `ours` and `theirs` are ways of one program."""
    return Row(f"{title} {theirs}", f"{prefix} {ours}", f"{prefix} {theirs}", must, goal, cost, "s")


def rows_in_spark(what, way, must=None, goal=None, cost=False):
    """Rows alike: what the from_json ways put out, and no more."""
    title = f"Spark, Parquet, rows, {what}: {'times' if cost else 'against'}"
    return seconds(title, f"spark {what}", "towpath rows", way, must, goal, cost)


def over_lines(way, must=None, goal=None):
    return seconds("Spark, data source over lines, rows, cpu: against", "lines cpu", "source, rows", way, must, goal)


def from_kafka(what, way, must=None, goal=None, cost=False):
    title = f"Spark, Kafka, rows, {what}: {'times' if cost else 'against'}"
    return seconds(title, f"kafka {what}", "towpath rows", way, must, goal, cost)


SPARK = [
    rows_in_spark("cpu", "identity mapInArrow", 1.05, 1.0, cost=True),
    seconds("Spark, Parquet, both images, cpu: times", "spark cpu", "towpath", "identity mapInArrow", 1.10, 1.05, True),
    rows_in_spark("cpu", "from_json tuned", 1.9, 2.2),
    rows_in_spark("wall", "from_json tuned"),
    rows_in_spark("cpu", "from_json naive", 3.4, 4.5),
    rows_in_spark("wall", "from_json naive"),
    rows_in_spark("cpu", "orjson mapInArrow"),
    seconds("Spark, Parquet, both images, cpu: against one image of", "spark cpu", "towpath", "from_json tuned"),
    over_lines("text, from_json tuned", 4.2, 6),
    over_lines("text, mapInArrow, rows"),
    over_lines("parquet, mapInArrow, rows"),
    from_kafka("cpu", "from_json tuned", 1.85, 2.2),
    from_kafka("wall", "from_json tuned"),
    from_kafka("cpu", "identity mapInArrow", cost=True),
    from_kafka("cpu", "read only", cost=True),
    seconds(
        "Spark, Kafka read on the workers, rows, cpu: against",
        "kafka cpu",
        "source on the workers",
        "from_json tuned",
        2.5,
        3.5,
    ),
]


def replicated(shape, what="wall", must=None, goal=None):
    title = f"replicate, {shape}, {what}: times"
    names = (f"lakehouse {shape} {what} {way}" for way in ("towpath", "recipe"))
    return Row(f"{title} the recipe", *names, must, goal, True, "s")


LAKEHOUSE = [
    replicated("hot"),
    replicated("hot", "cpu", 0.5, 0.3),
    replicated("hot by Spark", "cpu"),
    replicated("hot on Iceberg", "cpu", 1.2, 0.8),
    replicated("20M rows", "cpu", 1.0, 0.8),
    replicated("million"),
    replicated("million", "cpu", 0.7, 0.4),
    replicated("million in 40", "cpu", 0.8, 0.5),
    replicated("20 tables"),
    replicated("20 tables", "cpu", 0.15, 0.06),
    Row(
        "replicate, wall, 8 topics of 64 partitions: times 8 tables in one partition",
        "lakehouse 8 topics wall towpath",
        "lakehouse 8 tables wall towpath",
        1.3,
        None,
        True,
        "s",
    ),
    replicated("8 topics"),
    replicated("100 tables"),
    replicated("100 tables", "cpu", 0.15, 0.06),
    replicated("500 tables"),
    replicated("500 tables", "cpu", 0.15, 0.06),
]
ROWS = [*RUST, *PYTHON, *JVM, *INSTRUCTIONS, *FALLBACK, *MEMORY, *SCALING, *SPARK, *LAKEHOUSE]
