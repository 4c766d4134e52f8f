"""Values that MySQL converted without a message when a statement changed their column's type.

In strict mode the server refuses to shorten a text, but rounds a time. Whether a type stores a value unchanged depends
on the value, so conditions on the target's rows find the changed values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from towpath.lakehouse.statements.column_types import ColumnType, read_type
from towpath.lakehouse.statements.tokens import Cursor, tokenize
from towpath.lakehouse.tables.sql import Sql, any_of, comma_separated, sql, string


def is_converted(column: Sql, kind: str) -> Sql:
    """Return a condition that is true if MySQL's type cannot store a value unchanged. `relabelled` covers new labels.

    Args:
        column: The column. Its type in the target fits MySQL's type.
        kind: MySQL's type, as `Column.type`.
    """
    found = read_type(Cursor(tokenize(kind)))
    if found.name in _RELABELLED:
        value = _RELABELLED[found.name](column, found)
        return sql("{column} IS NOT NULL AND {value} IS NULL", column=column, value=value)
    bits = _BITS.get(found.name, 0)
    numbers = {
        "number": found.number,
        "next": found.number + 1,
        "bytes": -(-found.number // 8),
        "least": 0 if found.unsigned else -(2**bits) // 2,
        "most": (2**bits if found.unsigned else 2**bits // 2) - 1,
        "precision": found.number or 10,
        "scale": int(found.arguments[1]) if found.arguments[1:] else 0,
    }
    parts = {name: Sql(str(number)) for name, number in numbers.items()}
    parts |= {"column": column, "kind": Sql(found.name), "form": string(_FORMS.get(found.name, ""))}
    is_boolean = found.name == "bit" and found.number == 1
    is_text = found.name == "decimal" and found.number > _MOST_DIGITS
    conditions = [] if is_boolean or is_text else [_CONDITIONS.get(found.name, "false")]
    if found.name in _FLOATS and found.arguments:
        conditions.append("{column} <> CAST(round(CAST({column} AS double), {scale}) AS {kind})")
    if found.unsigned and not bits:
        conditions.append("{column} < 0")
    return any_of(sql(one, **parts) for one in conditions)


_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_FLOATS = ("float", "double")
_MOST_DIGITS = 38
"""Largest precision of Spark's decimals. A target stores longer decimals as text."""
_BYTE = "(0|[1-9][0-9]{0,2})"
_FORMS = {
    "time": "^-?[0-9]{2,3}:[0-9]{2}:[0-9]{2}([.][0-9]+)?$",
    "uuid": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    "inet4": f"^{_BYTE}([.]{_BYTE}){{3}}$",
    "inet6": f"^((0|[1-9a-f][0-9a-f]{{0,3}}|{_BYTE}([.]{_BYTE}){{3}})?(:|$))*$",
}
"""Formats of values by type. MariaDB writes each value of its own types in a single format."""

_CONDITIONS: Mapping[str, str] = {
    **dict.fromkeys(_FORMS, "NOT {column} RLIKE {form}"),
    **dict.fromkeys(
        _BITS,
        "NOT {column} <=> try_cast({column} AS decimal(20, 0)) "
        "OR CAST({column} AS decimal(20, 0)) NOT BETWEEN {least} AND {most}",
    ),
    **dict.fromkeys(_FLOATS, "NOT CAST({column} AS double) <=> CAST(CAST({column} AS {kind}) AS double)"),
    "decimal": "NOT {column} <=> try_cast({column} AS decimal({precision}, {scale}))",
    "date": "NOT {column} <=> CAST({column} AS date)",
    **dict.fromkeys(("datetime", "timestamp"), "substr(date_format({column}, 'SSSSSS'), {next}) RLIKE '[1-9]'"),
    **dict.fromkeys(("tinytext", "tinyblob"), f"octet_length({{column}}) > {2**8 - 1}"),
    **dict.fromkeys(("text", "blob"), f"octet_length({{column}}) > {2**16 - 1}"),
    **dict.fromkeys(("mediumtext", "mediumblob"), f"octet_length({{column}}) > {2**24 - 1}"),
    **dict.fromkeys(("longtext", "longblob"), f"octet_length({{column}}) > {2**32 - 1}"),
    "varchar": "char_length({column}) > {number}",
    "varbinary": "octet_length({column}) > {number}",
    "char": "char_length({column}) > {number} OR {column} LIKE '% '",
    "binary": "octet_length({column}) <> {number}",
    "bit": "octet_length({column}) <> {bytes}",
    # MySQL reads texts such as `123` or `1:2:3` as a time, but writes times in another format.
    "time": "substr(regexp_extract({column}, '[.]([0-9]+)$', 1), {next}) RLIKE '[1-9]' OR NOT {column} RLIKE {form}",
    # MySQL reads a two-digit number as a year of this century or the last one.
    "year": "{column} BETWEEN 1 AND 99",
}
"""Conditions that are true if a type does not store a value unchanged."""


def relabelled(column: Sql, kind: str) -> Sql | None:
    """Return the value of an enum or set after its labels change order or case. It is null for an unknown label.

    Args:
        column: The column.
        kind: MySQL's type, as `Column.type`. The result is None for a type without labels.
    """
    found = read_type(Cursor(tokenize(kind)))
    return _RELABELLED[found.name](column, found) if found.name in _RELABELLED else None


def _enum(column: Sql, kind: ColumnType) -> Sql:
    """Return the value of an enum. The empty text marks an error. Digits are the index of a label without messages."""
    template = "CASE WHEN {column} = '' OR {column} RLIKE '^[0-9]+$' THEN {column} ELSE {label} END"
    return sql(template, column=column, label=_label(column, kind))


def _set(column: Sql, kind: ColumnType) -> Sql:
    """Return the value of a set, with its labels in the order of the type."""
    template = (
        "CASE WHEN {column} = '' OR {column} RLIKE '^[0-9]+$' THEN {column} "
        "WHEN forall(split({column}, ','), x -> {label} IS NOT NULL) THEN array_join(filter(array({labels}), "
        "l -> array_contains(transform(split({column}, ','), x -> {label}), l)), ',') END"
    )
    labels = comma_separated(map(string, kind.labels))
    return sql(template, column=column, label=_label(Sql("x"), kind), labels=labels)


def _label(value: Sql, kind: ColumnType) -> Sql:
    """Return the label that equals a value. Ignore case if needed, like most collations."""
    labels = comma_separated(map(string, kind.labels))
    equal = sql("filter(array({labels}), y -> lower(y) = lower({value}))", labels=labels, value=value)
    template = "CASE WHEN {value} IN ({labels}) THEN {value} WHEN get({equal}, 1) IS NULL THEN get({equal}, 0) END"
    return sql(template, value=value, labels=labels, equal=equal)


_RELABELLED: Mapping[str, Callable[[Sql, ColumnType], Sql]] = {"enum": _enum, "set": _set}
