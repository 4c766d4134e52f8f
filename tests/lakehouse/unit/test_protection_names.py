"""Names of the copies that online migrations make."""

import pytest

from towpath.lakehouse.protection import RuleState, is_copy, originals, rule_of

LONG = "a" * 60 + "bcde"


@pytest.mark.parametrize(
    ("copy", "table"),
    [
        # gh-ost's names: https://github.com/github/gh-ost/blob/master/go/base/context.go (getSafeTableName)
        ("_users_gho", "users"),
        ("_users_ghc", "users"),
        ("_users_del", "users"),
        ("_users_20240131235959_del", "users"),
        (f"_{LONG[:59]}_gho", LONG),
        (f"_{LONG[:44]}_20240131235959_del", LONG),
        # pt-online-schema-change: --new-table-name %T_new with up to ten underscores before it
        ("_users_new", "users"),
        ("___users_old", "users"),
        ("__users_new", "_users"),
        ("_users_new_new", "users_new"),
    ],
)
def test_copies(copy, table):
    assert is_copy(copy, table)
    assert rule_of({f"shop.{table}": "rule"}, "shop", copy) == "rule"
    assert rule_of({f"shop.{table}": "rule"}, "other", copy) is None


@pytest.mark.parametrize("name", ["users", "users_new", "_users", "_users_gho2", "_gho", "__new", "_users_ghost"])
def test_other_names(name):
    assert originals(name) == []


def test_an_own_rule_is_taken():
    assert rule_of({"shop.users": 1, "shop._users_new": 2}, "shop", "_users_new") == 2


def test_a_column_that_gets_its_name_back():
    state = RuleState(seen=frozenset({"pin"})).with_renamed("PIN", "p").with_renamed("p", "q")
    assert state.renamed == {"q": "pin"}
    assert RuleState.parse(str(state)) == state
    assert state.with_renamed("q", "Pin").renamed == {}
    assert state.without("q").renamed == {}
