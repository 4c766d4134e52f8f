"""Rules for the columns of tables: excluded columns and masked columns."""
