"""A wrong argument of `apply_changes`, `applier`, `reprocess` or `rebuild` is an error at the call, before any job."""

import re

import pytest

import towpath

KEEP = ["topic", "partition", "offset", "timestamp"]
KAFKA = (
    "CAST('' AS binary) AS key",
    "CAST('' AS binary) AS value",
    "'t' AS topic",
    "0 AS partition",
    "value AS offset",
    "timestamp",
)


@pytest.fixture
def stream(spark):
    return spark.readStream.format("rate").load().selectExpr(*KAFKA)


def changes_of(frame, **arguments):
    return towpath.spark.decode(frame, "canal-json", "id int, name string", layout="upsert", **arguments)


APPLIED = {
    "keys: expected a list of columns": {"keys": "id"},
    "keys: unknown idd; did you mean id? expected one of id, name": {"keys": ["idd"]},
    "keys: give the columns of the primary key": {
        "keys": None,
        "fields": ["_op", "_event_time", "_sequence", "_error", "_corrupt_record"],
    },
    "target: expected a path or the name of a table, not 1": {"target": 1},
    "dead_letters: expected a path or the name of a table": {"dead_letters": ["a"]},
    "forget_after: expected an SQL interval such as \"7 days\", not '7 dayz'": {"forget_after": "7 dayz"},
    "optimize_every: expected a positive integer or None, not 0": {"optimize_every": 0},
    "cluster_by: expected a list of columns": {"cluster_by": "id"},
    "evolve: expected True or False, not 'no'": {"evolve": "no"},
    "table_properties: a: expected a string, not 1": {"table_properties": {"a": 1}},
    "soft_deletes: the table already has a column NAME": {"soft_deletes": "NAME"},
    "soft_deletes: expected a non-empty string, not True": {"soft_deletes": True},
    "trigger: expected a mapping": {"trigger": "availableNow"},
    "trigger: did you mean availableNow?": {"trigger": {"availablenow": True}},
    "checkpoint: required for a stream": {"checkpoint": None},
    "query_name: expected a non-empty string": {"query_name": 1},
    "changes: the changes of a stream have no order across its batches": {"keep": ["topic"]},
}


@pytest.mark.parametrize(("said", "arguments"), APPLIED.items())
def test_apply_changes(stream, said, arguments):
    arguments = {"target": "/lake/a", "keys": ["id"], "checkpoint": "/c", **arguments}
    of_decoder = {name: arguments.pop(name) for name in ("keep", "fields") if name in arguments}
    changes = changes_of(stream, **{"keep": KEEP, **of_decoder})
    with pytest.raises(ValueError, match=re.escape(said)):
        towpath.spark.apply_changes(changes, **arguments)


def test_other_frames(stream):
    with pytest.raises(ValueError, match=r"keep: expected a list of columns such as \['offset'\]"):
        changes_of(stream, keep="offset")
    with pytest.raises(ValueError, match=r'changes: missing columns _op.*decode with layout="upsert"'):
        towpath.spark.apply_changes(stream, "/lake/a", ["id"], checkpoint="/c")
    with pytest.raises(ValueError, match="changes: expected a DataFrame, not list"):
        towpath.spark.apply_changes([], "/lake/a", ["id"])
    with pytest.raises(ValueError, match="df: expected a DataFrame, not list"):
        changes_of([])


@pytest.mark.parametrize("name", ["checkpoint", "trigger", "query_name", "writer_options"])
def test_a_batch_has_no_query(spark, name):
    values = {"checkpoint": "/c", "trigger": {"once": True}, "query_name": "q", "writer_options": {"a": "b"}}
    frame = spark.range(0).selectExpr("CAST(id AS timestamp) AS timestamp", "id AS value").selectExpr(*KAFKA)
    with pytest.raises(ValueError, match=f"{name}: only for streams, and the DataFrame is a batch"):
        towpath.spark.apply_changes(changes_of(frame, keep=KEEP), "/lake/a", ["id"], **{name: values[name]})
    with pytest.raises(ValueError, match=f"{name}: only for streams, and the DataFrame is a batch"):
        towpath.spark.replicate(frame, "/lake/{table}", **{name: values[name]})


def test_applier():
    with pytest.raises(ValueError, match="keys: expected a list"):
        towpath.spark.applier("/lake/a", "id")
    with pytest.raises(ValueError, match="optimize_every: expected a positive integer"):
        towpath.spark.applier("/lake/a", ["id"], optimize_every=True)


REPROCESSED = {
    "set the table to process": {"dead_letters": None},
    "dead_letters: expected a path": {"dead_letters": 1},
    "tables: expected a list": {"tables": "shop.a"},
    "keys: shop.a: expected a list": {"keys": {"shop.a": "id"}},
    "schemas: expected a mapping": {"schemas": "id int"},
    'shop.a: schema: unknown type "integr"': {"schemas": {"shop.a": "id integr"}},
    "unknown argument tabel; did you mean table?": {"tabel": "a"},
    "did you mean canal-json?": {"dialect": "canal_json"},
    "parallelism: expected a positive integer, not 0": {"parallelism": 0},
    "history: expected a boolean": {"history": "shop.a"},
    "columns: shop.a: expected a mapping": {"columns": {"shop.a": ["phone"]}},
}


@pytest.mark.parametrize(("said", "arguments"), REPROCESSED.items())
def test_reprocess(spark, said, arguments):
    with pytest.raises(ValueError, match=re.escape(said)):
        towpath.spark.reprocess(spark, **{"dead_letters": "/lake/dead_letters", **arguments})


REBUILT = {
    "messages: expected a DataFrame": {"messages": None},
    "source_table: expected": {"source_table": ("shop",)},
    "keys: expected a list": {"keys": "id"},
    'shop.a: schema: unknown type "integr"': {"schema": "id integr"},
    "snapshot: expected a DataFrame": {"snapshot": "/dump"},
    "status: expected a path": {"status": 1},
    "columns: expected a mapping": {"columns": ["phone"]},
    "unknown argument tabel": {"tabel": "a"},
}


@pytest.mark.parametrize(("said", "arguments"), REBUILT.items())
def test_rebuild(spark, said, arguments):
    frame = spark.range(0).selectExpr("CAST(id AS timestamp) AS timestamp", "id AS value").selectExpr(*KAFKA)
    arguments = {"messages": frame, "source_table": "shop.a", "target": "/lake/{table}", **arguments}
    with pytest.raises(ValueError, match=re.escape(said)):
        towpath.spark.rebuild(**arguments)
