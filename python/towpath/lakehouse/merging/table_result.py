"""What became of a table's changes in a batch."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.lakehouse.seen.status import TableStatus


@dataclass(frozen=True)
class TableResult:
    """A new status, or the error for which the batch has to be read again."""

    status: TableStatus | None = None
    error: Exception | None = None
    others: tuple[TableStatus, ...] = ()
    """Tables that became stale with it."""

    @property
    def statuses(self) -> tuple[TableStatus, ...]:
        """Of all tables."""
        return (self.status, *self.others) if self.status else self.others
