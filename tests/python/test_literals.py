"""The types of arguments are what the native decoder accepts, and a type checker rejects a typo."""

from typing import get_args

import pytest
from mypy import api

import towpath
from documents import ROOT
from towpath import literals

NAMES = {
    "layout": "Layout",
    "mode": "Mode",
    "zero_date": "ZeroDate",
    "compression": "Compression",
    "missing": "Missing",
}


def allowed(**arguments):
    with pytest.raises(ValueError, match="allowed are ") as refused:
        towpath.Decoder("canal-json", **arguments)
    return str(refused.value).partition("allowed are ")[2].split(", ")


@pytest.mark.parametrize("argument", NAMES)
def test_a_literal_has_the_texts_that_are_allowed(argument):
    assert sorted(get_args(getattr(literals, NAMES[argument]))) == sorted(allowed(**{argument: "x"}))


def test_dialects_and_their_aliases():
    names = [name for one in towpath.dialects() for name in (one["name"], *one["aliases"])]
    assert list(get_args(literals.Dialect)) == ["auto", *names]


def test_fields_of_every_layout():
    layouts = get_args(literals.Layout)
    fields = [field for layout in layouts for field in allowed(schema="id int", layout=layout, fields=["x"])]
    assert set(get_args(literals.Field)) == set(fields)


PROGRAM = """
import towpath
import towpath.spark
from pyspark.sql import DataFrame

def use(df: DataFrame) -> None:
    towpath.Decoder("canal-json", layout="upsert", mode="FAILFAST", fields=["_op"], zero_date="text", missing="error")
    towpath.spark.decode(df, "ticdc-open", fields=["op"])
    towpath.infer_schema([b""], "auto")
    towpath.Decoder("canel-json")
    towpath.Decoder(layout="flat")
    towpath.Decoder(mode="failfast")
    towpath.Decoder(fields=["opp"])
    towpath.Decoder(zero_date="nul")
    towpath.Decoder(compression="lzo")
    towpath.Decoder(missing="no")
    towpath.spark.decode(df, "canel-json")
    towpath.infer_schema([b""], "canel-json")
"""


def test_a_typo_fails_mypy(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    found, _, status = api.run([str(path), "--config-file", str(ROOT / "pyproject.toml")])
    wrong = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if number > 9 and line.strip()]
    lines = [int(line.split(":")[1]) for line in found.splitlines() if "program.py" in line and ": error: " in line]
    assert (status, lines) == (1, wrong), found
