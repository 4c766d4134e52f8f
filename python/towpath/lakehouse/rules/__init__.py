"""Rules for the columns of tables: which are left out, and which are masked."""
