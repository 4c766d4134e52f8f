"""Says in one line that a jar of the session was made for another Spark, where Java says it in pages."""

from __future__ import annotations

import re

from towpath.versions import combination_with

_LINKAGE = re.compile(
    r"java\.lang\.((?:NoSuchMethod|NoSuchField|NoClassDefFound|AbstractMethod|IncompatibleClassChange|Verify)Error[^\n]*)"
)
_MOST_TEXT = 200
_OTHER_SPARK = 'pip install "towpath[lakehouse]" installs a Spark that has them'


class UnfittingJarError(RuntimeError):
    """A jar of the session, such as Delta's, was made for another Spark."""


def unfitting_jar(spark: str, error: BaseException) -> UnfittingJarError | None:
    """The error to raise in place of one of Java; None if it has another cause.

    Args:
        spark: The session's version of Spark.
        error: What Spark raised.
    """
    found = _LINKAGE.search(str(error))
    if found is None:
        return None
    tested = combination_with(spark)
    known = ", ".join(tested.jars.values()) if tested else ""
    cure = f"use {known}" if known else f"none is tested with it: {_OTHER_SPARK}"
    what = f"a jar of Delta or Iceberg in the session was made for another Spark than {spark}"
    return UnfittingJarError(f"{what}: {cure} ({found[1][:_MOST_TEXT]})")
