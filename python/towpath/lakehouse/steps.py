"""In which order a batch is applied to tables that statements change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from towpath.lakehouse.ordered_statements import Statement


@dataclass(frozen=True)
class Step:
    """Changes that come before statements, then the statements."""

    slices: Mapping[tuple[str, str], int]
    """Of each table that the statements change, the changes after so many statements about this table."""
    statements: Sequence[Statement]
    """Oldest first. Empty at the end of the batch."""


def plan(statements: Sequence[Statement], *, one_by_one: bool = False) -> list[Step]:
    """The steps of a batch: as few as possible, since each of them is a round of Spark jobs.

    Statements about different tables are in one step. Those about the same table are in steps after each other.

    Args:
        statements: The statements, oldest first.
        one_by_one: Whether each statement is a step of its own, as those about other tables may matter to it.
    """
    last: dict[tuple[str, str], int] = {}
    steps: list[list[Statement]] = []
    for statement in statements:
        number = len(steps) if one_by_one else 1 + max((last.get(name, -1) for name in statement.tables), default=-1)
        if number == len(steps):
            steps.append([])
        steps[number].append(statement)
        last |= dict.fromkeys(statement.tables, number)
    followed: Counter[tuple[str, str]] = Counter()
    found = []
    for of_step in steps:
        names = [name for one in of_step for name in one.tables]
        found.append(Step({name: followed[name] for name in names}, of_step))
        followed.update(names)
    return [*found, Step(followed, ())]
