"""A message is decoded by its own dialect: alone, under `auto`, and among messages of every other dialect."""

import random

import pyarrow as pa
import pytest

import all_golden
import kafka_records
import towpath
from kafka_records import Record

# The rows of ticdc-avro look like those of debezium-avro until their schema is known: test_ticdc_avro.py has schemas.
DIALECTS = [dialect["name"] for dialect in towpath.dialects() if dialect["name"] != "ticdc-avro"]
CAPTURES = {dialect: all_golden.captures(dialect) for dialect in DIALECTS}
NAMED = {capture.name: (dialect, capture) for dialect, captures in CAPTURES.items() for capture in captures}


@pytest.mark.parametrize("name", NAMED)
def test_every_message_is_detected(name):
    dialect, capture = NAMED[name]
    values = {record.value for record in capture.records} - {None}
    assert {towpath.detect(value) for value in values} == {dialect}


@pytest.mark.parametrize("name", NAMED)
def test_auto_decodes_what_the_dialects_own_name_does(name):
    dialect, capture = NAMED[name]
    batch = capture.batch()
    own = towpath.Decoder(dialect, key="key").decode(batch)
    assert towpath.Decoder(key="key").decode(batch).equals(own)


SOME = 30  # of each capture


@pytest.fixture(scope="module")
def topic():
    """Some messages of every capture, shuffled, each with its dialect: compressed ones and tombstones too."""
    rng = random.Random(1)
    chosen = [
        (dialect, record)
        for dialect, capture in NAMED.values()
        for record in rng.sample(capture.records, min(SOME, len(capture.records)))
    ]
    rng.shuffle(chosen)
    return chosen


def test_each_message_of_a_mixed_topic_decodes_as_it_does_alone(topic):
    rows = decoded("auto", [record for _, record in topic])
    for dialect in DIALECTS:
        places = [place for place, (own, _) in enumerate(topic) if own == dialect]
        alone = decoded(dialect, [topic[place][1] for place in places])
        assert [rows[place] for place in places] == alone


def decoded(dialect, records):
    """For each record, its rows."""
    batch = kafka_records.batch(records)
    batch = batch.append_column("offset", pa.array(range(len(records)), pa.int64()))
    rows = [[] for _ in records]
    for row in towpath.Decoder(dialect, key="key", keep=["offset"]).decode(batch).to_pylist():
        rows[row.pop("offset")].append(row)
    return rows


def test_a_mixed_topic_has_something_of_everything(topic):
    """Makes sure that the previous test can fail."""
    assert {dialect for dialect, _ in topic} == {dialect for dialect, captures in CAPTURES.items() if captures}
    assert any(record.value is None for _, record in topic)
    assert any(record.value and not record.value.isascii() for _, record in topic)


def test_bad_messages_in_a_mixed_topic_change_nothing_else(topic):
    records = [record for _, record in topic]
    bad = [Record("", None, value) for value in UNKNOWN]
    rows = decoded("auto", [record for pair in zip(records, bad * len(records), strict=False) for record in pair])
    assert rows[::2] == decoded("auto", records)
    assert all(row["op"] == "error" for [row] in rows[1::2])


UNKNOWN = [b"{}", b'{"a":1}', b'[{"id":1}]', b'"text"', b"\x00\x01\x02\x03", b"\xff" * 40]


@pytest.mark.parametrize("value", UNKNOWN)
def test_what_is_not_recognised_is_an_error_that_names_what_was_tried(value):
    assert towpath.detect(value) is None
    [row] = towpath.Decoder(compression="none").decode(pa.array([value])).to_pylist()
    assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
    assert all(dialect in row["error"]["message"] for dialect in DIALECTS)
    assert row["_corrupt_record"] == value
    with pytest.raises(towpath.DecodeError) as caught:
        towpath.Decoder(mode="FAILFAST", compression="none").decode(pa.array([value]))
    assert (caught.value.kind, caught.value.dialect) == ("envelope", "auto")
