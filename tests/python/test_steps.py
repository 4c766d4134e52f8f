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
    assert (dict(step.slices), step.statement) == ({}, None)


@pytest.mark.parametrize("seed", range(20))
def test_the_changes_of_each_table_are_applied_once_between_its_statements(seed):
    rng = random.Random(seed)
    statements = [statement(*rng.sample(TABLES, rng.randrange(1, 4))) for _ in range(rng.randrange(1, 12))]
    followed, applied, done = Counter(), Counter(), []
    for step in plan(statements):
        for name, number in step.slices.items():
            assert followed[name] == number
            applied[name, number] += 1
        if step.statement:
            assert set(step.slices) == step.statement.tables, "nothing is left between two statements about a table"
            followed.update(step.statement.tables)
            done.append(step.statement)
    assert done == statements
    changed = {name for one in statements for name in one.tables}
    assert applied == Counter((name, number) for name in changed for number in range(followed[name] + 1))
