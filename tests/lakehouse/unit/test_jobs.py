"""Which settings the jobs of a table get, by what the session keeps of compiled code."""

from types import SimpleNamespace

import pytest

from towpath.lakehouse.merging.jobs import KINDS, MARKING, REWRITING, SMALL, UNKNOWN_SIZE, settings_for

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


def test_jobs_that_mark_rows_filter_the_target_by_the_changed_keys():
    """Spark makes a Bloom filter only of a side whose size it knows, and that it does not broadcast."""
    settings = settings_for(SimpleNamespace(conf={}), MARKING)
    assert settings["spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold"] == "0"
    assert settings["spark.sql.autoBroadcastJoinThreshold"] == "-1"
    others = (SMALL, REWRITING, UNKNOWN_SIZE)  # a target that is rewritten is read whole
    assert not any("bloom" in name for kind in others for name in settings_for(SimpleNamespace(conf={}), kind))
