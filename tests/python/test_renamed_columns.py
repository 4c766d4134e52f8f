"""Rows of any time of a table find their columns after random statements, or are refused."""

import random

import pytest

pytest.importorskip("pyspark")  # the types of a target are those of Spark

from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from towpath.lakehouse.declarations import Declaration
from towpath.lakehouse.renamed_columns import RenamedColumns
from towpath.lakehouse.target_properties import with_renamed

NAMES = ["a", "b", "c", "d", "e", "Ab"]


class Source:
    """A table, and its target: a number for each column of the target, which keeps those that the source drops."""

    def __init__(self):
        self.target = {"id": 0, "a": 1}
        self.columns, self.dropped, self.renamed = ["id", "a"], set(), {}
        self.versions = []
        self.reused = False

    def declare(self):
        """Remember what a row of now declares."""
        self.versions.append({name: self.target[name] for name in self.columns})

    def step(self, rng):
        # A third column under a name could not be distinguished from both others.
        unknown = {former for former, now in self.renamed.items() if not now}
        free = [one for one in NAMES if one not in self.target and one.lower() not in unknown]
        name = rng.choice(self.columns)
        what = rng.choice(["rename", "rename", "add", "drop"])
        if what == "rename" and free:
            new = rng.choice(free)
            self.reused |= new.lower() in self.renamed
            self.target[new] = self.target.pop(name)
            self.columns[self.columns.index(name)] = new
            self.renamed = with_renamed(self.renamed, name, new)
        elif what == "add" and free:
            new = rng.choice(free)
            self.reused |= new.lower() in self.renamed
            self.target[new] = max(self.target.values()) + 1
            self.columns.append(new)
        # If it got its name by a statement, its former rows cannot be distinguished from those of a later column.
        elif what == "drop" and len(self.columns) > 1 and name not in self.renamed.values():
            self.columns.remove(name)
            self.dropped.add(name.lower())
        self.declare()

    def known(self):
        return RenamedColumns(self.renamed, {name.lower() for name in self.target}, self.dropped)


def test_rows_of_any_time_find_their_columns_or_are_refused():
    refused = 0
    for seed in range(2000):
        rng, source = random.Random(seed), Source()
        source.declare()
        for _ in range(rng.randrange(6)):
            source.step(rng)
        known, now = source.known(), {number: name for name, number in source.target.items()}
        for declared in source.versions:
            if known.unreadable(declared):
                assert source.reused, (seed, declared)
                refused += 1
                continue
            schema = StructType([StructField(name, IntegerType()) for name in declared])
            found = [one.lower() for one in known.columns("t", schema).names]
            assert sorted(found) == sorted(now[number].lower() for number in declared.values()), (seed, declared)
            [key] = known.declarations([Declaration(tuple(declared), True, (None, None))])
            assert [one.lower() for one in key.key] == [now[number].lower() for number in declared.values()]
    assert 0 < refused < 500


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
