"""A jar that is missing, or was made for another Spark: one line says so, where Java says it in pages."""

import pytest

from towpath.lakehouse.tables.sessions import UnfittingJarError
from towpath.lakehouse.tables.sql import Sql, execute
from towpath.versions import TESTED

OF_JAVA = (
    "An error occurred while calling o36.sql.\n"
    ": java.lang.NoSuchMethodError: 'org.apache.spark.Storage org.apache.spark.Storage.copy(scala.Option)'\n"
    "\tat org.apache.spark.sql.delta.catalog.DeltaCatalog.createDeltaTable(DeltaCatalog.scala:170)\n"
)


class Session:
    """A session of some version, whose statements fail."""

    def __init__(self, version, error):
        self.version, self._error = version, error

    def sql(self, text):
        raise self._error


@pytest.mark.parametrize("tested", TESTED, ids=lambda tested: tested.spark)
def test_the_cure_is_that_of_the_spark(tested):
    with pytest.raises(UnfittingJarError) as raised:
        execute(Session(tested.spark, RuntimeError(OF_JAVA)), Sql("CREATE TABLE t"))
    said = str(raised.value)
    assert f"built for a Spark other than {tested.spark}: " in said
    assert all(jar in said for name, jar in tested.jars.items() if name != "kafka")
    assert ('pip install "towpath[lakehouse]"' in said) == (not tested.jars)
    assert "NoSuchMethodError: 'org.apache.spark.Storage" in said
    assert "\n" not in said


@pytest.mark.parametrize("name", ["delta", "iceberg"])
@pytest.mark.parametrize("tested", TESTED, ids=lambda tested: tested.spark)
def test_a_jar_that_is_missing(tested, name):
    error = RuntimeError(f"[DATA_SOURCE_NOT_FOUND] Failed to find the data source: {name}. Make sure\n\tat java")
    with pytest.raises(UnfittingJarError) as raised:
        execute(Session(tested.spark, error), Sql("CREATE TABLE t"))
    jar = tested.jars.get(name)
    cure = f"set spark.jars.packages to {jar} before" if jar else f"no version is tested with Spark {tested.spark}; pip"
    assert str(raised.value).startswith(f"the session has no {name.capitalize()}: {cure}")


def test_other_errors_are_as_they_were():
    error = RuntimeError("java.lang.IllegalArgumentException: no")
    with pytest.raises(RuntimeError) as raised:
        execute(Session("4.0.0", error), Sql("SELECT 1"))
    assert raised.value is error
