"""What a type checker says of programs: a wrong name or text of an argument is an error, and a stream has a query."""

import inspect
import sys
from pathlib import Path
from typing import Any

import pytest
from mypy import api

import towpath
from towpath.arguments import RowOptions, ValueOptions
from towpath.decoder import PARAMETERS
from towpath.lakehouse.replicate_options import OfOneStream, OfStreamsOfTopics

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

NAMES = """
import pyarrow as pa
from pyspark.sql import DataFrame

import towpath
import towpath.spark

towpath.Decoder("canal-json", tabel="orders")  # error
towpath.Decoder("canal-json", unwraped=True)  # error
towpath.Decoder("canal-json", table="orders", unwrapped=True)


def run(frame: DataFrame) -> None:
    towpath.spark.decode(frame, "canal-json", layuot="upsert")  # error
    changes = towpath.spark.decode(frame, "canal-json", layout="upsert", keep=["offset"])
    towpath.spark.from_cdc("value", "canal-json", modus="FAILFAST")  # error
    towpath.spark.from_cdc("value", "canal-json", mode="FAILFAST", offset="offset")
    towpath.spark.replicate(frame, "/lake/{table}", tabel="orders")  # error
    towpath.spark.replicate(frame, "/lake/{table}", keyless="drop")  # error
    towpath.spark.replicate(frame, "/lake/{table}", keep=["offset"])  # error
    towpath.spark.replicate(frame, "/lake/{table}", trigger={"once": True})  # error
    towpath.spark.replicate(frame, "/lake/{table}", keyless="append", table="orders")
    towpath.spark.replicate(frame, "/lake/{table}", checkpoint="/c", trigger={"once": True}).awaitTermination()
    towpath.spark.replicate(frame, "/lake/{table}").awaitTermination()  # error
    towpath.spark.apply_changes(changes, "/lake/t", ["id"], checkpoint="/c").awaitTermination()
    towpath.spark.apply_changes(changes, "/lake/t", ["id"], soft_delete="d")  # error
    towpath.spark.apply_changes(changes, "/lake/t", ["id"], soft_deletes="d")
    towpath.spark.rebuild(frame, "a.b", "/lake/{table}", snapshots=frame)  # error
    towpath.spark.reprocess(frame.sparkSession, dead_letter="/lake/d")  # error
"""

TEXTS = """
import towpath
import towpath.spark
from pyspark.sql import DataFrame


def use(df: DataFrame) -> None:
    towpath.Decoder("canal-json", layout="upsert", mode="FAILFAST", fields=["_op"], zero_date="text", missing="error")
    towpath.spark.decode(df, "ticdc-open", fields=["op"])
    towpath.infer_schema([b""], "auto")
    towpath.Decoder("canel-json")  # error
    towpath.Decoder(layout="flat")  # error
    towpath.Decoder(mode="failfast")  # error
    towpath.Decoder(fields=["opp"])  # error
    towpath.Decoder(zero_date="nul")  # error
    towpath.Decoder(compression="lzo")  # error
    towpath.Decoder(missing="no")  # error
    towpath.spark.decode(df, "canel-json")  # error
    towpath.infer_schema([b""], "canel-json")  # error
"""


def test_mypy_finds_wrong_arguments_and_nothing_else(tmp_path):
    """In one run, with the settings and so the cache of `make lint`."""
    programs = {"names.py": NAMES, "texts.py": TEXTS}
    for name, program in programs.items():
        (tmp_path / name).write_text(program)
    settings = str(ROOT / "pyproject.toml")
    limit = sys.getrecursionlimit()
    printed, _, status = api.run([*(str(tmp_path / name) for name in programs), "--config-file", settings])
    sys.setrecursionlimit(limit)  # mypy's own would let other tests of this process nest deeper
    errors = [line for line in printed.splitlines() if ": error: " in line]
    found = {(Path(line.split(":")[0]).name, int(line.split(":")[1])) for line in errors}
    wanted = {
        (name, number)
        for name, program in programs.items()
        for number, line in enumerate(program.splitlines(), 1)
        if line.endswith("# error")
    }
    assert (status, found) == (1, wanted), errors


def _arguments(function: Any, *positional: str) -> set[str]:
    """The named arguments of a function."""
    return set(inspect.signature(function).parameters) - {*positional, "options"}


def test_the_types_have_every_argument():
    of_dialects = set(ValueOptions.__annotations__) - set(PARAMETERS)
    own = {"dialect", "schema", "keep", "value", "key"}
    assert set(RowOptions.__annotations__) == (set(PARAMETERS) - own) | of_dialects
    topics = _arguments(towpath.spark.replicate, "messages", "target", "dialect", "checkpoint")
    assert set(OfStreamsOfTopics.__annotations__) == topics | set(ValueOptions.__annotations__)
    one = _arguments(towpath.spark.apply_changes, "changes", "target", "keys", "checkpoint")
    assert set(OfOneStream.__annotations__) == one


def test_the_types_are_those_of_the_signatures():
    for types, function in (
        (RowOptions, towpath.Decoder.__new__),
        (OfStreamsOfTopics, towpath.spark.replicate),
        (OfOneStream, towpath.spark.apply_changes),
    ):
        declared = inspect.signature(function).parameters
        for name, kind in types.__annotations__.items():
            if name in declared:
                assert kind.__forward_arg__ == declared[name].annotation, name


def test_completion_offers_what_is_documented():
    decoder = towpath.Decoder("canal-json")
    assert all(
        not name.startswith("_") and getattr(decoder, name) is not None
        for name in dir(decoder)
        if name != "spark_schema"
    )
    page = (ROOT / "docs" / "api.md").read_text()
    for name in dir(decoder):
        assert f"Decoder.{name}" in page, name
