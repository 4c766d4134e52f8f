"""Which columns of a table its target has, and which of them are masked: the argument `columns` of `replicate`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from towpath.lakehouse.changes import COLUMNS
from towpath.lakehouse.sql import Sql, column, expressions, sql
from towpath.lakehouse.statements import AddColumn, ChangeColumn, ModifyColumn, RenameColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from towpath.lakehouse.statements import Action

_RULES = ("include", "exclude", "mask")


@dataclass(frozen=True)
class ColumnRules:
    """The rules for the columns of one table. Names are in lower case, since MySQL compares them without case."""

    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    mask: Mapping[str, str] = field(default_factory=dict)
    """Expressions of `value`."""

    @classmethod
    def of(cls, table: str, rules: Mapping[str, Any]) -> ColumnRules:
        """Check the rules that a user gave.

        Raises:
            ValueError: A rule is not known, or has another type.
        """
        for name, rule in rules.items():
            if name not in _RULES:
                raise ValueError(f"columns: {table}: {name!r} is not a rule; the rules are {', '.join(_RULES)}")
            if isinstance(rule, str) or not isinstance(rule, Iterable):
                raise ValueError(f"columns: {table}: {name}: expected a collection, not {rule!r}")
        mask = rules.get("mask", {})
        if not isinstance(mask, Mapping):
            raise ValueError(f"columns: {table}: mask: expected a mapping from columns to expressions of value")
        include = rules.get("include")
        return cls(
            None if include is None else _lower(include),
            _lower(rules.get("exclude", ())),
            {name.lower(): expression for name, expression in mask.items()},
        )

    def keeps(self, name: str) -> bool:
        """Whether the target has a column."""
        return name.lower() not in self.exclude and (self.include is None or name.lower() in self.include)

    def masks(self, name: str) -> bool:
        """Whether a column is masked."""
        return name.lower() in self.mask

    def is_plain(self, name: str) -> bool:
        """Whether the target has the values of a column as they are."""
        return self.keeps(name) and not self.masks(name)

    def exposes(self, old: str, new: str) -> bool:
        """Whether a column that is renamed would be readable only from then on."""
        return self.is_plain(new) and not self.is_plain(old)

    def and_those(self, other: ColumnRules) -> ColumnRules:
        """What both rules leave. Of two expressions for a column, this one's is taken."""
        includes = [one.include for one in (self, other) if one.include is not None]
        include = frozenset.intersection(*includes) if includes else None
        return ColumnRules(include, self.exclude | other.exclude, {**other.mask, **self.mask})

    def kept(self, schema: StructType) -> StructType:
        """The columns of a schema that the target has."""
        from pyspark.sql.types import StructType

        return StructType([one for one in schema if self.keeps(one.name)])

    def without_masked(self, schema: StructType) -> StructType:
        """The columns of a target whose types are those of the source's values."""
        from pyspark.sql.types import StructType

        return StructType([one for one in schema if not self.masks(one.name)])

    def masked(self, changes: DataFrame) -> DataFrame:
        """The changes with expressions in place of values."""
        if not self.mask:
            return changes
        from pyspark.sql import functions as f

        names = changes.select(f"{COLUMNS}.*").columns
        expr = expressions(changes.sparkSession)
        values = (expr(self._value(name, column(COLUMNS, name))).alias(name) for name in names)
        return changes.withColumn(COLUMNS, f.struct(*values))

    def of_table(self, rows: DataFrame) -> DataFrame:
        """The same for the rows of a table, without the columns that are left out."""
        expr = expressions(rows.sparkSession)
        kept = filter(self.keeps, rows.columns)
        return rows.select(*(expr(self._value(name, column(name))).alias(name) for name in kept))

    def of_copy(self, columns: Sequence[str], former: ColumnRules, own: Collection[str]) -> list[Sql]:
        """The columns of a target whose table gets these rules.

        Args:
            columns: Their names.
            former: The rules by which they were written.
            own: Those that are not the source table's.
        """
        kept = (name for name in columns if name in own or self.keeps(name))
        return [
            sql("{value} AS {name}", value=self._value(name, column(name)), name=column(name))
            if name not in own and not former.masks(name)
            else column(name)
            for name in kept
        ]

    def _value(self, name: str, plain: Sql) -> Sql:
        expression = self.mask.get(name.lower())
        # The expression of a lambda function: `value` is its parameter, whatever other columns are called.
        template = "transform(array({plain}), value -> {expression})[0]"
        return plain if expression is None else sql(template, plain=plain, expression=Sql(expression))

    def check_key(self, table: str, keys: Sequence[str]) -> None:
        """Refuse rules after which rows of the source could not be distinguished.

        Raises:
            ValueError: A column of the key is excluded or masked.
        """
        for name in keys:
            if self.masks(name) or not self.keeps(name):
                raise ValueError(f"columns: {table}: the column {name} of the primary key cannot be left out or masked")

    def unfollowed(self, action: Action) -> str | None:
        """Why a statement that changes a column cannot be followed: the empty text if there is nothing to follow.

        Returns:
            None if the statement is followed as if there were no rules.
        """
        if isinstance(action, RenameColumn | ChangeColumn):
            old, new = (
                (action.old, action.new) if isinstance(action, RenameColumn) else (action.old, action.column.name)
            )
            return self._unfollowed_rename(old, new)
        if not isinstance(action, AddColumn | ModifyColumn):
            return None
        name = action.column.name
        if not self.keeps(name):
            return ""
        if not self.masks(name):
            return None
        is_null = isinstance(action, ModifyColumn) or (action.column.initial is None and not action.column.unknown)
        return "" if is_null else f"the column {name} is masked, and old rows have a value that is in no message"

    def _unfollowed_rename(self, old: str, new: str) -> str | None:
        if old.lower() == new.lower() and self.masks(new):
            return ""
        plain = {self.keeps(name) and not self.masks(name) for name in (old, new)}
        if plain == {True}:
            return None
        if not self.keeps(old) and not self.keeps(new):
            return ""
        return f"the column {old} is {new} now, for which the argument columns has another rule"


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
