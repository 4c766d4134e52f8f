"""The structure of the package: imports in one direction, public names, and lists that have one source."""

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

import towpath
from documents import ROOT
from towpath.cli import parser
from towpath.decoder import PARAMETERS
from towpath.lakehouse.reading.changes import ENVELOPE

SOURCE = ROOT / "python"
FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.pyi")]
}
Imports = dict[str, set[str]]


def imports(program: str, modules: set[str]) -> Iterator[str]:
    """What a program imports, anywhere in it. The import of a submodule does not count as one of its package."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in names)


@cache
def package_imports() -> Imports:
    """The imports of every module, among the package's own."""
    modules = set(FILES)
    return {name: set(imports(path.read_text(), modules)) & modules for name, path in FILES.items()}


def circle(found: Imports) -> list[str]:
    """The modules of a circle, or of several; none if modules can be sorted so that each imports only earlier ones."""
    left = dict(found)
    while ready := [name for name, imported in left.items() if not imported & left.keys()]:
        for name in ready:
            del left[name]
    return sorted(left)


def test_circles_are_found():
    program = "import b\ndef later():\n    from b import c, d\n    import b.e\n"
    assert set(imports(program, {"a", "b", "b.c", "b.e"})) == {"b", "b.c", "b.e"}
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_circle_of_imports():
    """Imports within functions and those for type checking count too."""
    found = package_imports()
    assert len(found) > 25
    assert circle(found) == []


def test_no_two_files_have_one_name():
    """But for the verbs of the command, checks of arguments, and `python -m towpath.replicate`."""
    names = Counter(name.rpartition(".")[2] for name in FILES if "verbs" not in name and not name.endswith("_towpath"))
    packages = {path.parent.name for path in FILES.values() if path.stem == "__init__"}
    assert {name for name, count in names.items() if count > 1} - packages == {"arguments", "replicate"}


RUST = {
    path.relative_to(ROOT / "rust").with_suffix("").as_posix().removesuffix("/mod"): path
    for path in (ROOT / "rust").rglob("*.rs")
}


def test_no_two_files_of_rust_have_one_name():
    names = Counter(path.name for path in RUST.values())
    assert {name for name, count in names.items() if count > 1} == {"mod.rs"}


def rust_imports(program: str, module: str, files: set[str]) -> Iterator[str]:
    """The files of a module's `crate::` and `super::` paths outside of tests, by the longest path that is one."""
    code = re.sub(r"//.*", "", program.partition("#[cfg(test)]\nmod tests")[0])
    for start, path, last in re.findall(r"\b(crate::|(?:super::)+)((?:\w+::)*)(\{[^}]*\}|\w+)", code):
        parents = module.split("/")[: -start.count("super")] if "super" in start else []
        for name in re.findall(r"\w+", last):
            names = [*parents, *path.split("::")[:-1], name]
            prefixes = ("/".join(names[:length]) for length in range(len(names), 0, -1))
            yield from [prefix for prefix in prefixes if prefix in files][:1]


def imports_of_rust() -> Imports:
    """The imports of every file. A folder's `mod.rs` lists its files, which is not an import."""
    return {name: set(rust_imports(path.read_text(), name, set(RUST))) - {name} for name, path in RUST.items()}


def test_imports_of_rust_are_found():
    program = "use super::row::{Cell, Env};\nuse crate::wire::json;\n// crate::value\nfn f(x: crate::event::Op) {}\n"
    files = {"template", "template/row", "wire", "wire/json", "event", "value"}
    assert set(rust_imports(program, "template/message", files)) == {"template/row", "wire/json", "event"}
    assert set(rust_imports("use super::super::value::Value;", "columns/nested", {"value"})) == {"value"}


def test_no_circle_of_imports_in_rust():
    found = imports_of_rust()
    assert len(found) > 80
    assert circle(found) == []


OF_VENDORS = ("dialect", "template")


def test_general_code_knows_no_vendor():
    """A call's messages have the schemas that they refer to. The decoder asks `dialect`, Python lists the dialects."""
    vendors = {
        (name, found)
        for name, imported in imports_of_rust().items()
        for found in imported
        if name.partition("/")[0] not in OF_VENDORS and found.partition("/")[0] == "dialect"
    }
    assert vendors == {("output/row", "dialect"), ("decoder", "dialect"), ("python", "dialect")}


def test_the_decoder_names_no_vendor():
    names = [name for dialect in towpath.dialects() for name in (dialect["name"], *dialect["aliases"])]
    vendors = {name.partition("-")[0] for name in names} | {"tidb", "confluent", "flink"}
    words = re.findall(r"[a-z]+", RUST["decoder"].read_text().lower())
    assert len(vendors) > 8
    assert not vendors & set(words)


def test_only_the_public_names_and_the_command_import_the_lakehouse():
    lakehouse = {name for name in FILES if name.startswith("towpath.lakehouse")}
    importing = {name for name, imported in package_imports().items() if imported & lakehouse}
    former_place = {"towpath.spark.lakehouse"}
    job = {name for name in FILES if name.startswith("towpath.job")}
    assert importing - lakehouse - former_place - job == {"towpath.spark"}
    assert {name for name, imported in package_imports().items() if imported & job} - job == {
        "towpath.cli.verbs.replicate"
    }


def test_one_file_of_the_lakehouse_executes_sql():
    """The others hand it their statements, so that names are quoted and values are escaped there."""
    lakehouse = SOURCE / "towpath" / "lakehouse"
    assert [path.name for path in lakehouse.rglob("*.py") if ".sql(" in path.read_text()] == ["sql.py"]


OF_SPARK = ("towpath.spark", "towpath.lakehouse", "towpath.job", "pyspark_towpath")


def test_only_the_spark_packages_import_pyspark():
    """Elsewhere its types are only imported for type checking."""
    for name, path in FILES.items():
        program = re.sub(r"^if TYPE_CHECKING:\n(?:    .*\n|\n)+", "", path.read_text(), flags=re.MULTILINE)
        top_level = {imported.partition(".")[0] for imported in imports(program, set())}
        assert "pyspark" not in top_level or name.startswith(OF_SPARK), name


ALL_FIRST = """
import importlib, pkgutil, sys
sys.path[:0] = {path!r}
names = [name for name in {names!r} if not name.endswith((".source", "__main__", "_towpath"))]
for name in {order}(names):
    importlib.import_module(name)
import towpath
kinds = [type(getattr(towpath.spark, name)).__name__ for name in towpath.spark.__all__]
print(*kinds)
"""


@pytest.mark.parametrize("order", ["sorted", "reversed", "list"])
def test_public_names_are_no_modules_whatever_is_imported_first(order):
    """A module that is imported is bound to its name in the package. `source` needs pyspark 4."""
    names = [name for name in FILES if name.startswith("towpath.")]
    program = ALL_FIRST.format(path=sys.path, names=names, order=order)
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    kinds = dict(zip(towpath.spark.__all__, ran.stdout.split(), strict=True))
    classes = {"ERROR_KINDS": "tuple", "BatchCounts": "type", "TableStatus": "type"}
    assert kinds == {name: classes.get(name, "function") for name in towpath.spark.__all__}


def test_completion_offers_the_public_names_only():
    assert dir(towpath) == sorted(towpath.__all__)
    assert dir(towpath.spark) == sorted(towpath.spark.__all__)
    for name in towpath.spark.__all__:
        assert getattr(towpath.spark, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = towpath.spark.no_such_name


def test_lazy_names_are_declared_for_type_checkers():
    """`__getattr__` imports what the block for type checking declares."""
    program = (SOURCE / "towpath" / "spark" / "__init__.py").read_text()
    [block] = [node for node in ast.parse(program).body if isinstance(node, ast.If)]
    declared = {
        alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert declared == towpath.spark._LAZY


def allowed(**arguments: object) -> set[str]:
    """What the native decoder's error text names as allowed."""
    with pytest.raises(ValueError, match="expected one of ") as refused:
        towpath.Decoder("canal-json", **arguments)
    return set(str(refused.value).partition("expected one of ")[2].split(", "))


def test_every_argument_of_the_native_decoder_is_declared_or_an_option_of_a_dialect():
    from towpath.spark.source_options import _DIALECT_OPTIONS

    # The schema is converted by itself; stored messages and registries are read in Python.
    in_python = {"schema", "claim_check", "claim_check_limit", "schema_registry"}
    assert allowed(no_such_argument=1) | in_python == set(PARAMETERS) | set(_DIALECT_OPTIONS)
    pages = [path.read_text() for path in (ROOT / "docs").rglob("*.md")]
    for name in _DIALECT_OPTIONS:
        assert any(f"`{name}`" in page for page in pages), name


def test_the_docstring_describes_every_argument_in_order():
    text = inspect.getdoc(towpath.Decoder)
    described = re.findall(r"^    (\w+): ", text[text.index("Args:") : text.index("Raises:")], re.MULTILINE)
    assert described == list(PARAMETERS)


def test_flags_of_the_command_are_arguments_with_their_defaults():
    [verbs] = [action for action in parser()._actions if action.choices and "decode" in action.choices]
    flags = {action.dest: action for action in verbs.choices["decode"]._actions if action.dest in PARAMETERS}
    assert set(flags) == {"dialect", "schema", "database", "table", "layout", "fields", "mode"}
    assert {name: flag.default for name, flag in flags.items()} == {name: PARAMETERS[name].default for name in flags}
    for name in ("layout", "mode"):
        assert set(flags[name].choices) == allowed(**{name: "no such value"})


def test_the_lakehouse_knows_every_envelope_column():
    assert allowed(schema="id int", layout="upsert", fields=["no_such_field"]) == ENVELOPE


def test_helpers_of_tests_are_in_one_folder():
    """They are imported by their bare names, so these must not be those of other modules."""
    names = {path.stem for path in (ROOT / "tests" / "support").glob("*.py")}
    assert names
    assert not names & sys.stdlib_module_names
    others = [path for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "support"]
    assert [path.name for path in others if not re.match(r"test_|conftest", path.name)] == []


def test_the_citation_has_the_packages_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {towpath.__version__}\n" in citation
    assert "\nlicense: Apache-2.0\n" in citation


def test_each_file_of_tests_has_a_name_of_its_own():
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
