"""Which settings the jobs of a table get, by what the session keeps of compiled code."""

from types import SimpleNamespace

import pytest

from towpath.spark.lakehouse.jobs import MARKING, REWRITING, SMALL, settings_for

CACHE, FACTORY = "spark.sql.codegen.cache.maxEntries", "spark.sql.codegen.factoryMode"


@pytest.mark.parametrize("conf", [{}, {CACHE: "100"}, {CACHE: "499"}])
def test_a_session_that_keeps_few_classes_interprets_the_expressions_of_targets_with_few_rows(conf):
    session = SimpleNamespace(conf=conf)
    assert settings_for(session, REWRITING)[FACTORY] == settings_for(session, SMALL)[FACTORY] == "NO_CODEGEN"
    assert FACTORY not in settings_for(session, MARKING)


def test_a_session_that_keeps_all_classes_compiles_the_expressions_of_all_but_small_jobs():
    session = SimpleNamespace(conf={CACHE: "2000"})
    assert [FACTORY in settings_for(session, kind) for kind in (SMALL, REWRITING, MARKING)] == [True, False, False]
