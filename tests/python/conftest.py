"""Fixtures that several files use, and the counts of the fidelity tests: a line for each capture."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from canal_messages import MIXED
from fidelity import Score

COUNTED = pytest.StashKey[dict[str, Score]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COUNTED] = {}


@pytest.fixture
def score(request: pytest.FixtureRequest) -> Iterator[Score]:
    """Counts cells; the test's parameters are the capture's name."""
    score = Score()
    yield score
    module = request.node.path.stem.removeprefix("test_fidelity").strip("_")
    request.config.stash[COUNTED][f"{module}: {request.node.name.removeprefix('test_')}"] = score


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    counted = config.stash[COUNTED]
    if counted:
        terminalreporter.section("cells that equal the truth")
    for name, score in counted.items():
        terminalreporter.write_line(f"{name}: {score}")
    destroyed = sum((Counter(score.destroyed) for score in counted.values()), Counter())
    if destroyed:
        terminalreporter.section("cells that the producer itself destroyed: what it made of them is demanded")
    for reason, count in sorted(destroyed.items()):
        terminalreporter.write_line(f"{count} {reason}")


@pytest.fixture
def mixed(tmp_path):
    """The path of a file with messages of several kinds."""
    path = tmp_path / "mixed.jsonl"
    path.write_bytes(b"\n".join(MIXED) + b"\n")
    return str(path)
