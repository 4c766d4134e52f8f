"""HTML of a decoder for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape

import pyarrow as pa


def decoder_html(described: str, schema: Callable[[], pa.Schema], metrics: Mapping[str, object]) -> str:
    """Return a decoder's description, the columns of its output, and its counts as HTML."""
    counts = ((name, value) for name, value in metrics.items() if value or isinstance(value, int))
    tables = _table("column", "type", _columns(schema)), _table("metric", "value", counts)
    return "\n".join([f"<pre>{escape(described)}</pre>", *tables])


def _columns(schema: Callable[[], pa.Schema]) -> Iterable[tuple[str, object]]:
    try:
        return [(field.name, field.type) for field in schema()]
    except ValueError as error:  # a kept column has no type until the input is known
        return [("", error)]


def _table(left: str, right: str, rows: Iterable[tuple[str, object]]) -> str:
    body = "".join(f"<tr><td>{escape(name)}</td><td>{escape(str(value))}</td></tr>" for name, value in rows)
    return f"<table><tr><th>{left}</th><th>{right}</th></tr>{body}</table>"
