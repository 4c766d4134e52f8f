"""Spark hides values of properties that look secret: no name of a column or table may look so in what is written."""

import json
import random
import re

import pytest

from towpath.lakehouse.tables.target_properties import HIDDEN, hidden, read, written

# Spark's own defaults: core/.../internal/config/package.scala, and SQLConf.
SPARKS = ["(?i)secret|password|token|access[.]?key", "(?i)url"]
WORDS = [
    "secret",
    "passWord",
    "TOKEN",
    "access.key",
    "accesskey",
    "url",
    "curly",
    "备注",
    "'",
    '"',
    "\\",
    "hex:",
    "id",
    "ö",
    " ",
]


@pytest.mark.parametrize("seed", range(40))
def test_values_are_read_as_they_were_and_none_is_hidden(seed):
    rng = random.Random(seed)
    texts = ["".join(rng.choices(WORDS, k=rng.randint(1, 4))) for _ in range(20)]
    values = {f"towpath.p{at}": json.dumps([text], ensure_ascii=False) for at, text in enumerate(texts)}
    stored = written(values)
    assert not [text for text in stored.values() for pattern in SPARKS if re.search(pattern, text)]
    assert read(stored) == values


def test_a_users_properties_are_as_the_user_gave_them():
    given = {"delta.a": "token", "comment": "hex:00", "towpath.key": '["id"]'}
    assert written(given) == given == read(given)


def test_hidden_values_are_found():
    assert hidden({"towpath.key": HIDDEN, "towpath.given": "[]", "other": HIDDEN}) == ["towpath.key"]
