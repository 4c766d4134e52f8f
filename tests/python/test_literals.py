"""The types of arguments are what the native decoder accepts."""

from typing import get_args

import pytest

import towpath
from towpath import literals

NAMES = {
    "layout": "Layout",
    "mode": "Mode",
    "zero_date": "ZeroDate",
    "compression": "Compression",
    "missing": "Missing",
}


def allowed(**arguments):
    with pytest.raises(ValueError, match="expected one of ") as refused:
        towpath.Decoder("canal-json", **arguments)
    return str(refused.value).partition("expected one of ")[2].split(", ")


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
