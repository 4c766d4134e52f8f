"""Lakehouse tables: their schemas, creation, and schema evolution.

All code uses SQL, so it needs no Python package of the table format and works on Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING
from uuid import uuid4
from zlib import crc32

from towpath.lakehouse.merging.retries import is_being_created, with_retries
from towpath.lakehouse.order.order import ORDER_TYPE
from towpath.lakehouse.reading.batch_messages import computed
from towpath.lakehouse.tables.driver_tables import DriverTable
from towpath.lakehouse.tables.formats import DELTA, Format, format_of
from towpath.lakehouse.tables.sessions import hadoop_path, may_exist
from towpath.lakehouse.tables.sql import (
    TRUE,
    Sql,
    column,
    comma_separated,
    definitions,
    equal_columns,
    execute,
    expressions,
    sql,
    table,
)
from towpath.lakehouse.tables.target_properties import definitions_of, set_properties, table_properties
from towpath.lakehouse.tables.targets import is_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

    from towpath.lakehouse.merging.tasks import TaskMerges

ORDER = "_towpath"
"""Column of a target with the order value of the change that wrote the row. The table's columns precede it."""

# The last one means that another writer is about to create the table.
_NO_TABLE = ("DELTA_MISSING_DELTA_TABLE", "DELTA_PATH_DOES_NOT_EXIST", "PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")

INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Decimal digits of each integer type, from the smallest to the largest."""


@dataclass(frozen=True)
class TableSettings:
    """Settings for creating and maintaining targets."""

    properties: Mapping[str, str] = field(default_factory=dict)
    cluster_by: tuple[str, ...] = ()
    optimize_every: int | None = 50
    evolve: bool = True
    forget_after: str | None = "7 days"
    in_tasks: bool = False
    """Whether tasks may merge the changes of new tables."""
    soft_deletes: str | None = None
    """Column with the deletion time of a row, if deleted rows stay."""


def order_column(schema: StructType) -> str | None:
    """Return the name of a target's column with the order values. No source table has a column of this type."""
    return next((one.name for one in schema if one.name.startswith(ORDER) and _is_order(one.dataType)), None)


def _is_order(data_type: DataType) -> bool:
    return data_type.simpleString() == ORDER_TYPE


def free_name(columns: Iterable[str], current: str = ORDER) -> str:
    """Return a name for the order values with which no column's name begins: the current one if possible."""
    taken = [name.lower() for name in columns]
    numbered = (f"{ORDER}_{number}" for number in range(1, len(taken) + 2))
    return next(name for name in (current, *numbered) if not any(one.startswith(name) for one in taken))


def rename_column(spark: SparkSession, target: str, old: str, new: str) -> str:
    """Rename a column of a table, and return its new name."""
    _enable_features(spark, target)
    _alter(spark, target, sql("RENAME COLUMN {old} TO {new}", old=column(old), new=column(new)))
    return new


def drop_column(spark: SparkSession, target: str, name: str) -> None:
    """Drop a column of a table."""
    _enable_features(spark, target)
    _alter(spark, target, sql("DROP COLUMN {name}", name=column(name)))


def schema_of(spark: SparkSession, target: str, in_tasks: TaskMerges | None = None) -> StructType | None:
    """Return the schema of a table, or None if it does not exist. `in_tasks` says which tables delta-rs may read."""
    if found := DriverTable(spark, target, in_tasks).read():
        return found[0]
    if not is_path(target):
        return spark.table(target).schema if spark.catalog.tableExists(target) else None
    from pyspark.errors import AnalysisException

    if not may_exist(spark, target):
        return None
    try:
        return spark.read.format("delta").load(target).schema
    except AnalysisException as error:
        # Spark 3.5 only has `getErrorClass`, which Spark 4 deprecates.
        condition = error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass()
        if condition in _NO_TABLE:
            return None
        raise


def exists(spark: SparkSession, target: str) -> bool:
    """Return whether a table exists. On Connect a path is assumed to exist."""
    return may_exist(spark, f"{target}/_delta_log") if is_path(target) else spark.catalog.tableExists(target)


def estimated_size(frame: DataFrame) -> int | None:
    """Return Spark's estimate of the bytes of a table's files; None on Connect, where the client does not know it."""
    plan = getattr(frame, "_jdf", None)
    return int(plan.queryExecution().optimizedPlan().stats().sizeInBytes()) if plan is not None else None


def create_or_evolve(
    spark: SparkSession,
    target: str,
    columns: StructType,
    *,
    settings: TableSettings | None = None,
    in_tasks: TaskMerges | None = None,
) -> None:
    """Create the table, or evolve its schema to store these columns: add columns, widen types.

    `in_tasks` says which tables delta-rs may write.

    Raises:
        ValueError: No type can store both the old and the new values of a column, or the schema must not change. Then
            nothing has been changed.
    """
    settings, in_driver = settings or TableSettings(), DriverTable(spark, target, in_tasks)
    existing = schema_of(spark, target, in_tasks)
    if existing is None:
        properties = {**DELTA.with_statistics(_leaves_before_order(columns)), **settings.properties}
        if settings.cluster_by or not in_driver.create(columns, properties):
            _create(spark, target, columns, settings)
        return
    known = {field.name.lower(): field for field in existing}
    added = [field for field in columns if field.name.lower() not in known]
    pairs = [(known.get(field.name.lower()), field) for field in widened(target, existing, columns)]
    changes = [(old, field) for old, field in pairs if old and not _same_type(old, field)]
    of_target = format_of(spark, target)
    for old, wanted in changes:
        if not of_target.can_change(old.dataType, wanted.dataType):
            raise _unstorable(target, old, wanted)
    changed = [wanted for _, wanted in changes]
    of_source = [field for field in (*added, *changed) if not _is_order(field.dataType)]
    if of_source and not settings.evolve:
        listed = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in of_source)
        raise ValueError(
            f"{target}: the messages need the columns {listed}, but evolve=False prevents changing the table"
        )
    if not changed and (not added or in_driver.add(added)):
        return
    if added or changed:
        _enable_features(spark, target, **(of_target.for_wider_types if changed else {}))
    if added:
        _alter(spark, target, sql("ADD COLUMNS ({columns})", columns=definitions(added)))
    for one in changed:
        new_type = Sql(one.dataType.simpleString())
        _alter(spark, target, sql("ALTER COLUMN {name} TYPE {type}", name=column(one.name), type=new_type))


def _create(spark: SparkSession, target: str, columns: StructType, settings: TableSettings) -> None:
    template = "CREATE TABLE IF NOT EXISTS {table} ({columns}) {settings}"
    values = {"columns": definitions(columns), "settings": _creation(spark, target, columns, settings)}

    def attempt() -> None:
        execute(spark, sql(template, table=table(target), **values))
        spark.read.table(table(target))  # fails if another writer has begun the table but not committed it

    with_retries(attempt, partial(_is_begun, spark, target))


def _is_begun(spark: SparkSession, target: str, error: Exception) -> bool:
    """Return whether creating a table failed because another writer has begun to create it."""
    conditions = ("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", _ALREADY_EXISTS)
    if not is_being_created(error) and not any(condition in str(error) for condition in conditions):
        return False
    # A catalog only lists complete tables.
    if _ALREADY_EXISTS in str(error) and (not is_path(target) or schema_of(spark, target) is not None):
        return False
    return not is_path(target) or _may_become_a_table(spark, target)


_ALREADY_EXISTS = "TABLE_OR_VIEW_ALREADY_EXISTS"
"""Error condition. For a path it only means that a file exists."""


def _may_become_a_table(spark: SparkSession, path: str) -> bool:
    """Return whether a folder looks like a table that is not committed yet. Other files never become a table.

    Spark writes data files before the log. Spark's output in a format other than Delta ends with `_SUCCESS`.
    """
    found = hadoop_path(spark, path)
    if found is None:  # a Connect client cannot check
        return True
    at, file_system = found
    if not file_system.exists(at):  # the other writer has failed
        return True
    names = {str(file.getPath().getName()) for file in file_system.listStatus(at)}
    return "_SUCCESS" not in names and any(name.startswith(("_delta_log", "part-")) for name in names)


def create_with(spark: SparkSession, target: str, rows: DataFrame, settings: TableSettings) -> bool:
    """Create a table with rows in one transaction. Return whether it did not exist."""
    feed = _feed(spark, target, settings.properties)
    with temporary_view(rows) as view:
        template = "CREATE TABLE {table} {settings} AS SELECT * FROM {view}"
        creation = _creation(spark, target, rows.schema, replace(settings, properties={**settings.properties, **feed}))
        statement = sql(template, table=table(target), settings=creation, view=view)
        try:
            with_retries(lambda: execute(spark, statement), partial(_is_begun, spark, target))
        except Exception:
            if schema_of(spark, target) is None:
                raise
            return False  # another writer created it first
    _turn_on(spark, target, feed)
    return True


def replace_with(spark: SparkSession, target: str, rows: DataFrame, settings: Mapping[str, str]) -> None:
    """Replace a table with rows in one transaction, or create it. Keep its clustering and partitioning."""
    template = "CREATE OR REPLACE TABLE {target} {clauses} AS SELECT * FROM {view}"
    of_target = format_of(spark, target)
    layout = of_target.layout(spark, target) if schema_of(spark, target) is not None else Sql("")
    feed = _feed(spark, target, settings)
    clauses = _clauses(of_target, {**settings, **feed}, layout)
    with temporary_view(rows) as view:
        execute(spark, sql(template, target=table(target), clauses=clauses, view=view))
    _turn_on(spark, target, feed)


def _creation(spark: SparkSession, target: str, columns: StructType, settings: TableSettings) -> Sql:
    of_target = format_of(spark, target)
    of_target.check_name(target)
    statistics = of_target.with_statistics(_leaves_before_order(columns))
    marking = {} if settings.in_tasks else of_target.of_new_tables
    values = {**of_target.required, **statistics, **marking, **settings.properties}
    return _clauses(of_target, values, of_target.clustering(settings.cluster_by))


def has_feed(spark: SparkSession, target: str, settings: Mapping[str, str]) -> bool:
    """Return whether a new table with these properties has Delta's change data feed."""
    default = spark.conf.get("spark.databricks.delta.properties.defaults.enableChangeDataFeed", None)
    return format_of(spark, target) is DELTA and settings.get(_FEED, default or "false").lower() == "true"


_FEED = "delta.enableChangeDataFeed"


def _feed(spark: SparkSession, target: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the property that delays a table's change data feed, if the table is to have one.

    Delta cannot create a table of renameable columns with both rows and a feed. The feed begins after the rows.
    """
    return {_FEED: "false"} if has_feed(spark, target, settings) else {}


def _turn_on(spark: SparkSession, target: str, feed: Mapping[str, str]) -> None:
    if feed:
        set_properties(spark, target, dict.fromkeys(feed, "true"))


def _leaves_before_order(columns: StructType) -> int:
    """Count the values of a row before its order value, including those within structs."""
    own = takewhile(lambda one: not _is_order(one.dataType), columns)
    return sum(_leaves(one.dataType) for one in own)


def _leaves(data_type: DataType) -> int:
    from pyspark.sql.types import StructType

    return sum(_leaves(one.dataType) for one in data_type) if isinstance(data_type, StructType) else 1


def _clauses(of_target: Format, settings: Mapping[str, str], layout: Sql) -> Sql:
    template = "USING {format} {layout}TBLPROPERTIES ({properties})" if settings else "USING {format} {layout}"
    return sql(template, format=Sql(of_target.name), layout=layout, properties=definitions_of(settings))


def _enable_features(spark: SparkSession, target: str, **more: str) -> None:
    """Set the properties of `_create`, which tables of other creators may lack, and more."""
    required = {**format_of(spark, target).required, **more}
    if not required.items() <= table_properties(spark, target).items():
        set_properties(spark, target, required)


def _alter(spark: SparkSession, target: str, change: Sql) -> None:
    execute(spark, sql("ALTER TABLE {table} {change}", table=table(target), change=change))


def widened(target: str, existing: StructType | None, wanted: StructType) -> StructType:
    """Return the wanted columns, each with a type that can also store the table's values.

    Raises:
        ValueError: A column has no such type.
    """
    from pyspark.sql.types import StructType

    known = {field.name.lower(): field for field in existing or []}
    return StructType([_widened(target, known.get(field.name.lower()), field) for field in wanted])


def _widened(target: str, old: StructField | None, wanted: StructField) -> StructField:
    from pyspark.sql.types import StructField

    if old is None or _same_type(old, wanted):
        return wanted
    common = common_type(old.dataType, wanted.dataType)
    if common is None:
        raise _unstorable(target, old, wanted)
    return StructField(wanted.name, common)


def _unstorable(target: str, old: StructField, wanted: StructField) -> ValueError:
    return ValueError(
        f"{target}: column {wanted.name} is {old.dataType.simpleString()} in the table and "
        f"{wanted.dataType.simpleString()} in the messages; the table cannot be widened to a type that holds both. "
        f"Give the column's type with a schema, or rename the table's column"
    )


def _same_type(one: StructField, other: StructField) -> bool:
    """Compare simple strings, since they ignore nullability."""
    return one.dataType.simpleString() == other.dataType.simpleString()


_HELD = {
    "float": ("tinyint", "smallint"),
    "double": ("tinyint", "smallint", "int", "float"),  # exact for integers of up to 53 bits
    "timestamp_ntz": ("date",),
    "string": (*INTEGERS, "float", "double", "date", "timestamp_ntz", "boolean"),
}
"""Types whose values a column of a type can store, besides numbers with digits."""


def common_type(old: DataType, wanted: DataType) -> DataType | None:
    """Return the type for a column that has to store the values of both types; None if no such type exists.

    A string column stays a string. It stores numbers, dates and times as text, but cannot store binary values.
    """
    from pyspark.sql.types import DecimalType, StringType

    one, other, known, new = old.simpleString(), wanted.simpleString(), _digits(old), _digits(wanted)
    if one == other:
        return old
    if known and new:
        if one in INTEGERS and other in INTEGERS:
            return old if known >= new else wanted
        whole, scale = max(known[0], new[0]), max(known[1], new[1])
        return DecimalType(whole + scale, scale) if 0 < whole + scale <= 38 else None
    is_text = isinstance(old, StringType)
    if other in _HELD.get("string" if is_text else one, ()):
        return old
    if is_text and isinstance(wanted, DecimalType | StringType):
        return old
    return wanted if one in _HELD.get(other, ()) and other not in ("float", "string") else None


def can_store(column_type: DataType, wanted: DataType) -> bool:
    """Return whether a column of a type can store the values of another type."""
    common = common_type(column_type, wanted)
    return common is not None and common.simpleString() == column_type.simpleString()


def _digits(data_type: DataType) -> tuple[int, int] | None:
    """Return the digits before and after the decimal point."""
    from pyspark.sql.types import DecimalType

    if isinstance(data_type, DecimalType):
        return data_type.precision - data_type.scale, data_type.scale
    digits = INTEGERS.get(data_type.simpleString())
    return (digits, 0) if digits else None


def append_once(rows: DataFrame, target: str, identity: Sequence[str], condition: Sql = TRUE) -> None:
    """Append rows to a table, and create it if needed.

    Skip a row if a stored row `t` that meets a condition has its identity.
    """
    create_or_evolve(rows.sparkSession, target, rows.schema)
    append_new(rows.dropDuplicates(list(identity)), target, equal_columns(identity), condition)


def append_new(rows: DataFrame, target: str, same: Sql, condition: Sql) -> None:
    """Append the rows `s` to a table, except those that match a stored row `t` that meets a condition."""
    spark = rows.sparkSession
    known = spark.read.table(table(target)).alias("t").filter(condition)
    new = rows.alias("s").join(known, expressions(spark)(same), "left_anti")
    # A statement that reads the table it writes conflicts with every other writer, and with OPTIMIZE.
    with ExitStack() as held:
        append(spark, target, computed(new, held, in_driver=False))


def optimize_in_turn(spark: SparkSession, target: str, batch_id: int, every: int | None) -> None:
    """Compact a table in one of `every` batches. Targets take turns, so that no batch has to compact all of them."""
    if every and batch_id and (batch_id + crc32(target.encode())) % every == every - 1:
        format_of(spark, target).compact(spark, target)


def append(spark: SparkSession, target: str, rows: DataFrame) -> None:
    """Append rows to an existing table. Columns that the rows lack are null."""
    known, values = {name.lower() for name in rows.columns}, {name: column(name) for name in rows.columns}
    if format_of(spark, target) is not DELTA:  # Spark fills columns only for Delta
        values |= {one.name: Sql("NULL") for one in schema_of(spark, target) or () if one.name.lower() not in known}
    names, cells = comma_separated(map(column, values)), comma_separated(values.values())
    with temporary_view(rows) as view:
        template = "INSERT INTO {table} ({names}) SELECT {cells} FROM {view}"
        execute(spark, sql(template, table=table(target), names=names, cells=cells, view=view))


@contextmanager
def temporary_view(frame: DataFrame) -> Iterator[Sql]:
    """Create a temporary view of a DataFrame. Drop it at the end of the block."""
    name = f"towpath_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield Sql(name)
    finally:
        frame.sparkSession.catalog.dropTempView(name)
