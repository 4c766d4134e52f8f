"""The names of tables of databases that have schemas."""

import re
from itertools import product

import pytest
from pyspark.sql import types

from towpath.lakehouse.reading.schema_changes import SchemaChange
from towpath.lakehouse.reading.schemas import name_pattern, table_name
from towpath.lakehouse.statements import NotFollowed
from towpath.lakehouse.tables.tables import can_store


@pytest.mark.parametrize(
    ("table", "schema", "connector", "name"),
    [
        ("orders", None, None, "orders"),
        ("a.b", None, "mysql", "a.b"),
        ("orders", "public", "postgresql", "orders"),
        ("orders", "public", None, "orders"),
        ("orders", "sales", "postgresql", "sales.orders"),
        ("orders", "dbo", "SqlServer", "orders"),
        ("orders", "dbo", None, "dbo.orders"),
        ("orders", "public", "sqlserver", "public.orders"),
        ("orders", "shop", None, "orders"),
        ("orders", "shop", "mysql", "orders"),
        ("orders", "shop", "postgresql", "shop.orders"),
        ("sales.orders", "public", "postgresql", "public.`sales.orders`"),
        ("c", "a.b", "postgresql", "`a.b`.c"),
    ],
)
def test_names(table, schema, connector, name):
    found = table_name(table, schema, "shop", connector)
    assert found == name
    assert re.fullmatch(name_pattern(found), table)


@pytest.mark.parametrize(("connector", "database"), [("postgresql", "a"), ("sqlserver", "dbo"), (None, "shop")])
def test_no_two_tables_have_one_name(connector, database):
    """Whatever dots and backticks are in them."""
    parts = ["a", "b", "a.b", "a`", "`a`", "`a.b`", "public", "public.a", "dbo"]
    names = {table_name(table, schema, database, connector) for table, schema in product(parts, [*parts, "public"])}
    assert len(names) == len(parts) ** 2


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "7", '[{"type": 1}]', '[{"type": "DROP", "id": "x"}]'])
def test_changed_tables_that_are_not_as_debezium_writes_them(text):
    change = SchemaChange(None, text, "dbo", "shop", "sqlserver")
    [action] = change.actions()
    assert isinstance(action, NotFollowed)
    assert change.text == action.reason


def test_a_column_can_store_the_values_of_its_own_type():
    kinds = [types.ByteType(), types.LongType(), types.DoubleType(), types.DecimalType(38, 9), types.DateType()]
    kinds += [types.TimestampType(), types.TimestampNTZType(), types.BinaryType(), types.BooleanType()]
    assert [one for one in [*kinds, types.StringType()] if not can_store(one, one)] == []
    assert [one for one in kinds if can_store(one, types.StringType())] == []
