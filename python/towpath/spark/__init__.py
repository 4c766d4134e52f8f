"""towpath in Spark. The only folder that names pyspark, which is imported when one of these functions is called.

Each function's own module is imported when the function is first asked for: a Python worker imports towpath before its
first batch, and needs none of them to decode.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from towpath.spark.types import arrow_schema, is_struct_type, struct_type

if TYPE_CHECKING:
    from towpath.spark.apply import applier, apply_changes
    from towpath.spark.counts import ERROR_KINDS
    from towpath.spark.decoding import decode
    from towpath.spark.progress import BatchCounts, progress_listener
    from towpath.spark.registering import register
    from towpath.spark.replicating import replicate
    from towpath.spark.reporting import report

__all__ = [
    "ERROR_KINDS",
    "BatchCounts",
    "applier",
    "apply_changes",
    "arrow_schema",
    "decode",
    "is_struct_type",
    "progress_listener",
    "register",
    "replicate",
    "report",
    "struct_type",
]

# No module may have the name of what is in it: once imported, it would stand in its place.
_MODULES = {
    "ERROR_KINDS": "counts",
    "BatchCounts": "progress",
    "applier": "apply",
    "apply_changes": "apply",
    "decode": "decoding",
    "progress_listener": "progress",
    "register": "registering",
    "replicate": "replicating",
    "report": "reporting",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
