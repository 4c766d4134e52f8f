"""The statements that were read, and what they say of a table."""
