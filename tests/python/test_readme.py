"""The commands of the README print what it says that they print."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from documents import ROOT, blocks

README = (ROOT / "README.md").read_text()
PRINTED = re.findall(r"```sh\n(towpath .*?)```\n\n```text\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with the captures, and the command `towpath` of this Python."""
    made = tmp_path_factory.mktemp("clone")
    (made / "tests").symlink_to(ROOT / "tests")
    command = made / "bin" / "towpath"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m towpath "$@"\n')
    command.chmod(0o755)
    return made


@pytest.mark.parametrize(("commands", "printed"), PRINTED, ids=[commands.split()[1] for commands, _ in PRINTED])
def test_a_command_prints_what_the_readme_says(folder, commands, printed):
    variables = {**os.environ, "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        commands, shell=True, env=variables, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.stdout + ran.stderr == printed


def test_these_are_all_of_its_towpath_commands():
    """Other blocks install, or start Kafka and Spark: test_install.py and tests/lakehouse/test_docs.py run those."""
    verbs = [word for code in blocks("README.md", "sh") for word in re.findall(r"^towpath (\w+)", code, re.MULTILINE)]
    assert [word for commands, _ in PRINTED for word in re.findall(r"^towpath (\w+)", commands, re.MULTILINE)] == verbs
    assert verbs == ["tables", "head", "infer", "decode", "check"]


def test_the_two_commands_of_the_set_up_are_near_its_top():
    top = README.splitlines()[:30]
    assert any(line.startswith("| `make demo` |") for line in top)
    assert any(line.startswith("| `make test` |") for line in top)
    rust = re.search(r'^rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    python = re.search(r'^requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert README.count(f"Rust {rust} or later") == 2
    assert README.count(f"Python {python} or later") == 2
