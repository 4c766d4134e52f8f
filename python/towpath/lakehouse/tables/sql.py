"""SQL text. Identifiers are quoted and literals are escaped here, and only here.

`Sql` is text that is safe to execute. For mypy a plain `str`, such as a column's name, is not `Sql`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NewType

from towpath.ddl import quoted
from towpath.lakehouse.merging.retries import with_retries
from towpath.lakehouse.tables.sessions import unfitting_jar
from towpath.lakehouse.tables.targets import is_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

Sql = NewType("Sql", str)


def sql(template: str, **parts: Sql) -> Sql:
    """Fill the `{name}` placeholders of a constant template."""
    return Sql(template.format_map(parts))


def column(*path: str) -> Sql:
    """Return a column, or a field of a struct column: `column("s", "id")` is `s`.`id`."""
    return Sql(".".join(map(quoted, path)))


def table(target: str) -> Sql:
    """Return a table: the path of a Delta table, or a catalog name as the user wrote it."""
    return Sql(f"delta.{quoted(target)}" if is_path(target) else target)


def string(value: str) -> Sql:
    """Return a string literal."""
    return Sql("'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'")


def comma_separated(items: Iterable[Sql]) -> Sql:
    """Join items with commas."""
    return Sql(", ".join(items))


def any_of(conditions: Iterable[Sql]) -> Sql:
    """Return a condition that any of the conditions is true."""
    return Sql(" OR ".join(("false", *conditions)))


def equal_columns(names: Iterable[str]) -> Sql:
    """Return a condition that the columns of `t` and `s` are equal. Nulls are equal."""
    return Sql(" AND ".join(sql("{t} <=> {s}", t=column("t", name), s=column("s", name)) for name in names))


TRUE = Sql("true")
"""Condition that each row meets."""


def definitions(fields: Iterable[StructField]) -> Sql:
    """Return column definitions: names and types."""
    types = ((column(field.name), Sql(field.dataType.simpleString())) for field in fields)
    return comma_separated(sql("{name} {type}", name=name, type=type_) for name, type_ in types)


def merge(spark: SparkSession, target: str, source: Sql, condition: Sql, *actions: Sql) -> int | None:
    """Execute a MERGE of a source `s`, a table or a query in parentheses, into a table `t`.

    Returns:
        Number of changed rows; None if Spark does not return it for this format.
    """
    template = "MERGE INTO {target} t USING {source} s ON {condition} {actions}"
    values = {"target": table(target), "source": source, "condition": condition, "actions": Sql(" ".join(actions))}
    found = execute(spark, sql(template, **values)).collect()
    return found[0]["num_affected_rows"] if found else None


def execute(spark: SparkSession, statement: Sql) -> DataFrame:
    """Execute a statement, and repeat it after a conflict. Every statement here is repeatable.

    Raises:
        UnfittingJarError: A jar was made for another Spark.
    """
    text = without_variables(spark, statement)
    try:
        return with_retries(lambda: spark.sql(text))
    except Exception as error:
        if unfitting := unfitting_jar(spark.version, error):
            raise unfitting from error
        raise


def now(spark: SparkSession) -> datetime:
    """Return the time by Spark's clock, which also writes the times of rows."""
    time: datetime = execute(spark, Sql("SELECT current_timestamp()")).collect()[0][0]
    return time


def expressions(spark: SparkSession) -> Callable[[str], Column]:
    """Return the function that makes a column from an expression."""
    from pyspark.sql import functions as f

    return lambda text: f.expr(without_variables(spark, text))


def without_variables(spark: SparkSession, text: str) -> str:
    """Return text for `spark.sql`, `expr` or `table` in which Spark substitutes no `${...}`.

    Spark would otherwise substitute settings and environment variables even within quotes. Backticks have no escape.
    """
    if "${" not in text or spark.conf.get("spark.sql.variable.substitute") == "false":
        return text
    spark.conf.set(_DOLLAR, "$")
    return text.replace("${", f"${{{_DOLLAR}}}{{")


_DOLLAR = "towpath.dollar"
