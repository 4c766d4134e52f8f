"""Targets of source tables: no two tables share one, and none is outside of the lake."""

import os
import random
import re
import string
from contextlib import suppress
from pathlib import PurePosixPath

import pytest

from towpath.lakehouse import arguments
from towpath.lakehouse.tables.targets import COMPANIONS, Targets, companion, is_path, source_name

HOSTILE = [
    *(
        "a",
        "A",
        "a b",
        " a",
        "a ",
        "_a",
        ".a",
        ".",
        "..",
        "...",
        "../../out",
        "a/b",
        "/",
        "//",
        "a%2Fb",
        "a%252Fb",
        "%",
    ),
    *("%2E", "a#b", "a?b", "a\\b", "a:b", ":", "file:", "a*b", "{a}", "{table}", "[a]", "a`b", "'", '"', "${env:HOME}"),
    *(
        "$a",
        "<a>",
        "|",
        "a\nb",
        "\x01",
        "\x7f",
        "\x85",
        "\u2028",
        "é",
        "e\u0301",
        "客户",
        "😀",
        "\ud800",
        "~",
        "a;b",
        "-",
    ),
    *(
        "a,b",
        "a=b",
        "__tombstones",
        "a__tombstones",
        "a__tombstones_",
        "a__tombstones__",
        "a__TOMBSTONES",
        "a__",
        "con",
    ),
]


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("orders", "orders"),
        ("order line", "order line"),
        ("客户", "客户"),
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("...", "%2E.."),
        ("../../out", "%2E.%2F..%2Fout"),
        ("_delta_log", "%5Fdelta_log"),
        (".a", "%2Ea"),
        ("a_._", "a_._"),
        ("a%20b#c", "a%2520b%23c"),
        ("a?b", "a%3Fb"),
        ("a\x00\n", "a%00%0A"),
        ("\x85", "%C2%85"),
        ("${x}", "%24{x}"),
    ],
)
def test_names_in_paths(name: str, segment: str) -> None:
    """The escapes are those of RFC 3986."""
    assert Targets("/lake/{database}/{table}")("shop", name) == f"/lake/shop/{segment}"


def test_distinct_tables_have_distinct_paths_in_the_lake() -> None:
    random_ = random.Random(20261122)
    alphabet = [*HOSTILE, *string.ascii_letters, "_", "__", "tombstones", "%", "/", ".", "2F", "é", "e", "\u0301"]
    names = {*HOSTILE, *("".join(random_.choices(alphabet, k=random_.randint(1, 5))) for _ in range(3000))}
    find = Targets("/the/lake/{database}/{table}")
    seen: dict[str, tuple[str, str]] = {}
    for table in sorted(names):
        source = (random_.choice(["shop", "..", "a/b", "${env:HOME}"]), table)
        path = find(*source)
        assert path is not None
        assert seen.setdefault(path, source) == source
        assert os.path.normpath(path) == path
        assert len(PurePosixPath(path).parts) == 5
        assert path.startswith("/the/lake/")
        assert not set(path) & set("#?\\$")
        assert not {segment[0] for segment in path.split("/")[3:]} & {"_", "."}
    for path in list(seen):
        for suffix in COMPANIONS:
            assert companion(path, suffix) not in seen


RESERVED = ["_delta_log", "_change_data", "_spark_metadata", "_symlink_format_manifest", "_Delta_LOG", ".", ".."]


@pytest.mark.parametrize("template", ["{table}", "x_{table}", "_{table}", ".{table}", "_{table}_", "{table}."])
@pytest.mark.parametrize("tables", ["{database}/", "_{database}/", ""])
def test_no_template_makes_a_folder_that_belongs_to_a_table(template: str, tables: str) -> None:
    """Names that are reserved names with or without the template's own letters, beside random ones."""
    random_ = random.Random(template + tables)
    cut = [name[first:last] for name in RESERVED for first in (0, 1) for last in (None, -1)]
    other = [
        "".join(random_.choices(["_", ".", "%", "a", "delta_log", "2E"], k=random_.randint(1, 4))) for _ in range(200)
    ]
    find = Targets(f"/lake/{tables}{template}")
    seen: dict[str, tuple[str, str]] = {}
    for table in sorted({*filter(None, cut), *RESERVED, *other}):
        source = (random_.choice(RESERVED) if tables else "shop", table)
        path = find(*source)
        assert path is not None
        assert seen.setdefault(path, source) == source
        assert not {segment.lower() for segment in path.split("/")} & set(RESERVED)
        assert os.path.normpath(path) == path
    ordinary = find("shop", "orders")
    assert ordinary == f"/lake/{tables}{template}".format(database="shop", table="orders")


@pytest.mark.parametrize("name", RESERVED[:5])
def test_reserved_names_are_no_targets_of_functions_and_catalogs(name: str) -> None:
    for target in (lambda database, table: f"/lake/{database}/{table}", {f"shop.{name}": f"/lake/shop/{name}"}):
        with pytest.raises(ValueError, match="a reserved folder of a table"):
            Targets(target)("shop", name)
    for source in (("shop", name), (name, "orders")):
        with pytest.raises(ValueError, match="a reserved folder of a table"):
            Targets("{database}.{table}")(*source)


def test_source_names_are_distinct() -> None:
    random_ = random.Random(7)
    seen: dict[str, tuple[str, str]] = {}
    for _ in range(3000):
        source = "".join(random_.choices("ab.`", k=random_.randint(0, 4))), "".join(random_.choices("ab.`", k=3))
        assert seen.setdefault(source_name(*source), source) == source
    assert source_name("shop", "orders") == "shop.orders"
    assert source_name(None, "orders") == "orders"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("template", ["/lake/{database}_{table}", "/lake/{table}", "l.{table}", "l.{database}_{table}"])
def test_a_target_stays_that_of_its_table_after_a_restart(template: str, seed: int) -> None:
    """Tables in random order in several runs: a target has the rows of the table that was first."""
    random_ = random.Random(seed)
    tables = [("a_b", "c"), ("a", "b_c"), ("a", "b.c"), ("a.b", "c"), ("x", "t"), ("y", "t"), ("x", "T")]
    stored: dict[str, str] = {}
    owners: dict[str, tuple[str, str]] = {}
    for _ in range(6):
        find = Targets(template)
        find.stored = lambda target: stored.get(_key(target))
        for source in random_.sample(tables, 5):
            with suppress(ValueError):
                target = find(*source)
                assert target is not None
                assert owners.setdefault(_key(target), source) == source
                stored.setdefault(_key(target), source_name(*source))
    assert {_key(f"{find._find(*source, '')}") for source in tables} == owners.keys()


def _key(target: str) -> str:
    """Catalogs do not distinguish case."""
    return target if "/" in target else target.lower()


def test_whose_target_one_is() -> None:
    """Without a stored name it is the user's. A name that has another target came with the copy of a ghost table."""
    for stored, is_refused in [
        (None, False),
        ("a.b_c", False),
        ("a_b.c", True),
        ("shop._b_c_gho", False),
    ]:
        find = Targets("/lake/{database}_{table}")
        find.stored = {"/lake/a_b_c": stored}.get
        if is_refused:
            with pytest.raises(ValueError, match="would share /lake/a_b_c"):
                find("a", "b_c")
            assert find("a_b", "c") == "/lake/a_b_c"
        else:
            assert find("a", "b_c") == "/lake/a_b_c"
    apart = Targets("/lake/{database}/{table}")
    apart.stored = lambda _: pytest.fail("nobody can share these targets")
    assert apart("a", "b_c") == "/lake/a/b_c"


@pytest.mark.parametrize("table", [name for name in HOSTILE if name not in RESERVED])
def test_names_in_a_catalog_are_quoted(table: str) -> None:
    target = Targets("lake.{database}.{table}")("a.b", table)
    assert target is not None
    assert not is_path(target)
    assert target.startswith("`lake`.`a.b`.`")
    inner = target.removeprefix("`lake`.`a.b`.`").removesuffix("`").replace("``", "`")
    assert inner in (table, f"{table}_")


def test_the_users_own_parts_of_a_template() -> None:
    assert Targets("`my.cat`.prefix_{table}")("s", "a") == "`my.cat`.`prefix_a`"
    assert Targets("`{database}`.{table}")("s`s", "a") == "`s``s`.`a`"
    assert Targets("s3a://bucket/x y/{database}/{table}/")("s", "a") == "s3a://bucket/x y/s/a"
    assert Targets("/lake/{topic}/{table}")("s", "a", "t.x") == "/lake/t.x/a"
    assert Targets("/lake/{topic}")("s", "a", "t") == "/lake/t"


def test_relative_paths_are_in_the_working_directory() -> None:
    here = os.getcwd()
    assert Targets("lake/{database}/{table}")("..", "a") == f"{here}/lake/%2E%2E/a"
    assert Targets("./{table}")("s", "a") == f"{here}/a"
    assert Targets({"s.a": "lake/a"})("s", "a") == f"{here}/lake/a"
    assert Targets(lambda database, table: f"lake/{table}")("s", "a") == f"{here}/lake/a"


def test_a_path_with_a_password_is_refused() -> None:
    for password in ("s3cret", "a/b", "9/x", "a@b"):
        place = f"s3a://AK:{password}@bucket/{{table}}"
        for wrong in (
            lambda place=place: Targets(place),
            lambda place=place: Targets(place.replace("table", "tabel")),
            lambda place=place: arguments.table("status", place),
        ):
            with pytest.raises(ValueError, match="the path has a password") as caught:
                wrong()
            assert password not in str(caught.value)
    for right in ("abfss://container@account/{table}", "hdfs://h:8020/a@b:c/{table}", "s3a://bucket/x:y@{table}"):
        assert Targets(right)("s", "a") == right.format(table="a")


NAMES = ["/lake/a", "lake.a", "`la``ke`.`a b`", "a"]


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("suffix", COMPANIONS)
@pytest.mark.parametrize("as_function", [False, True])
def test_no_target_is_a_companion_of_another_one(target: str, suffix: str, as_function: bool) -> None:
    """Whichever of both comes first, and in which case a catalog's name is written."""
    other = companion(target if is_path(target) else target.upper(), suffix)
    mapping = {"s.a": target, "s.b": other}
    for first, second in (("a", "b"), ("b", "a")):
        find = Targets((lambda database, table: mapping[f"{database}.{table}"]) if as_function else mapping)
        assert find("s", first) == mapping[f"s.{first}"]
        with pytest.raises(ValueError, match=rf"s\.{second} would"):
            find("s", second)
        assert find("s", first) == mapping[f"s.{first}"]
    assert Targets({"s.b": other})("s", "b") == other


def test_regular_expressions_route_tables() -> None:
    find = Targets(
        {
            "shop_1.special": "/lake/special",
            re.compile(r"shop_\d+\.(?P<name>.+?)(_\d+)?"): "/lake/all/{name}",
            re.compile(r".*\.a(?P<rest>.*)"): "lake.{database}.{topic}_{rest}",
        }
    )
    assert find("shop_1", "special") == "/lake/special"
    assert find("shop_1", "orders_12") == find("shop_22", "orders") == "/lake/all/orders"
    assert find("shop_1", "../x") == "/lake/all/%2E.%2Fx"
    assert find("shop_1", "..") == "/lake/all/%2E%2E"
    assert find("shop_1", "orders__history") == "/lake/all/orders__history_"
    assert find("b", "a`c", "t") == "`lake`.`b`.`t_``c`"
    assert find("b", "c") is None
    with pytest.raises(ValueError, match=r"unknown \{name\} in .*; expected one of .*\{rest\}"):
        Targets({re.compile("(?P<rest>.*)"): "/lake/{name}"})
    with pytest.raises(ValueError, match=r"has no rest"):
        Targets({re.compile(r"b\.c(?P<rest>x)?"): "/lake/{rest}"})("b", "c")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("/lake/x", r"has no \{table\}"),
        ("/lake/{tabel}", r"unknown \{tabel\} in .*; expected one of"),
        ("lake..{table}", "nor the name of a table"),
        ("lake.{table}.", "nor the name of a table"),
        ("`lake.{table}", "nor the name of a table"),
    ],
)
def test_templates_that_are_refused(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Targets(template)


@pytest.mark.parametrize(
    ("template", "one", "other"),
    [
        ("/lake/{table}", ("s1", "a"), ("s2", "a")),
        ("lake.{table}", ("s1", "a"), ("s2", "a")),
        ("lake.{database}.{table}", ("s", "a"), ("s", "A")),
        ("/lake/{database}_{table}", ("a_b", "c"), ("a", "b_c")),
        ("/lake/{topic}", ("s", "a"), ("s", "b")),
    ],
)
def test_a_shared_target_is_refused_with_both_names(
    template: str, one: tuple[str, str], other: tuple[str, str]
) -> None:
    find = Targets(template)
    assert find(*one, "topic") == find(*one, "topic")
    with pytest.raises(ValueError, match=rf"{one[0]}\.{one[1]} and {other[0]}\.{other[1]} would share"):
        find(*other, "topic")
    assert find(*one, "topic")


def test_paths_distinguish_case() -> None:
    find = Targets("/lake/{table}")
    assert find("s", "a") != find("s", "A")


@pytest.mark.parametrize(
    "own", ["/lake/shop/dead", "file:///lake/shop/dead/", "/lake/shop", "/lake/shop/dead/x", "/lake//shop"]
)
def test_replicates_own_tables_are_no_targets(own: str) -> None:
    find = Targets("/lake/{database}/{table}", own=[own])
    with pytest.raises(ValueError, match=r"shop\.dead would be at /lake/shop/dead, which overlaps /lake/shop"):
        find("shop", "dead")
    assert find("other", "dead") == "/lake/other/dead"


def test_names_that_a_template_needs() -> None:
    with pytest.raises(ValueError, match="the table 'a' has no database"):
        Targets("/lake/{database}/{table}")(None, "a")
    assert Targets("/lake/{table}")(None, "a") == "/lake/a"


def test_mappings_and_functions() -> None:
    find = Targets({"shop.a": "/lake/a", "shop.b": "/lake/a"})
    assert (find("shop", "a"), find("shop", "b"), find("shop", "c")) == ("/lake/a", "/lake/a", None)
    shards = Targets(lambda database, table: None if table == "skipped" else "lake.orders")
    assert (shards("s1", "orders"), shards("s2", "orders"), shards("s1", "skipped")) == (
        "lake.orders",
        "lake.orders",
        None,
    )


def test_keys_of_a_mapping_with_dots() -> None:
    find = Targets({"a.b.c": "/lake/x"})
    assert find("a.b", "c") == "/lake/x"
    with pytest.raises(ValueError, match="tuples"):
        find("a", "b.c")
    tuples = Targets({("a.b", "c"): "/lake/x", ("a", "b.c"): "/lake/y"})
    assert (tuples("a.b", "c"), tuples("a", "b.c")) == ("/lake/x", "/lake/y")
