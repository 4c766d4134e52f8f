"""Option `row_column`: the table's columns in one struct, so that they may have any name."""

import json

import pyarrow as pa
import pytest

from towpath import Decoder

NAMES = ["id", "_op", "_change_type", "_source", "offset", "row"]
CHANGE = {
    "database": "shop",
    "table": "t",
    "type": "UPDATE",
    "pkNames": ["id"],
    "mysqlType": dict.fromkeys(NAMES, "int"),
    "data": [{name: str(at) for at, name in enumerate(NAMES)}],
    "old": [{"id": "9"}],
}
SCHEMA = ", ".join(f"{name} int" for name in NAMES)


def decoded(layout, **options):
    decoder = Decoder("canal-json", SCHEMA, layout=layout, row_column="row", **options)
    batch = decoder.decode(pa.array([json.dumps(CHANGE).encode(), b"none"], pa.binary()))
    assert batch.schema.equals(decoder.schema)
    return batch


@pytest.mark.parametrize(("layout", "op"), [("upsert", "_op"), ("changelog", "_change_type")])
def test_columns_with_the_envelopes_names_are_in_the_struct(layout, op):
    batch = decoded(layout)
    assert batch.schema.names[:2] == [op, "row"]
    assert [field.name for field in batch.schema.field("row").type] == NAMES
    new = dict(zip(NAMES, range(6), strict=True))
    assert batch.column("row").to_pylist() == [new | {"id": 9}, new, None]


def test_it_follows_the_operation_among_chosen_fields():
    assert decoded("upsert", fields=["_op"]).schema.names == ["_op", "row"]
    assert decoded("upsert", fields=["_row", "_op"]).schema.names == ["row", "_row", "_op"]
    assert decoded("upsert", fields=[]).schema.names == ["row"]


def test_it_is_refused_where_it_has_no_meaning():
    with pytest.raises(ValueError, match='duplicate column "_op" in the output'):
        Decoder("canal-json", SCHEMA, layout="upsert")
    with pytest.raises(ValueError, match="row_column: not available in layout change"):
        Decoder("canal-json", SCHEMA, row_column="row")
    with pytest.raises(ValueError, match='duplicate column "_row" in the output'):
        Decoder("canal-json", SCHEMA, layout="upsert", row_column="_row")
