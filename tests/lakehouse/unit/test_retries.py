"""Which errors of a writer another attempt cures."""

import pytest

from towpath.lakehouse.merging.retries import is_conflict, with_retries


def test_conflicts_are_retried_and_other_errors_are_not():
    attempts = []

    def fails_twice():
        attempts.append(1)
        if len(attempts) < 3:
            raise RuntimeError(
                "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] files were added"
            )
        return "done"

    assert with_retries(fails_twice) == "done"
    assert len(attempts) == 3
    assert not is_conflict(ValueError("no such column"))
    with pytest.raises(ValueError, match="no such column"):
        with_retries(lambda: (_ for _ in ()).throw(ValueError("no such column")))
