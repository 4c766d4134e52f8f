"""towpath in Spark. Only this package and `towpath.lakehouse` import pyspark, and only when a function is called.

`decode`, `register` and `report` are imported here because their modules have the same names. Importing such a module
first would bind the package's attribute to the module. These modules are small. Other modules are imported on first use
of their names, since a Python worker imports this package before its first batch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from towpath.spark.decode import decode
from towpath.spark.register import register
from towpath.spark.report import report
from towpath.spark.types import arrow_schema, is_struct_type, struct_type

if TYPE_CHECKING:
    from towpath.lakehouse.apply_changes import applier, apply_changes
    from towpath.lakehouse.history import versions
    from towpath.lakehouse.rebuild import rebuild
    from towpath.lakehouse.replicate import replicate
    from towpath.lakehouse.reprocess import reprocess
    from towpath.lakehouse.seen.status import TableStatus
    from towpath.spark.column import from_cdc
    from towpath.spark.metrics import ERROR_KINDS
    from towpath.spark.progress import BatchCounts, progress_listener

__all__ = [
    "ERROR_KINDS",
    "BatchCounts",
    "TableStatus",
    "applier",
    "apply_changes",
    "arrow_schema",
    "decode",
    "from_cdc",
    "is_struct_type",
    "progress_listener",
    "rebuild",
    "register",
    "replicate",
    "report",
    "reprocess",
    "struct_type",
    "versions",
]

_LAZY = {
    "ERROR_KINDS": "towpath.spark.metrics",
    "BatchCounts": "towpath.spark.progress",
    "TableStatus": "towpath.lakehouse.seen.status",
    "applier": "towpath.lakehouse.apply_changes",
    "apply_changes": "towpath.lakehouse.apply_changes",
    "from_cdc": "towpath.spark.column",
    "progress_listener": "towpath.spark.progress",
    "rebuild": "towpath.lakehouse.rebuild",
    "replicate": "towpath.lakehouse.replicate",
    "reprocess": "towpath.lakehouse.reprocess",
    "versions": "towpath.lakehouse.history",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
