"""Splits updates that change a key which their messages do not declare. The decoder cannot see the removed row.

If a message declares its key, layout "upsert" has a delete and an insert in place of such an update. If only the user
declares it, the updates are decoded again for their keys before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.reading.arrow_batches import INDEX, indices_of, row_ids, with_columns

_OF_COLUMNS = ("labels", "column_types")
"""Options that name columns of the schema."""


class MovedKeys:
    """Splitter of updates that change the key into a delete of the old key and an insert of the new key."""

    def __init__(self, dialect: Any, columns: pa.Field, keys: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Make the decoder.

        Args:
            dialect: As for `towpath.Decoder`.
            columns: Struct with the table's columns in a frame of changes.
            keys: Columns of the key.
            settings: Other arguments of `towpath.Decoder`. The decoder must keep `INDEX`.
        """
        from towpath.decoder import Decoder

        wanted = {name.lower() for name in keys}
        self._columns = columns
        self._at = [at for at, one in enumerate(columns.type) if one.name.lower() in wanted]
        schema = pa.schema([columns.type[at] for at in self._at])
        aliases = {alias: one for alias, one in (settings.get("aliases") or {}).items() if one.lower() in wanted}
        of_columns = {
            option: {name: one for name, one in settings[option].items() if name.lower() in wanted}
            for option in _OF_COLUMNS
            if settings.get(option)
        }
        own: dict[str, Any] = {"layout": "change", "missing": "null", "fields": ["op", "row", "before", "after"]}
        self._decoder = Decoder(dialect, schema, **{**settings, **of_columns, **own, "aliases": aliases})

    def split(self, messages: pa.RecordBatch, changes: pa.RecordBatch, indices: pa.Array) -> pa.RecordBatch:
        """Split each change that moves a row into two.

        Args:
            messages: Messages with their indices.
            changes: Frame of their changes.
            indices: Index of the message of each change.
        """
        updates = pc.equal(changes.column("op"), "update")
        if not pc.any(updates).as_py():
            return changes
        rows = self._decoder.decode(messages.take(pc.unique(indices.filter(updates))))
        rows = rows.filter(_move(rows))
        ids = row_ids(rows.column(INDEX), rows.column("row"))
        found = pc.index_in(row_ids(indices, changes.column("row")), ids)
        at = pc.indices_nonzero(pc.and_(updates, pc.is_valid(found)))
        if not len(at):
            return changes
        keys = rows.column("before").take(found.take(at))
        return _joined(changes, at, {self._columns.name: self._keys_only(keys)})

    def _keys_only(self, keys: pa.StructArray) -> pa.StructArray:
        """Return rows of the table with only the key's columns."""
        values = [pa.nulls(len(keys), one.type) for one in self._columns.type]
        for number, at in enumerate(self._at):
            values[at] = pc.struct_field(keys, [number])
        return pa.StructArray.from_arrays(values, fields=list(self._columns.type))


def _move(rows: pa.RecordBatch) -> pa.BooleanArray:
    """Return whether each row is an update that changes the key."""
    images = [rows.column(name).flatten() for name in ("before", "after")]
    # A column that an image lacks is null too, and not a change.
    differ = reduce(pc.or_, (pc.fill_null(pc.not_equal(old, new), False) for old, new in zip(*images, strict=True)))
    return pc.and_(pc.equal(rows.column("op"), "update"), differ)


def _joined(changes: pa.RecordBatch, at: pa.Array, rows: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Insert deletes of rows before the changes at some places. These changes become inserts."""
    deletes, moves = changes.take(at), pc.is_in(indices_of(changes), at.cast(pa.int64()))
    gone = {
        "op": pa.repeat("delete", len(at)),
        **rows,
        **{name: pa.nulls(len(at), changes.schema.field(name).type) for name in ("missing", "error")},
        "partial": pa.repeat(False, len(at)),
    }
    # No message has the rest of a row that a partial update moves.
    lacks = pc.and_(moves, changes.column("partial"))
    new = {
        "op": pc.if_else(moves, "insert", changes.column("op")),
        "partial": pc.and_(changes.column("partial"), pc.invert(moves)),
        "key_only": pc.or_(changes.column("key_only"), lacks),
        "step": pc.add(changes.column("step"), moves.cast(pa.int64())),
    }
    parts = [with_columns(deletes, gone), with_columns(changes, new)]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
