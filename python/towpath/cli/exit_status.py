"""Exit statuses of the command."""

SUCCESS, DECODE_ERRORS, FAILURE, INTERRUPTED = 0, 1, 2, 130

EPILOG = """exit status: 0 on success; 1 if there were messages or values that cannot be read, messages of no known
dialect, or none that the filter lets through; 2 if the command failed; 130 if it was interrupted"""
