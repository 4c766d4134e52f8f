"""A table of the lakehouse equals the source's, despite redelivery and failures.

Captures go through a real Kafka into Delta in many micro-batches. Messages come twice, producers start again from older
positions, the driver is killed with everything it started, and at last the checkpoint is replaced by an old one. Then
each cell is compared with what the source's own tables held.
"""

import random
import zlib
from itertools import pairwise

import pytest

import captures_for_replication as captures
from exactly_once import prove, with_redeliveries
from fidelity import bulk


@pytest.fixture
def report(record_property):
    def say(name, figure):
        record_property(name, figure)
        print(f"{name}: {figure}")

    return say


def test_tables_equal_the_sources_after_kills_and_replays(spark, kafka, tmp_path, report):
    prove(spark, kafka, tmp_path, captures.canal_json_small(), seed=1, report=report)


@bulk
@pytest.mark.soak
@pytest.mark.parametrize("capture", ["canal_json", "canal_protobuf", "debezium_json", "ticdc"])
def test_bulk_tables_equal_the_sources_after_kills_and_replays(spark, kafka, tmp_path, capture, report):
    prove(spark, kafka, tmp_path, getattr(captures, capture)(), seed=zlib.crc32(capture.encode()), report=report)


def test_the_trouble_is_what_it_says():
    records = [captures.Record("t", None, str(number).encode()) for number in range(400)]
    for old_ranges in (False, True):
        sent = [int(record.value) for record in with_redeliveries(records, old_ranges, random.Random(3))]
        assert sorted(set(sent)) == list(range(400))
        steps_back = sum(later < earlier for earlier, later in pairwise(sent))
        # An old range begins with a step back and ends with a step ahead.
        assert steps_back == (7 if old_ranges else 4)
        assert any(later == earlier for earlier, later in pairwise(sent))
