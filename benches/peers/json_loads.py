"""The standard library's json, then pyarrow."""

import json

from peers import python_rows


def decode(values):
    return python_rows.decode(values, json.loads)
