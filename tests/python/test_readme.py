"""The commands of the README, of the page for beginners and of the page on the command print what these say."""

import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from xml.etree import ElementTree

import pytest

from documents import ROOT, blocks, run

README = (ROOT / "README.md").read_text()
START = (ROOT / "docs" / "start.md").read_text()
CLI = (ROOT / "docs" / "cli.md").read_text()
PRINTED = [
    (name, *found)
    for name, page in {"README": README, "start": START, "cli": CLI}.items()
    for found in re.findall(r"```sh\n(towpath [^`]*)```\n\n```text\n(.*?)```", page, re.DOTALL)
]


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


@pytest.mark.parametrize(
    ("page", "commands", "printed"), PRINTED, ids=[f"{page}-{said.split()[1]}" for page, said, _ in PRINTED]
)
def test_a_command_prints_what_a_page_says(folder, page, commands, printed):
    (folder / "orders.parquet").unlink(missing_ok=True)
    assert output_of(commands, folder) == printed


def output_of(commands, folder):
    variables = {**os.environ, "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        commands, shell=True, env=variables, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    return ran.stdout + ran.stderr


def test_the_picture_of_the_command_shows_what_it_prints(folder):
    """`docs/site/pictures.py` draws it anew."""
    drawn = ElementTree.parse(ROOT / "docs" / "images" / "head.svg").iter("{http://www.w3.org/2000/svg}text")
    at = defaultdict(list)
    for text in drawn:
        if text.get("clip-path"):  # not the title
            at[float(text.get("y"))].append((float(text.get("x")), (text.text or "").replace("\xa0", " ")))
    shown = ["".join(text for _, text in sorted(at[y])).rstrip() for y in sorted(at)]
    command = shown[0].removeprefix("$ ")
    assert command in README
    printed = [line.rstrip() for line in output_of(command, folder).rstrip().splitlines()]
    assert [line for line in shown[1:] if line] == [line for line in printed if line]


def test_the_sites_diagram_is_the_readmes():
    """`docs/site/pictures.py` draws it."""
    [code] = re.findall(r"```mermaid\n(.*?)```", README, re.DOTALL)
    labels = re.findall(r"[\[({]([\w][^\[\](){}]+)[\])}]", code) + re.findall(r"-\. (.*?) \.->", code)
    words = {word for label in labels for word in label.replace("<br>", " ").split()}
    drawn = ElementTree.parse(ROOT / "docs" / "images" / "flow.svg").iter("{http://www.w3.org/2000/svg}tspan")
    assert len(labels) == 9
    assert words <= {word for text in drawn for word in (text.text or "").split()}


def test_all_commands_that_print_are_run():
    """Other blocks install, or start Kafka and Spark: test_install.py and test_lakehouse_docs.py run those."""
    verbs = {"README": ["tables"], "start": ["tables", "head", "infer"], "cli": ["infer", "check"]}
    for name, expected in verbs.items():
        assert [commands.split()[1] for page, commands, _ in PRINTED if page == name] == expected


def test_the_python_of_the_page_for_beginners(capsys):
    code = blocks("docs/start.md")[0]
    run("docs/start.md", code, {})
    assert f"```python\n{code}```\n\n```text\n{capsys.readouterr().out}```" in START


def test_the_first_screen_is_what_it_is_ten_lines_the_install_and_two_commands():
    shown = [
        "# towpath",
        "## Ten lines",
        "It prints:",
        "## Install",
        "| `make demo` |",
        "| `make test` |",
        "## Versions",
    ]
    assert sorted(map(README.index, shown)) == list(map(README.index, shown))
    assert README[: README.index("## Versions")].count("\n") < 75
    rust = re.search(r'^rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    python = re.search(r'^requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert README.count(f"Rust {rust} or later") == 2
    assert README.count(f"Python {python} or later") == 2
