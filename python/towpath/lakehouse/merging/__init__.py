"""Merges the changes of tables into their targets, by tasks with delta-rs or by Spark."""
