"""Rows of any time of a table find their columns after random statements, or are refused."""

import random

import pytest

pytest.importorskip("pyspark")  # the types of a target are those of Spark

from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from towpath.lakehouse.declarations import Declaration
from towpath.lakehouse.renamed_columns import RenamedColumns
from towpath.lakehouse.target_properties import with_renamed, without_added

NAMES = ["a", "b", "c", "d", "e", "Ab"]


class Source:
    """A table, and its target: a number for each column of the target, which keeps those that the source drops."""

    def __init__(self):
        self.target = {"id": 0, "a": 1}
        self.columns, self.renamed = ["id", "a"], {}
        self.versions = []
        self.declare()

    def declare(self):
        """Remember what a row of now declares."""
        self.versions.append({name: self.target[name] for name in self.columns})

    def step(self, rng):
        """A statement. A former name that another column gets is read as that one: no older row counts any more."""
        free = [one for one in NAMES if one not in self.target]
        name, new = rng.choice(self.columns), rng.choice(free) if free else None
        what = rng.choice(["rename", "rename", "add", "drop"])
        if new is not None and what != "drop" and new.lower() in self.renamed:
            self.versions.clear()
        if what == "rename" and new is not None:
            self.target[new] = self.target.pop(name)
            self.columns[self.columns.index(name)] = new
            self.renamed = with_renamed(self.renamed, name, new)
        elif what == "add" and new is not None:
            self.target[new] = max(self.target.values()) + 1
            self.columns.append(new)
            self.renamed = without_added(self.renamed, [new])
        elif what == "drop" and len(self.columns) > 1:
            self.columns.remove(name)
        self.declare()


def test_rows_of_any_time_find_their_columns():
    compared = 0
    for seed in range(2000):
        rng, source = random.Random(seed), Source()
        for _ in range(rng.randrange(7)):
            source.step(rng)
        known = RenamedColumns(source.renamed, {name.lower() for name in source.target})
        now = {number: name.lower() for name, number in source.target.items()}
        for declared in source.versions:
            assert known.unreadable(declared) == [], (seed, declared)
            schema = StructType([StructField(name, IntegerType()) for name in declared])
            wanted = [now[number] for number in declared.values()]
            assert [one.lower() for one in known.columns("t", schema).names] == wanted, (seed, declared)
            [declaration] = known.declarations([Declaration(tuple(declared), True, (None, None))])
            assert [one.lower() for one in declaration.key] == wanted
            compared += any(name.lower() not in wanted for name in declared)
    assert compared > 1000


def test_a_declaration_of_both_names_is_refused():
    assert RenamedColumns({"name": "title"}, {"id", "title"}).unreadable(["id", "NAME", "Title"]) == ["name"]


def test_a_column_under_both_names_has_a_type_for_both():
    known = RenamedColumns({"name": "title"}, {"id", "title"})
    declared = StructType(
        [StructField("id", LongType()), StructField("NAME", LongType()), StructField("title", IntegerType())]
    )
    assert known.columns("t", declared) == StructType([StructField("id", LongType()), StructField("title", LongType())])


def test_a_column_that_was_not_renamed_yet_is_read_by_its_name():
    """The driver ended between the property and the column."""
    known = RenamedColumns({"name": "title"}, {"id", "name"})
    assert (known.aliases, known.unreadable(["id", "name"])) == ({}, [])


def test_what_a_former_version_remembered_is_refused():
    assert RenamedColumns({"name": ""}, {"id", "title"}).unreadable(["id", "name"]) == ["name"]
