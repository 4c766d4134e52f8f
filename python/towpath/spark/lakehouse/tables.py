"""Tables of the lakehouse: their names, their columns, and how they grow.

Everything is SQL, so a table format's Python package is not needed, and a session of Spark Connect does as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

# What Delta has to be told before it stores a column of the type, or changes one.
_PROPERTIES = {"delta.enableTypeWidening": "true", "delta.feature.timestampNtz": "supported"}
_MAPPED_NAMES = {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}
_UNMAPPED = frozenset(" ,;{}()\n\t=")

_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Digits of each integer type, in the order of their sizes."""


def quoted(name: str) -> str:
    """A column's name as SQL."""
    return "`" + name.replace("`", "``") + "`"


def identifier(target: str) -> str:
    """A table as SQL: a path is what has a slash, everything else is a name in a catalog, as the user wrote it."""
    return f"delta.{quoted(target)}" if "/" in target else target


def beside(target: str, suffix: str) -> str:
    """The name of a table that belongs to another one."""
    if target.endswith("`"):
        return f"{target[:-1]}__{suffix}`"
    return f"{target.rstrip('/')}__{suffix}"


def columns_of(spark: SparkSession, target: str) -> StructType | None:
    """The columns of a table; None if there is no such table."""
    if "/" not in target:
        return spark.table(target).schema if spark.catalog.tableExists(target) else None
    from pyspark.errors import AnalysisException

    try:
        return spark.read.format("delta").load(target).schema
    except AnalysisException as error:
        # Spark 3.5 has the older of these two names only, and Spark 4 warns of it.
        condition = error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass()
        if condition in ("DELTA_MISSING_DELTA_TABLE", "DELTA_PATH_DOES_NOT_EXIST", "PATH_NOT_FOUND"):
            return None
        raise


def prepare(spark: SparkSession, target: str, columns: StructType, *, evolve: bool = True) -> None:
    """Make the table, or make it hold these columns: add those that it lacks, widen types that are too narrow.

    Args:
        spark: The session.
        target: A catalog's name of the table, or its path.
        columns: What is going to be written.
        evolve: Whether an existing table may be changed.

    Raises:
        ValueError: No type holds what the table has and what is going to be written, or the table would have to
            change and must not. Nothing has been changed then.
    """
    existing = columns_of(spark, target)
    if existing is None:
        _create(spark, target, columns)
        return
    known = {field.name.lower(): field for field in existing}
    added = [field for field in columns if field.name.lower() not in known]
    both = [(known.get(field.name.lower()), field) for field in widened(target, existing, columns)]
    wide = [field for has, field in both if has and not _alike(has, field)]
    if (added or wide) and not evolve:
        listed = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in [*added, *wide])
        raise ValueError(
            f"{target}: the messages need the columns {listed}, and evolve=False forbids to change the table"
        )
    _add(spark, target, added)
    _widen(spark, target, wide)


def _create(spark: SparkSession, target: str, columns: StructType) -> None:
    properties = dict(_PROPERTIES)
    if any(_UNMAPPED.intersection(field.name) for field in columns):
        properties |= _MAPPED_NAMES
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    spark.sql(f"CREATE TABLE {identifier(target)} ({_declared(columns)}) USING delta TBLPROPERTIES ({listed})")


def _declared(columns: StructType | list[StructField]) -> str:
    return ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in columns)


def _add(spark: SparkSession, target: str, added: list[StructField]) -> None:
    if added:
        _allow(spark, target)
        spark.sql(f"ALTER TABLE {identifier(target)} ADD COLUMNS ({_declared(added)})")


def _widen(spark: SparkSession, target: str, wide: list[StructField]) -> None:
    if wide:
        _allow(spark, target)
    for field in wide:
        change = f"ALTER COLUMN {quoted(field.name)} TYPE {field.dataType.simpleString()}"
        spark.sql(f"ALTER TABLE {identifier(target)} {change}")


def _allow(spark: SparkSession, target: str) -> None:
    """A table that somebody else made may lack what ours are made with."""
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in _PROPERTIES.items())
    spark.sql(f"ALTER TABLE {identifier(target)} SET TBLPROPERTIES ({listed})")


def widened(target: str, existing: StructType | None, wanted: StructType) -> StructType:
    """The wanted columns, with types that hold what the table has as well.

    Raises:
        ValueError: For a column there is no such type.
    """
    from pyspark.sql.types import StructType

    known = {field.name.lower(): field for field in existing or []}
    return StructType([_widened(target, known.get(field.name.lower()), field) for field in wanted])


def _widened(target: str, has: StructField | None, wanted: StructField) -> StructField:
    from pyspark.sql.types import StructField

    if has is None or _alike(has, wanted):
        return wanted
    both = wider(has.dataType, wanted.dataType)
    if both is None:
        raise ValueError(
            f"{target}: column {wanted.name} is {has.dataType.simpleString()} in the table and "
            f"{wanted.dataType.simpleString()} in the messages; no type that the table can be widened to holds both. "
            f"Give the column's type with a schema, or rename the table's column"
        )
    return StructField(wanted.name, both)


def _alike(one: StructField, other: StructField) -> bool:
    """By their simple strings, as these leave nullability out."""
    return one.dataType.simpleString() == other.dataType.simpleString()


def wider(has: DataType, wanted: DataType) -> DataType | None:
    """The type that a column has to get so that it holds every value of both; None if there is none.

    Text holds numbers, dates and times as they are printed, so a column of strings stays one. Bytes are no text.
    """
    from pyspark.sql.types import DateType, DecimalType, DoubleType, FloatType, StringType, TimestampNTZType

    one, other = has.simpleString(), wanted.simpleString()
    if one in _INTEGERS and other in _INTEGERS:
        return has if _INTEGERS[one] >= _INTEGERS[other] else wanted
    if digits := _common_digits(has, wanted):
        return DecimalType(*digits) if sum(digits) and digits[0] <= 38 else None
    if {one, other} == {"float", "double"}:
        return DoubleType()
    # A double has room for 53 bits; a float for 24.
    if (other == "double" and _INTEGERS.get(one, 99) <= 10) or (one == "double" and _INTEGERS.get(other, 99) <= 10):
        return DoubleType()
    if isinstance(has, FloatType) and other in ("tinyint", "smallint"):
        return has
    if isinstance(has, DateType) and isinstance(wanted, TimestampNTZType):
        return wanted
    if isinstance(has, TimestampNTZType) and isinstance(wanted, DateType):
        return has
    printable = (*_INTEGERS, "float", "double", "date", "timestamp_ntz", "boolean")
    if isinstance(has, StringType) and (other in printable or isinstance(wanted, DecimalType | StringType)):
        return has
    return None


def _common_digits(has: DataType, wanted: DataType) -> tuple[int, int] | None:
    """Precision and scale of the decimal that holds both, where at least one of them is a decimal."""
    from pyspark.sql.types import DecimalType

    if not isinstance(has, DecimalType) and not isinstance(wanted, DecimalType):
        return None
    one, other = _digits(has), _digits(wanted)
    if one is None or other is None:
        return None
    whole, scale = max(one[0], other[0]), max(one[1], other[1])
    return whole + scale, scale


def _digits(data_type: DataType) -> tuple[int, int] | None:
    """Digits before and behind the point."""
    from pyspark.sql.types import DecimalType

    if isinstance(data_type, DecimalType):
        return data_type.precision - data_type.scale, data_type.scale
    digits = _INTEGERS.get(data_type.simpleString())
    return (digits, 0) if digits else None


def append_once(rows: DataFrame, table: str, identity: Sequence[str]) -> None:
    """Append rows to a table, which is made if need be; one that it has already is not written again."""
    prepare(rows.sparkSession, table, rows.schema)
    same = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in identity)
    with view(rows.dropDuplicates(list(identity))) as name:
        rows.sparkSession.sql(
            f"MERGE INTO {identifier(table)} t USING {name} s ON {same} WHEN NOT MATCHED THEN INSERT *"
        )


@contextmanager
def view(frame: DataFrame) -> Iterator[str]:
    """A name for a frame in SQL, for as long as the block lasts."""
    name = f"towpath_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)
