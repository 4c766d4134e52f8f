"""Which settings the jobs of a table get, by what the session keeps of compiled code."""

from types import SimpleNamespace

import pytest

from towpath.lakehouse.jobs import KINDS, MARKING, REWRITING, SMALL, UNKNOWN_SIZE, settings_for

CACHE, FACTORY = "spark.sql.codegen.cache.maxEntries", "spark.sql.codegen.factoryMode"


@pytest.mark.parametrize("conf", [{}, {CACHE: "100"}, {CACHE: "499"}])
def test_a_session_that_keeps_few_classes_interprets_expressions_unless_a_target_is_large(conf):
    session = SimpleNamespace(conf=conf)
    interpreted = (SMALL, REWRITING, UNKNOWN_SIZE)
    assert {settings_for(session, kind)[FACTORY] for kind in interpreted} == {"NO_CODEGEN"}
    assert FACTORY not in settings_for(session, MARKING)


def test_a_session_that_keeps_all_classes_compiles_the_expressions_of_all_but_small_jobs():
    session = SimpleNamespace(conf={CACHE: "2000"})
    assert [FACTORY in settings_for(session, kind) for kind in KINDS] == [True, False, False, False]
