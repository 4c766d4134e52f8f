"""Puts a golden capture into the folder from which the pipeline reads, as a copy of a topic."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

CAPTURE = Path(__file__).parents[2] / "tests" / "golden" / "canal-json" / "canal-mysql" / "mixed.flat.jsonl.zst"


def write(folder: Path, files: int = 2) -> None:
    """Write all messages in their order, as several files."""
    with pa.input_stream(str(CAPTURE)) as capture:
        values = capture.read().splitlines()
    messages = pa.table({"offset": pa.array(range(len(values)), pa.int64()), "value": pa.array(values, pa.binary())})
    folder.mkdir(exist_ok=True)
    size = -(-len(values) // files)
    for at in range(files):
        parquet.write_table(messages.slice(at * size, size), folder / f"{at}.parquet")


if __name__ == "__main__":
    write(Path(__file__).parent / "messages")
