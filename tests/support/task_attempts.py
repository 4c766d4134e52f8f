"""What a task of Spark that owns a table gets, and several attempts of it."""

from multiprocessing import get_context
from multiprocessing.context import ForkServerContext

import pyarrow as pa
from deltalake import DeltaTable

from lake_topic import canal, row
from towpath.lakehouse.merging.owned_table import OwnedTable, apply
from towpath.lakehouse.order.order_arrays import ORDER
from towpath.lakehouse.reading.changes import READ, ChangeDecoder

PART = "shop", "a", None
"""The part that the messages of `batch` are."""


def owned(target, storage=None, **changed):
    """A table, as the driver describes it to a task."""
    decoder = ChangeDecoder("canal-json", "id int, name string", {"table": "a"})
    known = {"keys": ("id",), "target": target, "tombstones": f"{target}__tombstones", "order": "_towpath"}
    options = {"forget_before": None, "storage": storage}
    return OwnedTable({PART: decoder}, **{**known, **options, **changed})


def created(target, rows=1, storage=None, **more):
    """Create a table as Spark would, with rows. Returns its place. `more` are the types of further columns."""
    fields = {"id": pa.int32(), "name": pa.string(), "_towpath": ORDER, **more}
    DeltaTable.create(target, pa.schema(list(fields.items())), storage_options=storage)
    apply(owned(target, storage), [inserts(range(rows))])
    return target


def inserts(keys):
    """Inserts in ascending order, as a task gets them."""
    return batch(*(canal(at, "INSERT", "a", row(at, "x"), second=at) for at in keys))


def stored(target, storage=None):
    """The names in a table by key."""
    rows = DeltaTable(target, storage_options=storage).to_pyarrow_table().to_pylist()
    return {one["id"]: one["name"] for one in rows}


def random_batches(rng):
    """Changes of a few keys, some of which come again, and the rows after them."""
    rows, sent, batches = {0: "x"}, [], []
    for at in range(1, 60):
        key = rng.randrange(12)
        kind = rng.choice(["UPDATE", "DELETE"]) if key in rows else "INSERT"
        sent.append(canal(at, kind, "a", row(key, f"v{at}"), second=at // 3, id=at))
        rows.pop(key, None)
        rows |= {} if kind == "DELETE" else {key: f"v{at}"}
    while sent:
        size = rng.randrange(5, 25)
        batches.append(sent[:size] + batches[-1][:3] if batches else sent[:size])
        sent = sent[size:]
    return batches, rows


def batch(*messages):
    """Messages of one part, as a task gets them."""
    rows = [{"topic": "t", **message} for message in messages]
    return PART, pa.RecordBatch.from_pylist(rows, pa.schema(list(READ.items())))


def apply_alone(table, messages, barrier, results):
    barrier.wait(300)
    results.put(apply(table, [messages]))


def processes() -> ForkServerContext:
    """Context whose processes are forked from a server that has imported the packages, as Spark forks its workers."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["pandas", "pyspark.sql", "towpath.lakehouse.merging.owned_table", "deltalake"])
    return context


def attempts_at_the_same_time(table, messages, count):
    """How many changes each of some attempts applied and ignored as old, in ascending order."""
    context = processes()
    barrier, results = context.Barrier(count), context.Queue()
    attempts = [context.Process(target=apply_alone, args=(table, messages, barrier, results)) for _ in range(count)]
    for one in attempts:
        one.start()
    found = [results.get(timeout=600) for _ in attempts]
    for one in attempts:
        one.join()
    return sorted((one["row"], one["old"]) for one in found)
