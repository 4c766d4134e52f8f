"""What a query reports about tables: states, dead letters, quarantine."""
