"""The code of docs/recipes.md runs, and gives the rows that the messages say."""

from decimal import Decimal

import pytest

from documents import blocks, run

START, PANDAS, POLARS, DUCKDB, DUCKDB_FILE, CONSUMER = blocks("docs/recipes.md")


@pytest.fixture
def names():
    found = {}
    run("docs/recipes.md", START, found)
    return found


def test_pandas(names):
    run("docs/recipes.md", PANDAS, names)
    assert names["rows"]["total"].tolist() == [Decimal("9.99"), Decimal("12.50")]
    assert names["rows"]["_op"].tolist() == ["insert", "update"]


def test_polars(names, capsys):
    pytest.importorskip("polars")
    run("docs/recipes.md", POLARS, names)
    assert names["rows"]["total"].to_list() == [Decimal("9.99"), Decimal("12.50")]
    printed = capsys.readouterr().out
    assert "12.50" in printed
    assert "9.99" not in printed


def test_duckdb(names, capsys, tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    run("docs/recipes.md", DUCKDB, names)
    printed = capsys.readouterr().out
    assert "largest" in printed
    assert "12.50" in printed
    run("docs/recipes.md", DUCKDB_FILE, names)
    assert capsys.readouterr().out == "2\n"


class Record:
    """A message as confluent_kafka has it."""

    def __init__(self, offset, value, error=None):
        self.offset, self.value, self.error = (lambda: offset), (lambda: value), (lambda: error)
        self.topic, self.partition = (lambda: "binlog"), (lambda: 3)


class Consumer:
    """Returns two messages and an error, as `consume` does at the end of a partition."""

    def __init__(self, messages):
        self.records = [*(Record(100 + at, message) for at, message in enumerate(messages)), Record(-1, None, "end")]

    def consume(self, most, seconds):
        found, self.records = self.records[:most], self.records[most:]
        return found


def test_the_consumer(names):
    run("docs/recipes.md", CONSUMER, names)
    consumer = Consumer(names["messages"])
    rows = names["decode_next"](consumer).to_pylist()
    assert [(row["_op"], row["id"], row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("insert", 7, "binlog", 3, 100),
        ("update", 7, "binlog", 3, 101),
    ]
    assert names["decode_next"](consumer).num_rows == 0
