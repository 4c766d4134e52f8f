"""orjson, then pyarrow."""

import orjson

from peers import python_rows


def decode(values):
    return python_rows.decode(values, orjson.loads)
