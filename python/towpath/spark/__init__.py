"""towpath in Spark. Only this package names pyspark, which is imported when one of its functions is called.

`decode`, `register` and `report` are imported here because their modules have the same names: importing such a module
first would bind the package's attribute to the module. These modules are small. All others are imported when one of
their names is first used, since a Python worker imports this package before its first batch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from towpath.spark.decode import decode
from towpath.spark.register import register
from towpath.spark.report import report
from towpath.spark.types import arrow_schema, is_struct_type, struct_type

if TYPE_CHECKING:
    from towpath.spark.column import from_cdc
    from towpath.spark.lakehouse.history import versions
    from towpath.spark.lakehouse.merge import applier, apply_changes
    from towpath.spark.lakehouse.rebuild import rebuild
    from towpath.spark.lakehouse.replicate import replicate
    from towpath.spark.lakehouse.reprocess import reprocess
    from towpath.spark.lakehouse.status import TableStatus
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
    "ERROR_KINDS": "metrics",
    "BatchCounts": "progress",
    "TableStatus": "lakehouse.status",
    "applier": "lakehouse.merge",
    "apply_changes": "lakehouse.merge",
    "from_cdc": "column",
    "progress_listener": "progress",
    "rebuild": "lakehouse.rebuild",
    "replicate": "lakehouse.replicate",
    "reprocess": "lakehouse.reprocess",
    "versions": "lakehouse.history",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
