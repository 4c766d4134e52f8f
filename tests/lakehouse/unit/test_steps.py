"""In which order a batch is applied to tables that statements change, without Spark."""

import random
from collections import Counter

import pytest

from towpath.lakehouse.ordered_statements import Place, Statement
from towpath.lakehouse.statements import TableName, TruncateTable
from towpath.lakehouse.steps import plan

TABLES = [("shop", name) for name in "abcd"]


def statement(*tables):
    actions = tuple(TruncateTable(TableName(*name)) for name in tables)
    return Statement(Place({}), "", None, None, actions)


def test_without_statements_all_changes_are_one_step():
    [step] = plan([])
    assert (dict(step.slices), step.statements) == ({}, ())


def test_statements_about_different_tables_are_one_step():
    both, first, second, again = (
        statement(*TABLES[:2]),
        statement(TABLES[2]),
        statement(TABLES[3]),
        statement(TABLES[1]),
    )
    found = plan([both, first, again, second])
    assert [list(step.statements) for step in found] == [[both, first, second], [again], []]


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_changes_of_each_table_are_applied_once_between_its_statements(seed, one_by_one):
    rng = random.Random(seed)
    statements = [statement(*rng.sample(TABLES, rng.randrange(1, 4))) for _ in range(rng.randrange(1, 12))]
    followed, applied, done = Counter(), Counter(), []
    *steps, last = plan(statements, one_by_one=one_by_one)
    for step in [*steps, last]:
        for name, number in step.slices.items():
            assert followed[name] == number
            applied[name, number] += 1
        names = [name for one in step.statements for name in one.tables]
        followed.update(names)
        done += step.statements
        if step is not last:
            assert sorted(step.slices) == sorted(names), "nothing is left between two statements about a table"
    assert len(done) == len(statements)
    for table in TABLES:
        about = [[id(one) for one in some if table in one.tables] for some in (done, statements)]
        assert about[0] == about[1]
    changed = {name for one in statements for name in one.tables}
    assert applied == Counter((name, number) for name in changed for number in range(followed[name] + 1))
    assert len(steps) == (len(statements) if one_by_one else longest(statements)), "no step is too many"


def longest(statements):
    """The length of the longest chain of statements, each of which has a table of the one before it."""
    lengths = []
    for at, one in enumerate(statements):
        before = [lengths[other] for other in range(at) if one.tables & statements[other].tables]
        lengths.append(1 + max(before, default=0))
    return max(lengths)
