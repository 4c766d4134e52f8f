"""Spark jobs at the same time: a driver submits each of them from a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(spark: SparkSession, function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Call a function with each item, with so many of them at the same time.

    Raises:
        Exception: What the first call raised that failed, after all have ended.
    """
    if len(items) <= 1 or threads <= 1:
        return list(map(function, items))
    with ThreadPoolExecutor(threads, "towpath") as pool:
        return list(pool.map(_inheriting(spark, function), items))


def _inheriting(spark: SparkSession, function: Any) -> Any:
    """The function for another thread, with Spark's settings of this one, such as the job group of the query."""
    from pyspark.util import inheritable_thread_target

    try:
        return inheritable_thread_target(spark)(function)
    except TypeError:  # Spark 3.5 has no argument for the session
        return inheritable_thread_target(function)
