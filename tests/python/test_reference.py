"""The pages that are made from the code: every name has a meaning, and Spark's types are those of `spark_schema`."""

import importlib.util
import re
import sys
from typing import get_args

import pytest

import towpath
from documents import ROOT
from towpath import literals
from towpath.decoder import PARAMETERS

SITE = ROOT / "docs" / "site"


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("reference", SITE / "reference.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["reference"]


def test_every_column_of_every_layout_has_its_row(reference):
    page = reference.columns_page()
    for layout in get_args(literals.Layout):
        section = page.partition(f"## Layout `{layout}`\n")[2].partition("\n## ")[0]
        shown = re.findall(r"^\| `(\w+)` \| .* \| (yes|no) \| \S", section, re.MULTILINE)
        assert [name for name, _ in shown] == reference.fields_of(layout)
        table = ["id"] if layout != "change" else []
        default = [name for name in towpath.Decoder(schema="id int", layout=layout).schema.names if name not in table]
        assert sorted(name for name, is_default in shown if is_default == "yes") == sorted(default)


def test_the_types_of_spark(reference):
    pytest.importorskip("pyspark")
    for layout in get_args(literals.Layout):
        fields = [name for name in reference.fields_of(layout) if name not in ("before", "after")]
        decoder = towpath.Decoder(schema="id int", layout=layout, fields=fields)
        for field in decoder.spark_schema:
            if field.name != "id":
                assert reference.spark_type(decoder.schema.field(field.name).type) == field.dataType.simpleString()


def test_a_column_without_a_meaning_is_an_error(reference, monkeypatch):
    monkeypatch.delitem(reference.COLUMNS, "sql")
    with pytest.raises(reference.OutdatedError, match="sql"):
        reference.columns_page()


def test_a_meaning_without_a_member_is_an_error(reference, monkeypatch):
    monkeypatch.setitem(reference.SOURCE, "thread", "no such member")
    with pytest.raises(reference.OutdatedError, match="thread"):
        reference.columns_page()


def test_every_parameter_has_its_row(reference):
    page = reference.parameters_page()
    section = page.partition("## towpath.Decoder\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w*]+)` \| [^\n]+ \| [^ |\n][^\n]+ \|$", section.partition("###")[0], re.MULTILINE)
    assert rows == [*PARAMETERS, "**options"]


def test_a_parameter_without_a_description_is_an_error(reference):
    def function(given, forgotten):
        """Do nothing."""

    with pytest.raises(reference.OutdatedError, match="forgotten"):
        reference._parameters(function, "Do nothing.\n\nArgs:\n    given: A value.\n")


WITHOUT_TABLE = {
    "ERROR_KINDS": "no function",
    "BatchCounts": "no function",
    "TableStatus": "no function",
    "applier": "its arguments are those of apply_changes",
    "arrow_schema": "one argument",
    "is_struct_type": "one argument",
    "register": "one argument",
    "struct_type": "one argument",
}


def test_every_function_for_spark_is_on_both_pages(reference):
    parameters, api = reference.parameters_page(), (ROOT / "docs" / "api.md").read_text()
    shown = set(re.findall(r"^## towpath\.spark\.(\w+)$", parameters, re.MULTILINE))
    assert shown | WITHOUT_TABLE.keys() == set(towpath.spark.__all__)
    on_api = set(re.findall(r"heading: towpath\.spark\.(\w+)$", api, re.MULTILINE))
    assert on_api | {"ERROR_KINDS", "is_struct_type"} == set(towpath.spark.__all__)


def test_the_sites_table_of_dialects():
    rows = [f"| [{d['name']}](dialects/{d['name']}.md) | {d['producer']} | {d['wire']} |" for d in towpath.dialects()]
    assert (
        "| name | producer | wire |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
        in (ROOT / "docs" / "index.md").read_text()
    )


def test_every_page_is_in_the_navigation():
    """A page that is not there is an error of `mkdocs build --strict` too; this needs no mkdocs."""
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"[:-] ([\w/-]+\.md)$", navigation, re.MULTILINE)
    made = ["columns.md", "parameters.md", "examples.md", "notebook.md", "results.md", "changelog.md"]
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed) == sorted([*made, *pages])


def test_old_addresses_lead_to_pages(tmp_path):
    spec = importlib.util.spec_from_file_location("redirects", SITE / "redirects.py")
    redirects = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(redirects)
    redirects.write_redirects(tmp_path)
    for old, new in redirects.REDIRECTS.items():
        assert (ROOT / "docs" / f"{new}.md").exists()
        assert not (ROOT / "docs" / f"{old}.md").exists()
        assert f'href="../{new}/"' in (tmp_path / old / "index.html").read_text()
