"""Exit statuses of the command."""

SUCCESS, DECODE_ERRORS, FAILURE, INTERRUPTED = 0, 1, 2, 130

EPILOG = """exit status: 0 if all is well; 1 if there were messages or values that cannot be read, messages of no known
dialect, or none that the filter lets through; 2 if the command could not be carried out; 130 if it was interrupted"""
