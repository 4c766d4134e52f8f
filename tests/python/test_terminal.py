"""What a message contains is shown by the command, and never obeyed by a terminal."""

import json
import random
import unicodedata

import pytest

from towpath.cli.command import main

HOSTILE = [
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x00",
    "\x9b31m",
    "\u202e",
    "\u2028",
    "\r",
    "\n-- x",
    "\t",
    "\x7f",
    "\ufeff",
    "\U000e0041",
]
PLAIN = ["a", "客", "é", "b c", "`", "x"]


def text(rng):
    return "".join(rng.choice(HOSTILE + PLAIN) for _ in range(rng.randrange(1, 5))) + "z"


def message(rng):
    column = text(rng)
    found = {
        "database": text(rng),
        "table": text(rng),
        "type": rng.choice(["INSERT", "UPDATE", "DELETE", "ALTER", text(rng)]),
        "es": 1_700_000_000_000,
        "sql": text(rng),
        "isDdl": rng.random() < 0.2,
        "mysqlType": {"id": "int", column: rng.choice(["varchar(9)", "int", text(rng)])},
        "pkNames": ["id"],
        "data": [{"id": "1", column: text(rng)}],
    }
    line = json.dumps(found, ensure_ascii=rng.random() < 0.5)
    return line[:-3] if rng.random() < 0.1 else line


def obeyed(said):
    """Characters that a terminal obeys, or that hide or turn what follows."""
    return {one for one in said if one != "\n" and unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


@pytest.mark.parametrize("verb", ["tables", "head", "check", "infer", "detect", "decode"])
@pytest.mark.parametrize("seed", range(8))
def test_nothing_of_a_message_is_obeyed(verb, seed, tmp_path, capsys):
    rng = random.Random(seed)
    path = tmp_path / "messages.jsonl"
    path.write_text("".join(message(rng) + "\n" for _ in range(12)), encoding="utf-8", newline="")
    main([verb, str(path), *(["-o", str(tmp_path / "out.jsonl")] if verb == "decode" else [])])
    shown = capsys.readouterr()
    assert obeyed(shown.out) == obeyed(shown.err) == set()
    assert shown.out + shown.err


def test_an_output_touches_no_other_file(tmp_path):
    path, precious = tmp_path / "in.jsonl", tmp_path / "precious"
    path.write_text(json.dumps({"type": "INSERT", "es": 1, "database": "d", "table": "t", "data": [{"id": "1"}]}))
    precious.write_text("mine")
    for name in ("o.jsonl.unfinished", "unfinished", ".o.jsonl"):
        (tmp_path / name).symlink_to(precious)
    before = {one.name for one in tmp_path.iterdir()}
    assert main(["decode", str(path), "-o", str(tmp_path / "o.jsonl")]) == 0
    assert precious.read_text() == "mine"
    assert {one.name for one in tmp_path.iterdir()} == before | {"o.jsonl"}
    assert not (tmp_path / "o.jsonl").is_symlink()
