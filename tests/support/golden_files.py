"""Reads `tests/golden`: real messages, and the truth, which is from the database or the producer's input."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

GOLDEN = Path(__file__).parents[1] / "golden" / "canal-json"

# One capture of each producer of canal-json: folder and file.
CAPTURES = [
    "canal-mysql/mixed.flat.jsonl.zst",
    "canal-maria/mixed.flat.jsonl.zst",
    "canal-gtid/mixed.flat.jsonl.zst",
    "ticdc/canal_json_stream_ext.jsonl.zst",
    "ticdc/canal_json_default.jsonl.zst",
    "cloudcanal/small.jsonl",
    "tencent/small.jsonl",
]


def lines(name: str) -> list[bytes]:
    """The lines of a golden file, decompressed if its name ends in .zst."""
    path = GOLDEN / name
    with pa.input_stream(str(path), compression="zstd" if path.suffix == ".zst" else None) as file:
        return file.read().splitlines()


def messages(name: str) -> pa.Array:
    """The messages of a capture as an Arrow array."""
    return pa.array(lines(name), pa.binary())


def truth(name: str) -> list[dict[str, Any]]:
    """A truth file, one dict per line."""
    return [json.loads(line) for line in lines(name)]
