"""The command `towpath` reads topics of a broker."""

import json

import pytest

from lake_topic import canal, row
from towpath.cli import main


@pytest.fixture
def filled(kafka, topic):
    """A topic of two partitions, each with two inserts, and a message that cannot be decoded."""
    kafka.create_topic(topic, 2)
    values = [(canal(at, "INSERT", "orders", row(at, "x"))["value"], at % 2) for at in range(4)]
    kafka.produce(topic, [(None, value, partition) for value, partition in [*values, (b"none", 1)]])
    return ["--kafka", kafka.bootstrap, "--topic", topic]


def test_a_topic_is_read_to_its_end(capsys, filled):
    assert main(["tables", *filled, "--json"]) == 1
    out, err = capsys.readouterr()
    assert {one["table"]: one["rows"] for one in json.loads(out)} == {"shop.orders": 4, "-": 1}
    assert f"{filled[-1]}: message 3, topic {filled[-1]}, partition 1, offset 2: " in err


def test_a_topic_is_read_in_part(capsys, filled):
    assert main(["decode", *filled, "--limit", "3", "--fields", "op"]) == 0
    assert capsys.readouterr().out.splitlines() == ['{"op": "insert"}'] * 3
    assert main(["decode", *filled, "--since", "2100-01-01"]) == 0
    assert capsys.readouterr().out == ""
