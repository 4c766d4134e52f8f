"""The documents are right: code blocks run, tables match the code, links have targets."""

import ast
import re
import shlex

import pytest

import towpath
from documents import ROOT, blocks, run, run_block
from towpath.cli import parser
from towpath.cli.command import VERBS

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
OF_THE_SITE = {"api.md": ["columns.md", "parameters.md"]}
"""Pages that are made with the site, and the page that may link to them: it is made from the code too."""


def test_the_ten_lines_print_what_they_decode(capsys):
    code = blocks("README.md")[0]
    run("README.md", code, {})
    printed = capsys.readouterr().out
    shown = f"## Ten lines\n\n```python\n{code}```\n\nIt prints:\n\n```text\n{printed}```"
    assert shown in (ROOT / "README.md").read_text()
    op, before, after = printed.splitlines()
    assert op == "update"
    assert "Decimal('9.99')" in before
    assert "Decimal('12.50')" in after
    assert "2024, 5, 6, 7, 8, 9" in after


def test_the_packages_own_example():
    import doctest
    from decimal import Decimal

    import pyarrow as pa

    failed, tried = doctest.testmod(towpath, extraglobs={"pa": pa, "Decimal": Decimal})
    assert (failed, tried) == (0, 4)


def test_the_readmes_table_of_dialects():
    rows = [f"| `{d['name']}` | {d['producer']} | {d['wire']} |" for d in towpath.dialects()]
    table = "| name | producer | wire |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
    assert table in (ROOT / "README.md").read_text()


def test_every_dialect_has_a_page():
    for dialect in towpath.dialects():
        page = (ROOT / "docs" / f"{dialect['name']}.md").read_text()
        assert all(f"`{alias}`" in page for alias in dialect["aliases"])


def test_links_out_of_the_pages_lead_to_something_on_the_site():
    hook = (ROOT / "docs" / "site" / "hook.py").read_text()
    [moved] = re.findall(r"^MOVED = (\{.*?^\})", hook, re.MULTILINE | re.DOTALL)
    pages = "".join(page.read_text() for page in ROOT.glob("docs/*.md"))
    assert set(re.findall(r"\]\((\.\./[^)]+)", pages)) <= ast.literal_eval(moved).keys()


@pytest.mark.parametrize("name", [dialect["name"] for dialect in towpath.dialects()])
def test_the_code_on_a_dialects_page_runs(name):
    names: dict[str, object] = {}
    for code in blocks(f"docs/{name}.md"):
        run(f"docs/{name}.md", code, names)


RUN = {
    **{f"{dialect['name']}.md": "here" for dialect in towpath.dialects()},
    "README.md": "here, tests/spark/test_spark_docs.py, tests/lakehouse/test_lakehouse_docs.py",
    "report.md": "here, tests/spark/test_spark_docs.py",
    "recipes.md": "tests/python/test_recipes.py",
    "start.md": "tests/python/test_readme.py, tests/spark/test_spark_docs.py",
    "from-from-json.md": "tests/spark/test_spark_docs.py",
    "source.md": "tests/spark/test_spark_docs.py",
    "spark.md": "tests/spark/test_spark_docs.py, tests/spark/test_column.py",
    "kafka.md": "tests/lakehouse/test_kafka_source.py",
    "lakehouse.md": "tests/lakehouse/test_lakehouse_docs.py",
}
"""Where the Python blocks of each document are run."""


def test_no_document_has_python_that_no_test_runs():
    with_code = {page.name for page in DOCUMENTS if "```python" in page.read_text()}
    assert with_code <= RUN.keys()


def test_the_code_on_the_report_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_block("docs/report.md", "write_report", {})
    assert "<h1>Orders</h1>\n<p>1 events of 1 tables; 0 with an error.</p>" in (tmp_path / "report.html").read_text()


def test_the_commands_on_the_cli_page_are_accepted():
    """Each is parsed as a shell would split it; other tests run them."""
    lines = "".join(blocks("docs/cli.md", "sh")).splitlines()
    commands = [shlex.split(part) for line in lines for part in re.split(r"[|>]", line)]
    ours = [words for words in commands if words and words[0] == "towpath"]
    verbs = {parser().parse_args(words[1:]).verb for words in ours}
    assert verbs == set(VERBS)


def test_error_kinds_are_documented_in_their_order():
    text = (ROOT / "docs" / "errors.md").read_text()
    kinds = re.search(r"\| kind \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)", text)[1]
    assert tuple(re.findall(r"^\| `(\w+)`", kinds, re.MULTILINE)) == towpath.spark.ERROR_KINDS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists() or target in OF_THE_SITE.get(document.name, ()), target


def test_the_promises_name_files_that_exist():
    named = re.findall(r"`((?:tests|rust)/[^`]+)`", (ROOT / "docs" / "promises.md").read_text())
    assert len(named) > 15
    assert [name for name in named if not list(ROOT.glob(name))] == []


def test_make_help_names_every_verb():
    makefile = (ROOT / "Makefile").read_text()
    verbs = set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))
    wanted = [
        "help",
        "demo",
        "check",
        "test",
        "docs",
        "lint",
        "deny",
        "audit",
        "fmt",
        "bench",
        "fuzz",
        "soak",
        "matrix",
        "wheel",
        "optimized",
        "jars",
        "clean",
    ]
    assert verbs == set(wanted)


def test_no_page_names_the_file_of_a_wheel():
    """It has the version, and the glibc of the machine that built it."""
    for page in DOCUMENTS:
        assert not re.search(r"towpath-\d", page.read_text()), page.name


def test_pictures_are_readable_in_dark_colours():
    """Each has a background of its own, or gets one from the stylesheet."""
    given = re.findall(r'\[data-md-color-scheme="slate"\] img\[src\$="([^"]+)"\] \{[^}]*background: #fff', css())
    drawn = [
        path
        for path in (ROOT / "docs" / "images").glob("*.svg")
        if not re.search(r'<rect fill="#\w+"', path.read_text())
    ]
    assert sorted(given) == sorted(path.name for path in drawn)


def css():
    return (ROOT / "docs" / "style.css").read_text()
