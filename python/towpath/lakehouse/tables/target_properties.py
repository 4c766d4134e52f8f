"""Properties of a target: its source table, its key, and whether its rows may lack columns."""

SOURCE = "towpath.source"
"""The table that a target was created for."""

KEY = "towpath.key"
"""The columns of the key."""

PARTIAL = "towpath.partial"
"""`true` if rows may have got updates of some of their columns only."""
