"""What a query says of tables: states, dead letters, quarantine."""
