"""The verbs of the command, one module for each."""
