"""Reports of a query about tables: states, dead letters, quarantine."""
