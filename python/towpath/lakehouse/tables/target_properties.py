"""Properties of tables. towpath may write its own properties in another form, which Spark does not redact.

`SHOW TBLPROPERTIES` redacts values with "password", "token" or "url". Columns may have these names too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from towpath.lakehouse.tables.formats import DELTA, delta_detail, format_of
from towpath.lakehouse.tables.sql import Sql, comma_separated, execute, sql, string, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN = "towpath."
"""Prefix of towpath's properties."""

SOURCE = "towpath.source"
"""Table for which a target was created."""

KEY = "towpath.key"
"""Columns of the key."""

PARTIAL = "towpath.partial"
"""`true` if rows may have received updates of only some columns."""

HIDDEN = "*********(redacted)"
"""Text that Spark shows instead of a redacted value."""

# The defaults of spark.redaction.regex and spark.sql.redaction.options.regex.
_LOOKS_SECRET = re.compile(r"secret|password|token|access[.]?key|url", re.IGNORECASE)
_HEX = "hex:"


def written(values: Mapping[str, str]) -> dict[str, str]:
    """Return properties in their written form."""
    return {name: _written(value) if name.startswith(OWN) else value for name, value in values.items()}


def _written(value: str) -> str:
    return _HEX + value.encode().hex() if _LOOKS_SECRET.search(value) else value


def read(values: Mapping[str, str]) -> dict[str, str]:
    """Return properties in their original form."""
    return {name: _read(value) if name.startswith(OWN) else value for name, value in values.items()}


def _read(value: str) -> str:
    return bytes.fromhex(value.removeprefix(_HEX)).decode() if value.startswith(_HEX) else value


def hidden(values: Mapping[str, str]) -> list[str]:
    """Return the names of towpath's properties whose values are redacted."""
    return [name for name, value in values.items() if name.startswith(OWN) and value == HIDDEN]


def definitions_of(values: Mapping[str, str]) -> Sql:
    """Return properties as SQL for a statement that creates or alters a table."""
    pairs = ((string(name), string(value)) for name, value in written(values).items())
    return comma_separated(sql("{name} = {value}", name=name, value=value) for name, value in pairs)


def set_properties(spark: SparkSession, target: str, values: Mapping[str, str]) -> None:
    """Set properties of a table."""
    template = "ALTER TABLE {table} SET TBLPROPERTIES ({properties})"
    execute(spark, sql(template, table=table(target), properties=definitions_of(values)))


def table_properties(spark: SparkSession, target: str) -> dict[str, str]:
    """Return the properties of a table.

    Raises:
        ValueError: Spark redacts a property of towpath.
    """
    shown = execute(spark, sql("SHOW TBLPROPERTIES {table}", table=table(target))).collect()
    found = {row["key"]: row["value"] for row in shown}
    if hidden(found) and format_of(spark, target) is DELTA:  # by settings of the session
        found |= delta_detail(spark, target)["properties"]
    if names := hidden(found):
        raise ValueError(f"{target}: spark.redaction.regex hides the properties {names}, which towpath must read")
    return read(found)


def settings_of(spark: SparkSession, source: str, target: str) -> dict[str, str]:
    """Return the properties of a table that may be copied to another table."""
    of_target = format_of(spark, target)
    found = table_properties(spark, source).items()
    return {
        name: text for name, text in found if text != HIDDEN and (name.startswith(OWN) or of_target.is_setting(name))
    }
