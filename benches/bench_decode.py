"""towpath and its Python peers over the same messages, one thread: `pytest benches/bench_decode.py`.

The figures are CPU time, as other work on the machine disturbs a wall clock more; only the thread-scaling pair has to
use the wall. Every peer's output is compared with the standard library's before anything is timed, that of fastavro,
which reads other messages, with what they were made of. towpath has to find no error in what it is timed with.

TOWPATH_BENCH_COUNT sets the number of messages, TOWPATH_BENCH_ROUNDS how often each bench runs. pytest runs all rounds of a
bench before it comes to the next, so run.py asks for one round, several times over: then the benches take turns.
"""

import functools
import importlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read once, when polars is imported
sys.path.insert(0, str(Path(__file__).parent))

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import corpus
import towpath
from peers import COLUMNS, DDL, OUTPUT

COUNT = int(os.environ.get("TOWPATH_BENCH_COUNT", "200000"))
ROUNDS = int(os.environ.get("TOWPATH_BENCH_ROUNDS", "5"))
BATCH = 10_000  # messages: what Spark puts into one Arrow batch by default
WARM_UP = 5  # batches
CANAL_SHAPES = [shape for shape in corpus.SHAPES if shape != "dts"]
PEERS = ["json_loads", "orjson_loads", "pyarrow_json", "polars_json", "duckdb_json"]
ENVELOPE = ["op", "event_time", "produced_time"]
BOTH = ["op", "before", "after", "event_time", "produced_time"]
NARROW = "id bigint, status tinyint, total decimal(10,2), updated_at timestamp"
THREE = "id bigint, total decimal(10,2), updated_at timestamp"


@functools.cache
def batches(shape):
    values = pq.read_table(corpus.ensure(shape, COUNT))["value"].combine_chunks()
    values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
    return [values.slice(start, BATCH) for start in range(0, len(values), BATCH)]


def size(shape):
    return sum(pc.sum(pc.binary_length(batch)).as_py() for batch in batches(shape))


def decode_all(decode, shape, most=None):
    for batch in batches(shape)[:most]:
        decode(batch)


def in_peers_form(batch):
    """towpath's output as the peers put theirs: the after image, or the deleted row."""
    row = pc.if_else(pc.equal(batch["op"], "delete"), batch["before"], batch["after"])
    envelope = [pc.utf8_upper(batch["op"]), batch["event_time"], batch["produced_time"]]
    columns = [pc.struct_field(row, name).cast(COLUMNS.field(name).type) for name in COLUMNS.names]
    return pa.table(envelope + columns, schema=OUTPUT)


def measure(benchmark, decode, shape):
    benchmark.extra_info["bytes"] = size(shape)
    benchmark.extra_info["messages"] = sum(len(batch) for batch in batches(shape))
    decode_all(decode, shape, WARM_UP)
    benchmark.pedantic(decode_all, args=(decode, shape), rounds=ROUNDS)


def measure_towpath(benchmark, decoder, shape):
    """As users call it, once it has found in the first batch a row or more for every message and nothing wrong."""
    first = batches(shape)[0]
    assert len(decoder.decode(first)) >= len(first)
    assert not decoder.metrics["errors"]
    measure(benchmark, decoder.decode, shape)


@functools.cache
def truth():
    """What the standard library makes of the first batch."""
    return importlib.import_module("peers.json_loads").decode(batches("wide")[0])


@pytest.mark.benchmark(group="wide", timer=time.process_time)
@pytest.mark.parametrize("peer", PEERS)
def test_peer(benchmark, peer):
    decode = importlib.import_module(f"peers.{peer}").decode
    assert decode(batches("wide")[0]).equals(truth())
    measure(benchmark, decode, "wide")


@pytest.mark.benchmark(group="wide", timer=time.process_time)
def test_towpath(benchmark):
    """Both images whole: more than any peer here gives."""
    decoder = towpath.Decoder("canal-json", schema=DDL, fields=BOTH)
    assert in_peers_form(decoder.decode(batches("wide")[0])).equals(truth())
    measure_towpath(benchmark, decoder, "wide")


@pytest.mark.benchmark(group="wide", timer=time.process_time)
def test_towpath_after_only(benchmark):
    """Nearest to the peers' work, though a deleted row is then left out."""
    measure_towpath(benchmark, towpath.Decoder("canal-json", schema=DDL, fields=[*ENVELOPE, "after"]), "wide")


@pytest.mark.benchmark(group="wide", timer=time.process_time)
def test_towpath_default_fields(benchmark):
    """Every envelope column: column types, source, keys and all."""
    measure_towpath(benchmark, towpath.Decoder("canal-json", schema=DDL), "wide")


@pytest.mark.benchmark(group="wide", timer=time.process_time)
def test_towpath_three_columns(benchmark):
    measure_towpath(benchmark, towpath.Decoder("canal-json", schema=THREE, fields=BOTH), "wide")


@pytest.mark.benchmark(group="wide", timer=time.process_time)
def test_towpath_maps(benchmark):
    measure_towpath(benchmark, towpath.Decoder("canal-json", fields=BOTH), "wide")


@pytest.mark.benchmark(group="shapes", timer=time.process_time)
@pytest.mark.parametrize("shape", [shape for shape in CANAL_SHAPES if shape != "wide"])
def test_towpath_shape(benchmark, shape):
    schema = NARROW if shape == "narrow" else DDL
    measure_towpath(benchmark, towpath.Decoder("canal-json", schema=schema, fields=BOTH), shape)


@functools.cache
def by_fastavro():
    """The rows of the first batch of DTS records, as another library reads them."""
    return importlib.import_module("peers.fastavro_datum").decode(batches("dts")[0])


@pytest.mark.benchmark(group="dts", timer=time.process_time)
def test_towpath_dts(benchmark):
    """Both images whole: more than fastavro's rows have."""
    decoder = towpath.Decoder("dts-avro", schema=DDL, fields=BOTH)
    assert in_peers_form(decoder.decode(batches("dts")[0])).drop_columns(["ts"]).equals(by_fastavro())
    measure_towpath(benchmark, decoder, "dts")


@pytest.mark.benchmark(group="dts", timer=time.process_time)
def test_towpath_dts_after_only(benchmark):
    measure_towpath(benchmark, towpath.Decoder("dts-avro", schema=DDL, fields=[*ENVELOPE, "after"]), "dts")


@pytest.mark.benchmark(group="dts", timer=time.process_time)
def test_fastavro(benchmark):
    measure(benchmark, importlib.import_module("peers.fastavro_datum").decode, "dts")


@pytest.mark.benchmark(group="threads", timer=time.perf_counter)
@pytest.mark.parametrize("threads", [1, 2])
def test_threads(benchmark, threads):
    """One decoder, used by one and by two threads; wall clock."""
    decode = towpath.Decoder("canal-json", schema=DDL, fields=BOTH).decode
    with ThreadPoolExecutor(threads) as pool:
        benchmark.extra_info["bytes"] = size("wide")
        list(pool.map(decode, batches("wide")[:WARM_UP]))
        benchmark.pedantic(lambda: list(pool.map(decode, batches("wide"))), rounds=ROUNDS)
