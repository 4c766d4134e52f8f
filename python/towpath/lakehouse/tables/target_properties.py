"""Properties of a target: its source table, its key, and the renames that gave it its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable

from towpath.lakehouse.log.ordered_statements import Place

SOURCE = "towpath.source"
"""The table that a target was created for."""

KEY = "towpath.key"
"""The columns of the key."""

PARTIAL = "towpath.partial"
"""`true` if rows may have got updates of some of their columns only."""

GIVEN = "towpath.given"
"""The places of the last RENAME TABLE that gave each table of the target its rows."""

REBUILT = "towpath.rebuilt"
"""The place of the last statement about the table before its target was rebuilt."""

NOTHING_FOLLOWED = {GIVEN: "[]", PARTIAL: "false"}
"""What a target says that has followed no statement."""


def with_place(places: Iterable[Place], place: Place) -> list[Place]:
    """The places after one more, which replaces that of its partition."""
    return [*(one for one in places if not place.replaces(one)), place]


def places_text(places: Iterable[Place]) -> str:
    """Places as the text of a property."""
    return json.dumps([dict(one.fields) for one in places])
