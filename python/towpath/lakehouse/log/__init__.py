"""The statements that a query has read, and their effects on tables."""
