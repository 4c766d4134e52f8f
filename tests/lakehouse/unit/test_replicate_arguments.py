"""A wrong argument of `replicate` is an error at the call, before anything is read."""

import inspect
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from towpath.lakehouse.apply_changes import applier, apply_changes
from towpath.lakehouse.replicate import replicate
from towpath.lakehouse.replicate_options import ReplicateOptions
from towpath.lakehouse.reprocess import reprocess
from towpath.lakehouse.tables.targets import Targets

WRONG = {
    "keys: expected a mapping": {"keys": ["id"]},
    "keys: t: expected a list": {"keys": {"t": "id"}},
    "keys: t: expected a list of columns": {"keys": {"t": [1]}},
    "schemas: expected a mapping": {"schemas": "id int"},
    "schemas: expected a mapping such": {"schemas": {("shop", "a"): "id int"}},
    'shop.a: schema: unknown type "integr"': {"schemas": {"shop.a": "id integr"}},
    "shop.a: unknown argument zero_dates; did you mean zero_date?": {"table_options": {"shop.a": {"zero_dates": "x"}}},
    "table_options: shop.a: expected a mapping": {"table_options": {"shop.a": "zero_date=error"}},
    "mode: not allowed, since replicate sets it": {"table_options": {"shop.a": {"mode": "FAILFAST"}}},
    "cluster_by: expected a mapping": {"cluster_by": ["id"]},
    "trigger: expected a mapping": {"trigger": "availableNow"},
    "trigger: did you mean processingTime? expected": {"trigger": {"processing_time": "1 second"}},
    'on_table_error: did you mean fail? expected "quarantine" or "fail"': {"on_table_error": "fails"},
    "ddl_policy: did you mean follow?": {"ddl_policy": "Follow"},
    'keyless: expected "quarantine" or "append"': {"keyless": "drop"},
    'merge: did you mean task? expected "auto" or "spark" or "task"': {"merge": "tasks"},
    "storage_options: aws_region: expected a string, not 1": {"storage_options": {"aws_region": 1}},
    "history: expected a boolean or a collection": {"history": "shop.a"},
    "dead_letters: expected a path or the name of a table": {"dead_letters": 1},
    "unknown argument tabel; did you mean table?": {"tabel": "a"},
    "unknown argument dead_leters; did you mean dead_letters?": {"dead_leters": "/lake/dead"},
    "unknown argument shemas; did you mean schemas?": {"shemas": {}},
    "keep: not allowed, since replicate sets it": {"keep": "offset"},
    "evolve: expected True or False": {"evolve": 1},
    "parallelism: expected a positive integer": {"parallelism": "4"},
    "optimize_every: expected a positive integer or None": {"optimize_every": 0},
    "soft_deletes: expected a non-empty string": {"soft_deletes": ""},
    "columns: shop.a: expected a mapping": {"columns": {"shop.a": ["phone"]}},
    "columns: shop.a: unknown rule 'omit'": {"columns": {"shop.a": {"omit": ["a"]}}},
    "include: expected a collection": {"columns": {"shop.a": {"include": "id"}}},
    "mask: expected a mapping": {"columns": {"shop.a": {"mask": ["id"]}}},
    "table_properties: a: expected a string": {"table_properties": {"a": 1}},
    "messages: expected a DataFrame, not NoneType": {},
}


@pytest.mark.parametrize(("said", "arguments"), WRONG.items())
def test_wrong_arguments(said, arguments):
    with pytest.raises(ValueError, match=re.escape(said)):
        replicate(None, "/lake/{database}/{table}", **arguments)


def test_a_frame_of_pandas_is_named():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"messages: expected a DataFrame, not one of pandas; convert it with spark\."):
        replicate(pandas.DataFrame(), "/lake/{database}/{table}")


@pytest.mark.parametrize("target", [None, 5])
def test_a_target_of_another_type(target):
    with pytest.raises(ValueError, match=f"target: expected a template such as .*, not {target}"):
        Targets(target)


def test_a_target_may_be_a_path():
    assert Targets(Path("/lake/{database}/{table}"))("shop", "a") == "/lake/shop/a"


def test_defaults_are_those_of_the_signatures():
    found = {one.name: one.default for one in fields(ReplicateOptions) if one.default is not MISSING}
    del found["waited"]  # only `reprocess` sets it
    assert found.keys() - {"dialect"} == found.keys() & inspect.signature(replicate).parameters.keys() - {"dialect"}
    for function in (replicate, reprocess, apply_changes, applier):
        parameters = inspect.signature(function).parameters
        shared = found.keys() & parameters.keys() - (
            {"dialect"} if function in (replicate, reprocess) else {"cluster_by"}
        )
        assert {name: parameters[name].default for name in shared} == {name: found[name] for name in shared}
