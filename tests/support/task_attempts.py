"""What a task of Spark that owns a table gets, and several attempts of it."""

from multiprocessing import get_context

import pyarrow as pa

from towpath.lakehouse.changes import MESSAGE
from towpath.lakehouse.owned_table import apply


def batch(*messages):
    """Messages as a task gets them."""
    rows = [{"topic": "t", **message} for message in messages]
    return pa.RecordBatch.from_pylist(rows, pa.schema(list(MESSAGE.items())))


def apply_alone(table, messages, barrier, results):
    barrier.wait(300)
    results.put(apply(table, [messages]))


def attempts_at_the_same_time(table, messages, count):
    """How many changes each of some attempts applied and ignored as old, in ascending order."""
    processes = get_context("spawn")
    barrier, results = processes.Barrier(count), processes.Queue()
    attempts = [processes.Process(target=apply_alone, args=(table, messages, barrier, results)) for _ in range(count)]
    for one in attempts:
        one.start()
    found = [results.get(timeout=600) for _ in attempts]
    for one in attempts:
        one.join()
    return sorted((one["row"], one["old"]) for one in found)
