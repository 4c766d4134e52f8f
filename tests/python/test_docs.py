"""The documents are right: code blocks run, tables match the code, links have targets."""

import ast
import posixpath
import re
import shlex

import pytest

import towpath
from documents import ROOT, blocks, run, run_block
from towpath.cli import parser
from towpath.cli.command import VERBS

PAGES = sorted(ROOT.glob("docs/**/*.md"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), ROOT / "examples" / "README.md", *PAGES])
OF_THE_SITE = {"api.md": ["columns.md", "parameters.md"]}
"""Pages that are made with the site, and the page that may link to them: it is made from the code too."""


def name_of(document):
    """The name of a document, in its folder if that is one of `docs/`."""
    return str(document.relative_to(ROOT)).removeprefix("docs/")


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
        page = (ROOT / "docs" / "dialects" / f"{dialect['name']}.md").read_text()
        assert all(f"`{alias}`" in page for alias in dialect["aliases"])


def test_links_out_of_the_pages_lead_to_something_on_the_site():
    hook = (ROOT / "docs" / "site" / "hook.py").read_text()
    [moved] = re.findall(r"^MOVED = (\{.*?^\})", hook, re.MULTILINE | re.DOTALL)
    links = {(page, link) for page in PAGES for link in re.findall(r"\]\((\.\./[^)#]+)", page.read_text())}
    targets = {posixpath.relpath(posixpath.normpath(page.parent / link), ROOT / "docs") for page, link in links}
    assert {target for target in targets if target.startswith("../")} <= ast.literal_eval(moved).keys()


@pytest.mark.parametrize("name", [*(dialect["name"] for dialect in towpath.dialects()), "postgresql"])
def test_the_code_on_a_dialects_page_runs(name):
    names: dict[str, object] = {}
    for code in blocks(f"docs/dialects/{name}.md"):
        run(f"docs/dialects/{name}.md", code, names)


RUN = {
    **{f"dialects/{dialect['name']}.md": "here" for dialect in towpath.dialects()},
    "README.md": "here, tests/spark/test_spark_docs.py",
    "dialects/postgresql.md": "here",
    "report.md": "here, tests/spark/test_spark_docs.py",
    "recipes.md": "tests/python/test_recipes.py",
    "start.md": "tests/python/test_readme.py, tests/spark/test_spark_docs.py",
    "migrating/from-json.md": "tests/spark/test_spark_docs.py",
    "spark/source.md": "tests/spark/test_spark_docs.py",
    "spark/index.md": "tests/spark/ (test_spark_docs.py, test_column.py), tests/lakehouse/test_lakehouse_docs.py",
    "spark/kafka.md": "tests/lakehouse/test_kafka_source.py",
    **dict.fromkeys(
        ("lakehouse/index.md", "lakehouse/order.md", "lakehouse/statements.md", "lakehouse/operations.md"),
        "tests/lakehouse/test_lakehouse_docs.py",
    ),
}
"""Where the Python blocks of each document are run."""


def test_no_document_has_python_that_no_test_runs():
    with_code = {name_of(page) for page in DOCUMENTS if "```python" in page.read_text()}
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_files(document):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists() or target in OF_THE_SITE.get(name_of(document), ()), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_headings(document):
    """`mkdocs build --strict` checks those between pages only."""
    for target, anchor in re.findall(r"\]\(([^):]*\.md|)#([^)]+)\)", document.read_text()):
        page = document.parent / target if target else document
        if page.exists():
            assert anchor in anchors(page), (target, anchor)


def anchors(page):
    """The anchors of the page's headings, as the site and GitHub make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", one).strip().lower()) for one in headings}


def test_the_promises_name_files_that_exist():
    named = re.findall(r"`((?:tests|rust)/[^`]+)`", (ROOT / "docs" / "promises.md").read_text())
    assert len(named) > 15
    assert [name for name in named if not list(ROOT.glob(name))] == []


def test_the_guarantees_of_the_lakehouse_name_tests_that_exist():
    named = set(re.findall(r"`(test_\w+(?:\.py)?)`", (ROOT / "docs" / "lakehouse" / "order.md").read_text()))
    files = {path.name: path.read_text() for path in (ROOT / "tests" / "lakehouse").rglob("test_*.py")}
    tests = {name for text in files.values() for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    assert len(named) > 10
    assert named <= files.keys() | tests


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
        assert not re.search(r"towpath-\d", page.read_text()), name_of(page)


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
