"""Reads messages: the tables that each message changes, and the changes of one table as a frame."""
