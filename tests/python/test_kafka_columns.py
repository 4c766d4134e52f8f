"""Kafka's records as columns: what producers may set freely does not stop a topic."""

import random
from datetime import datetime, timedelta, timezone

import pytest

from towpath.spark.kafka.columns import to_batch

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Record:
    """As `confluent_kafka.Message`. `headers` is an exception if the client cannot read them."""

    def __init__(self, offset, time, headers=None):
        self._offset, self._time, self._headers = offset, time, headers

    def topic(self):
        return "a\x1b[2Jtopic"

    def partition(self):
        return 3

    def offset(self):
        return self._offset

    def timestamp(self):
        return 1, self._time

    def headers(self):
        if isinstance(self._headers, Exception):
            raise self._headers
        return self._headers


def wanted(time):
    """What Python's own calendar says."""
    try:
        return EPOCH + timedelta(milliseconds=time)
    except OverflowError:
        return None


@pytest.mark.parametrize("seed", range(20))
def test_any_timestamp_is_a_time_or_null_with_a_warning(seed, caplog):
    rng = random.Random(seed)
    edges = [-1, 0, 2**62, -(2**63), 2**63 - 1, -62_135_596_800_000, -62_135_596_800_001, 253_402_300_799_999]
    times = [rng.choice([*edges, 253_402_300_800_000, rng.randrange(2**41), rng.getrandbits(64) - 2**63])]
    times += [rng.choice([1_700_000_000_000, *edges]) for _ in range(rng.randrange(6))]
    batch = to_batch([Record(offset, time) for offset, time in enumerate(times)], ["offset", "timestamp"])
    assert batch.column("timestamp").to_pylist() == [wanted(time) for time in times]
    warned = [record.getMessage() for record in caplog.records]
    nulls = [(offset, time) for offset, time in enumerate(times) if wanted(time) is None]
    assert len(warned) == len(nulls)
    for text, (offset, time) in zip(warned, nulls, strict=True):
        assert f"partition 3, offset {offset}: timestamp {time} " in text
        assert "\x1b" not in text


@pytest.mark.parametrize(
    "error", [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), SystemError("an exception set")]
)
def test_headers_that_are_no_text_are_left_out_with_a_warning(error, caplog):
    good = [("k", b"v"), ("", None)]
    batch = to_batch([Record(0, 1, good), Record(1, 1, error), Record(2, 1, None)], ["headers"])
    assert batch.column("headers").to_pylist() == [
        [{"key": "k", "value": b"v"}, {"key": "", "value": None}],
        None,
        None,
    ]
    (record,) = caplog.records
    assert "partition 3, offset 1: a header key is not UTF-8" in record.getMessage()
