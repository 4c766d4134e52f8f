"""Convert MySQL change-data-capture messages to Arrow record batches, and use them in Spark.

Example:
    >>> import pyarrow as pa, towpath
    >>> decoder = towpath.Decoder("canal-json", schema="id bigint, total decimal(10,2)", fields=["op", "after"])
    >>> message = b'{"type":"INSERT","database":"shop","table":"orders","data":[{"id":"7","total":"12.50"}]}'
    >>> decoder.decode(pa.array([message])).to_pylist()
    [{'op': 'insert', 'after': {'id': 7, 'total': Decimal('12.50')}}]

Only pyarrow is needed to import this package. `towpath.spark` imports pyspark when one of its functions is called.
"""

from towpath import spark
from towpath._towpath import DecodeError, __version__, detect, dialects
from towpath.decoder import Decoder, infer_schema

__all__ = [
    "DecodeError",
    "Decoder",
    "__version__",
    "detect",
    "dialects",
    "infer_schema",
    "spark",
]


def __dir__() -> list[str]:
    return __all__
