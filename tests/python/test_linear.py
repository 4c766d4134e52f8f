"""Regular expressions of users take time linear in a name, and match what Python's match."""

import random
import re
import time

import pytest

from towpath.linear import full_match

PARTS = ["a", "b", ".", r"\.", r"\d", r"\w", r"\s", "[a-c_]", r"[\w.]", "(a|b)", "(?:ab)", "(?P<x>a)", "é", r"\-", "|"]
REPEATS = ["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "+?"]
TEXTS = "ab.1_ -cé²\x1c\né\u0301Ⅷ"


@pytest.mark.parametrize(
    ("patterns", "least"), [(300, 90), pytest.param(3000, 1000, marks=pytest.mark.soak)], ids=["some", "many"]
)
def test_it_matches_what_python_matches(patterns, least):
    rng = random.Random(4)
    matched = 0
    for _ in range(patterns):
        pattern = "".join(rng.choice(PARTS) + rng.choice(REPEATS) for _ in range(rng.randint(1, 5)))
        try:
            compiled = re.compile(re.sub(r"\(\?P<x>(?=.*\(\?P<x>)", "(?:", pattern))
        except re.error:
            continue
        for _ in range(10):
            text = "".join(rng.choice(TEXTS) for _ in range(rng.randint(0, 6)))
            found, wanted = full_match(compiled, text), compiled.fullmatch(text)
            assert (found and found.groups()) == (wanted and wanted.groups()), (compiled.pattern, text)
            matched += wanted is not None
    assert matched > least


@pytest.mark.parametrize("pattern", ["(a+)+", r"(\w+\.?)+x", "(a|a)*b", "(?:a*)*[b-d]", r"(?P<shard>[\w]+)+\d"])
def test_a_name_that_does_not_match_takes_no_longer_than_it_is(pattern):
    began = time.monotonic()
    assert full_match(re.compile(pattern), "a" * 5000 + "!") is None
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"(?i)A+", "aa"), (r"(a)\1", "aa"), ("a(?!b).", "ac"), ("[^b]", "a"), (re.compile("A", re.I).pattern, "A")],
)
def test_what_has_no_counterpart_is_pythons(pattern, text):
    assert full_match(re.compile(pattern), text)
