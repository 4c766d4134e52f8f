"""Refuses rows with columns that Spark's JDBC source reads wrong, as the columns' metadata shows.

Spark 4.0 reads a TIME as a wall-clock time and a BIT as the digits of its bytes. It pads CHAR, ENUM and SET with
blanks. It quotes columns for `jdbc:mariadb:` so that MariaDB returns their names instead of their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from towpath.lakehouse.tables.sessions import jvm_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PADDING = "spark.sql.readSideCharPadding"
UNPADDED = {_PADDING: "false"}
"""Session settings with which Spark reads CHAR unpadded."""


def check_jdbc_rows(name: str, rows: DataFrame) -> None:
    """Refuse rows with wrong values.

    Args:
        name: Name of the argument and table, for errors.
        rows: The rows. Spark pads them unless the session has the settings `UNPADDED`.

    Raises:
        ValueError: Some or all columns have wrong values.
    """
    for url in _jdbc_urls(rows):
        check_url(rows.sparkSession, f"{name}: url", url)
    is_padded = rows.sparkSession.conf.get(_PADDING, "true") == "true"
    for field in rows.schema:
        column, said = field.name, field.metadata
        if said.get("logical_time_type"):
            cure = f"select CAST({column} AS CHAR) in the option query"
            raise ValueError(f"{name}: Spark reads the TIME {column} as a time of 1970-01-01: {cure}")
        if said.get("binarylong") and field.dataType.typeName() == "binary":
            cure = f"select CAST({column} AS BINARY) in the option query"
            raise ValueError(f"{name}: Spark reads the BIT {column} as the digits of its bytes: {cure}")
        declared = str(said.get("__CHAR_VARCHAR_TYPE_STRING", ""))
        if is_padded and declared.startswith("char"):
            cure = f"give a function that reads the rows, or read them with {_PADDING}=false"
            raise ValueError(f"{name}: Spark pads the {declared} {column} with blanks: {cure}")


def check_url(spark: SparkSession, name: str, url: str) -> None:
    """Raise a ValueError for a MariaDB URL that Spark reads without its MySQL dialect."""
    dialects = getattr(jvm_of(spark), "org.apache.spark.sql.jdbc.JdbcDialects")
    if url.lower().startswith("jdbc:mariadb:") and "`" not in dialects.get(url).quoteIdentifier("a"):
        raise ValueError(
            f"{name}: Spark reads column names instead of values from jdbc:mariadb:. Use "
            'jdbc:mysql://HOST/?permitMysqlScheme with the option driver="org.mariadb.jdbc.Driver"'
        )


def _jdbc_urls(rows: DataFrame) -> list[str]:
    """Return the URLs of JDBC sources in a plan; none on Connect."""
    if jvm_of(rows.sparkSession) is None:
        return []
    leaves: Any = rows._jdf.queryExecution().analyzed().collectLeaves()
    relations = (leaves.apply(at) for at in range(leaves.size()))
    of_jdbc = (one.relation() for one in relations if one.nodeName() == "LogicalRelation")
    return [one.jdbcOptions().url() for one in of_jdbc if one.getClass().getSimpleName() == "JDBCRelation"]
