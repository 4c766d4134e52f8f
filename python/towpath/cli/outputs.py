"""Checks that an output does not overwrite other files."""

from __future__ import annotations

import os
from collections.abc import Iterable


def check_output(output: str, sources: Iterable[str], force: bool) -> None:
    """Raise if writing a file would destroy data.

    Args:
        output: File to write. "-" is standard output.
        sources: Local files that are read.
        force: Whether an existing file may be overwritten.

    Raises:
        ValueError: The output is one of the files that are read, regardless of `force`, or it is a folder.
        FileNotFoundError: Its folder does not exist.
        FileExistsError: The output exists.
    """
    if output == "-":
        return
    folder = os.path.dirname(output) or "."
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"-o {output}: there is no folder {folder}; create it")
    if not os.path.lexists(output):
        return
    if os.path.isdir(output):
        raise ValueError(f"-o {output} is a folder; name a file")
    if any(os.path.exists(source) and os.path.samefile(source, output) for source in sources):
        raise ValueError(f"-o {output} is an input file; name another output")
    if not force:
        raise FileExistsError(f"-o {output} exists; --force overwrites it")
