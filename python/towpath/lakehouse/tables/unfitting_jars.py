"""Says in one line that the session lacks a jar, or has one for another Spark, where Java says it in pages."""

from __future__ import annotations

import re

from towpath.versions import combination_with

_LINKAGE = re.compile(
    r"java\.lang\.((?:NoSuchMethod|NoSuchField|NoClassDefFound|AbstractMethod|IncompatibleClassChange|Verify)Error[^\n]*)"
)
_MISSING = re.compile(r"Failed to find the data source: (delta|iceberg)")
_MOST_TEXT = 200


class UnfittingJarError(RuntimeError):
    """The session lacks a jar, such as Delta's, or has one that was made for another Spark."""


def unfitting_jar(spark: str, error: BaseException) -> UnfittingJarError | None:
    """The error to raise in place of one of Java; None if it has another cause. `spark`: the session's version."""
    text = str(error)
    if missing := _MISSING.search(text):
        name = missing[1]
        return UnfittingJarError(f"the session has no {name.capitalize()}: {_cure(spark, name)}")
    if linkage := _LINKAGE.search(text):
        what = f"a jar of Delta or Iceberg in the session was made for another Spark than {spark}"
        return UnfittingJarError(f"{what}: {_cure(spark, 'delta', 'iceberg')} ({linkage[1][:_MOST_TEXT]})")
    return None


def _cure(spark: str, *names: str) -> str:
    tested = combination_with(spark)
    jars = [tested.jars[name] for name in names if name in tested.jars] if tested else []
    if jars:
        return f"set spark.jars.packages to {','.join(jars)} before the session is created"
    return f'none is tested with Spark {spark}; pip install "towpath[lakehouse]" installs a Spark that has one'
