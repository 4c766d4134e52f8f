"""towpath in Spark. The only folder that names pyspark, which is imported when one of these functions is called."""

from towpath.spark.apply import applier, apply_changes
from towpath.spark.counts import ERROR_KINDS
from towpath.spark.decoding import decode
from towpath.spark.progress import BatchCounts, progress_listener
from towpath.spark.registering import register
from towpath.spark.replicate import replicate
from towpath.spark.reporting import report
from towpath.spark.types import arrow_schema, is_struct_type, struct_type

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
