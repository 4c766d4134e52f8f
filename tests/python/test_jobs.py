"""Which settings the jobs of a table get, by what the session keeps of compiled code."""

from types import SimpleNamespace

import pytest

from towpath.spark.lakehouse.jobs import KINDS, MARKING, settings_for

CACHE, FACTORY = "spark.sql.codegen.cache.maxEntries", "spark.sql.codegen.factoryMode"


@pytest.mark.parametrize("conf", [{}, {CACHE: "100"}, {CACHE: "499"}])
def test_a_session_that_keeps_few_classes_interprets_expressions(conf):
    session = SimpleNamespace(conf=conf)
    assert {settings_for(session, kind)[FACTORY] for kind in KINDS} == {"NO_CODEGEN"}


def test_a_session_that_keeps_all_classes_compiles_expressions_of_large_tables():
    assert FACTORY not in settings_for(SimpleNamespace(conf={CACHE: "2000"}), MARKING)
