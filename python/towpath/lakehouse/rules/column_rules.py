"""Excluded and masked columns of tables: the argument `columns` of `replicate`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from towpath.lakehouse.reading.changes import COLUMNS
from towpath.lakehouse.statements import AddColumn, ModifyColumn, RenameColumn
from towpath.lakehouse.tables.sql import Sql, column, expressions, sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from towpath.lakehouse.statements import Action

_RULES = ("include", "exclude", "mask")

_PLAIN = "value"
"""Mask that changes no value. A rule with it names a column that the target gets unchanged."""


class Rule(NamedTuple):
    """Rule for one column of a target."""

    is_kept: bool = True
    mask: str | None = None
    """Expression of `value`."""
    is_known: bool = True
    """Whether a rule names the column, or a statement added it."""
    names: frozenset[str] = frozenset()
    """Current and former names of the column, in lower case. Empty if the name was dropped or renamed."""

    def and_that(self, older: Rule) -> Rule:
        """Combine with an older rule: both restrict the column. If both have a mask, this one's is used."""
        is_kept, is_known = self.is_kept and older.is_kept, self.is_known and older.is_known
        mask = older.mask if self.mask is None else self.mask
        return Rule(is_kept, mask, is_known, self.names | older.names)


@dataclass(frozen=True)
class ColumnRules:
    """Rules of a user for one name of a table. Names are in lower case, since MySQL compares them without case."""

    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    mask: Mapping[str, str] = field(default_factory=dict)
    """Expressions of `value` by column."""

    @classmethod
    def of(cls, table: str, rules: Mapping[str, Any]) -> ColumnRules:
        """Check the rules of a user.

        Raises:
            ValueError: A rule is unknown, or has the wrong type.
        """
        for name, rule in rules.items():
            if name not in _RULES:
                raise ValueError(f"columns: {table}: unknown rule {name!r}; expected one of {', '.join(_RULES)}")
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

    def rule(self, name: str) -> Rule:
        """Return the rule for a column in lower case."""
        is_kept = name not in self.exclude and (self.include is None or name in self.include)
        return Rule(is_kept, self.mask.get(name), name in {*self.exclude, *self.mask, *(self.include or ())})

    @property
    def hidden(self) -> frozenset[str]:
        """Columns that the rules exclude or mask."""
        return self.exclude | {name for name, expression in self.mask.items() if expression != _PLAIN}


@dataclass(frozen=True)
class TableRules:
    """Rules for the columns of one table."""

    find: Callable[[str], Rule] = lambda _: Rule()
    """Function that returns the rule for a column in lower case."""
    hidden: frozenset[str] = frozenset()
    """Columns that rules exclude or mask, under any name of the table, in lower case."""
    dropped: frozenset[str] = frozenset()
    """Columns that statements dropped, in lower case."""
    stated: frozenset[str] = frozenset()
    """Hidden columns that the table has or had by its statements, in lower case."""
    left_out: frozenset[str] = frozenset()
    """Unexplained columns, in lower case."""

    @property
    def why_left_out(self) -> str:
        """Reason why unexplained columns are left out, with the remedy; empty without any."""
        names = ", ".join(sorted(self.left_out))
        return names and (
            f"{names} is left out, since no statement added it and no rule names it; add a rule for it to the "
            "argument columns, such as the mask `value` to keep it readable, and rebuild the target"
        )

    def keeps(self, name: str) -> bool:
        """Return whether the target has a column."""
        return name.lower() not in self.left_out and self.find(name.lower()).is_kept

    def mask(self, name: str) -> str | None:
        """Return the expression of `value` that replaces a column in the target."""
        expression = self.find(name.lower()).mask
        return None if expression == _PLAIN else expression

    def masks(self, names: Iterable[str]) -> bool:
        """Return whether any of these columns is masked."""
        return any(self.mask(name) is not None for name in names)

    def denying(
        self,
        table: str,
        declared: Sequence[Collection[str]],
        known: Collection[str] | None,
        is_shared: Callable[[], bool] = lambda: False,
    ) -> TableRules:
        """Return these rules without the declared columns that nothing explains.

        Args:
            table: Name of the table, for errors.
            declared: Columns of each declaration.
            known: Columns of the target in lower case. Empty if it does not exist, but the table's definition is known.
                None if neither: the rules are then made for the current declarations.
            is_shared: Returns whether the target may have columns from other tables.

        Raises:
            ValueError: A declaration lacks an excluded or masked column, and no statement explains it. The column may
                then have any unexplained name, even the name of a column of the target.
        """
        rules = [{name: self.find(name) for name in sorted(_lower(one))} for one in declared]
        names = [frozenset().union(*(rule.names for rule in one.values())) for one in rules]
        hidden, left_out = self.hidden - self.dropped, set()
        if known is None:
            hidden &= self.stated.union(*names)
            known = {name for one in names if hidden <= one for name in one}
        for of_one, one in zip(names, rules, strict=True):
            lost = sorted(hidden - of_one)
            explained = () if lost and is_shared() else known
            unknown = {name: rule for name, rule in one.items() if rule.is_kept and not rule.is_known}
            new = [name for name, rule in unknown.items() if rule.names.isdisjoint(explained)]
            if new and lost:
                raise ValueError(
                    f"{table}: the messages declare {', '.join(new)}, which no statement added, and no longer declare "
                    f"{', '.join(lost)}, excluded or masked: if it was renamed, add a rule for both names to the "
                    "argument columns; the mask `value` keeps a column readable. Then apply the rows with "
                    "towpath.spark.reprocess"
                )
            left_out.update(new)
        return replace(self, left_out=frozenset(left_out))

    def and_those(self, older: TableRules) -> TableRules:
        """Combine with older rules: both restrict the columns."""
        return TableRules(
            lambda name: self.find(name).and_that(older.find(name)),
            self.hidden | older.hidden,
            self.dropped & older.dropped,
            self.stated | older.stated,
            self.left_out | older.left_out,
        )

    def kept(self, schema: StructType) -> StructType:
        """Return the columns of a schema that the target has."""
        from pyspark.sql.types import StructType

        return StructType([one for one in schema if self.keeps(one.name)])

    def masked(self, changes: DataFrame) -> DataFrame:
        """Return the changes with masks applied."""
        from pyspark.sql import functions as f

        names = changes.select(f"{COLUMNS}.*").columns
        if not self.masks(names):
            return changes
        expr = expressions(changes.sparkSession)
        values = (expr(self._value(name, column(COLUMNS, name))).alias(name) for name in names)
        return changes.withColumn(COLUMNS, f.struct(*values))

    def of_table(self, rows: DataFrame) -> DataFrame:
        """Return rows of the table with masks applied and without excluded columns."""
        return rows.selectExpr(*self.of_copy(rows.columns, TableRules()))

    def of_copy(self, columns: Sequence[str], former: TableRules, own: Collection[str] = ()) -> list[Sql]:
        """Return the columns of a target whose table gets these rules. `own` are columns that the source lacks."""
        values = {name: column(name) for name in columns if name in own or self.keeps(name)}
        plain = [name for name in values if name not in own and former.mask(name) is None]
        shown = values | {name: self._value(name, values[name]) for name in plain}
        return [sql("{value} AS {name}", value=shown[name], name=one) for name, one in values.items()]

    def _value(self, name: str, plain: Sql) -> Sql:
        expression = self.mask(name)
        # A lambda function keeps `value` distinct from a column of this name.
        template = "transform(array({plain}), value -> {expression})[0]"
        return plain if expression is None else sql(template, plain=plain, expression=Sql(expression))

    def check_key(self, table: str, keys: Sequence[str]) -> None:
        """Refuse rules that would make rows of the source indistinguishable.

        Raises:
            ValueError: A column of the key is excluded or masked.
        """
        for name in keys:
            if self.masks([name]) or not self.keeps(name):
                raise ValueError(f"columns: {table}: the primary key column {name} cannot be excluded or masked")

    def in_target(self, action: Action, before: TableRules) -> Action | str | None:
        """Return an action's effect on the target under these rules. None means no effect; a text is a stale reason."""
        if isinstance(action, RenameColumn):
            if not before.keeps(action.old):
                return None
            if not self.keeps(action.new) or before.mask(action.old) != self.mask(action.new):
                return f"the column {action.old} was renamed to {action.new}, which has another rule in columns"
            return action
        if not isinstance(action, AddColumn | ModifyColumn):
            return action
        name, initial = action.column.name, action.column.initial
        if not self.keeps(name):
            return None
        if not self.masks([name]):
            return action
        is_null = isinstance(action, ModifyColumn) or (initial is None and not action.column.unknown)
        return None if is_null else f"the column {name} is masked, and no message has its value in older rows"


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
