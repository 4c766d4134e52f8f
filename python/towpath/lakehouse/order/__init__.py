"""The order of changes, in Arrow and in SQL."""
