"""The licences of the crates in the wheel: `python tests/support/third_party.py` writes the file with them.

MIT, BSD and Zlib ask for their notices in binary copies. cargo knows which crates the wheel has; their sources have the
texts.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILE = ROOT / "THIRD-PARTY-LICENSES.txt"

PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-musl", "aarch64-apple-darwin", "x86_64-pc-windows-msvc")
"""Of the wheels that are released."""

_NAMES = ("LICEN", "COPYING", "NOTICE", "UNLICENSE")
_TITLE = "The crates that are compiled into towpath's wheels, and their licences. Apache-2.0 is in LICENSE."
_RULE = "=" * 100


def crates() -> list[dict[str, Any]]:
    """The packages that are compiled into the wheel, without those that only run while it is built."""
    options = [f"--filter-platform={platform}" for platform in PLATFORMS]
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--features=python", *options]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {one["id"]: one for one in found["packages"]}
    nodes = {one["id"]: one for one in found["resolve"]["nodes"]}
    root = found["resolve"]["root"]
    reached, waiting = {root}, [root]
    while waiting:
        for one in nodes[waiting.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in one["dep_kinds"])
            is_macro = any("proc-macro" in target["kind"] for target in packages[one["pkg"]]["targets"])
            if is_linked and not is_macro and one["pkg"] not in reached:
                reached.add(one["pkg"])
                waiting.append(one["pkg"])
    return sorted((packages[one] for one in reached - {root}), key=heading)


def heading(package: dict[str, Any]) -> str:
    return f"{package['name']} {package['version']}"


def texts(package: dict[str, Any]) -> Iterator[str]:
    """The texts that a copy has to have. That of Apache-2.0 is towpath's own LICENSE."""
    for file in sorted(Path(package["manifest_path"]).parent.iterdir()):
        if file.is_file() and file.name.upper().startswith(_NAMES):
            text = file.read_text(errors="replace").strip()
            if "Apache License" not in text or "Permission is hereby granted" in text:
                yield text


def document() -> str:
    """The file: each text once, with the crates that have it."""
    packages = crates()
    owners: dict[str, list[str]] = {}
    for one in packages:
        for text in texts(one):
            owners.setdefault(text, []).append(heading(one))
    listed = "".join(f"{heading(one)}: {one['license']}\n" for one in packages)
    parts = "".join(f"\n{_RULE}\n{', '.join(names)}\n{_RULE}\n\n{text}\n" for text, names in owners.items())
    return f"{_TITLE}\n\n{listed}{parts}"


if __name__ == "__main__":
    FILE.write_text(document())
