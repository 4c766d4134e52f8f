"""In which order a batch is applied to tables that statements change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from towpath.lakehouse.ordered_statements import Statement


@dataclass(frozen=True)
class Step:
    """Changes that come before a statement, then the statement."""

    slices: Mapping[tuple[str, str], int]
    """Of each table that the statement changes, the changes after so many statements about this table."""
    statement: Statement | None
    """None at the end of the batch."""


def plan(statements: Sequence[Statement]) -> list[Step]:
    """The steps of a batch.

    Args:
        statements: The statements, oldest first.
    """
    followed: Counter[tuple[str, str]] = Counter()
    steps = []
    for statement in statements:
        steps.append(Step({name: followed[name] for name in statement.tables}, statement))
        followed.update(statement.tables)
    return [*steps, Step(followed, None)]
