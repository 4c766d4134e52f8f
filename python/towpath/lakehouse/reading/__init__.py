"""Reads messages: what each of them changes, and the changes of one table as a frame."""
