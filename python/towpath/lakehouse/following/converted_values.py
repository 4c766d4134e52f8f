"""Values of a column that MySQL converted without a message, when a statement gave the column another type.

In strict mode the server refuses to shorten a text, and not to round a time. What a type holds as it is depends on the
value, so the rows of the target say whether any of them changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from towpath.lakehouse.statements.column_types import ColumnType, read_type
from towpath.lakehouse.statements.tokens import Cursor, tokenize
from towpath.lakehouse.tables.sql import Sql, any_of, comma_separated, sql, string


def is_converted(column: Sql, kind: str) -> Sql:
    """True if a value is not one of MySQL's type, or not as the type has it, but for what `relabelled` says.

    Args:
        column: The column, whose type in the target is that of values of MySQL's type.
        kind: MySQL's type, as `Column.type`.
    """
    found = read_type(Cursor(tokenize(kind)))
    condition = _CONDITIONS.get(found.name)
    return condition(column, found) if condition else Sql("false")


def _text(column: Sql, kind: ColumnType) -> Sql:
    """A text of n characters, or one of the types of texts, whose sizes are bytes."""
    if kind.name == "varchar":
        return Sql(f"char_length({column}) > {kind.number}")
    most = 2 ** _SIZES[kind.name[:-4]] - 1 if kind.name in _OF_SIZES else kind.number
    return Sql(f"octet_length({column}) > {most}")


def _char(column: Sql, kind: ColumnType) -> Sql:
    return Sql(f"char_length({column}) > {kind.number} OR {column} LIKE '% '")


def _padded(column: Sql, kind: ColumnType) -> Sql:
    length = -(-kind.number // 8) if kind.name == "bit" else kind.number
    # A bit(1) is a boolean.
    return Sql("false" if kind.name == "bit" and kind.number == 1 else f"octet_length({column}) <> {length}")


def _instant(column: Sql, kind: ColumnType) -> Sql:
    return _has_more_digits(f"date_format({column}, 'SSSSSS')", kind)


def _time(column: Sql, kind: ColumnType) -> Sql:
    """A text that MySQL reads as a time, such as `123` or `1:2:3`, is not written as a time is."""
    digits = _has_more_digits(f"regexp_extract({column}, '[.]([0-9]+)$', 1)", kind)
    return any_of([digits, Sql(f"NOT {column} RLIKE '^-?[0-9]{{2,3}}:[0-9]{{2}}:[0-9]{{2}}([.][0-9]+)?$'")])


def _year(column: Sql, kind: ColumnType) -> Sql:
    """A number of two digits is a year of this century or the last one."""
    return Sql(f"{column} BETWEEN 1 AND 99")


def _canonical(column: Sql, kind: ColumnType) -> Sql:
    """MariaDB writes a value of these types in one form only."""
    return Sql(f"NOT {column} RLIKE '{_FORMS[kind.name]}'")


_BYTE = "(0|[1-9][0-9]{0,2})"
_FORMS = {
    "uuid": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    "inet4": f"^{_BYTE}([.]{_BYTE}){{3}}$",
    "inet6": f"^((0|[1-9a-f][0-9a-f]{{0,3}}|{_BYTE}([.]{_BYTE}){{3}})?(:|$))*$",
}


def _has_more_digits(fraction: str, kind: ColumnType) -> Sql:
    return Sql(f"substr({fraction}, {kind.number + 1}) RLIKE '[1-9]'")


def relabelled(column: Sql, kind: str) -> Sql | None:
    """The value of an enum or set after its labels got another order or case; null if a label is not known.

    Args:
        column: The column.
        kind: MySQL's type, as `Column.type`; the result is None if it is another one.
    """
    found = read_type(Cursor(tokenize(kind)))
    return _RELABELLED[found.name](column, found) if found.name in _RELABELLED else None


def _enum(column: Sql, kind: ColumnType) -> Sql:
    """The empty text is the value of an error. Digits are the index of a label that no message had."""
    template = "CASE WHEN {column} = '' OR {column} RLIKE '^[0-9]+$' THEN {column} ELSE {label} END"
    return sql(template, column=column, label=_label(column, kind))


def _set(column: Sql, kind: ColumnType) -> Sql:
    """The labels of a set are in the order of its type."""
    template = (
        "CASE WHEN {column} = '' OR {column} RLIKE '^[0-9]+$' THEN {column} "
        "WHEN forall(split({column}, ','), x -> {label} IS NOT NULL) THEN array_join(filter(array({labels}), "
        "l -> array_contains(transform(split({column}, ','), x -> {label}), l)), ',') END"
    )
    labels = comma_separated(map(string, kind.labels))
    return sql(template, column=column, label=_label(Sql("x"), kind), labels=labels)


def _label(value: Sql, kind: ColumnType) -> Sql:
    """The label that a value is equal to, if need be without case, as in most collations."""
    labels = comma_separated(map(string, kind.labels))
    equal = sql("filter(array({labels}), y -> lower(y) = lower({value}))", labels=labels, value=value)
    template = "CASE WHEN {value} IN ({labels}) THEN {value} WHEN get({equal}, 1) IS NULL THEN get({equal}, 0) END"
    return sql(template, value=value, labels=labels, equal=equal)


_RELABELLED: Mapping[str, Callable[[Sql, ColumnType], Sql]] = {"enum": _enum, "set": _set}


def _is_unknown(column: Sql, kind: ColumnType) -> Sql:
    value = _RELABELLED[kind.name](column, kind)
    return sql("{column} IS NOT NULL AND {value} IS NULL", column=column, value=value)


def _floating(column: Sql, kind: ColumnType) -> Sql:
    rounded = f"CAST(round(CAST({column} AS double), {kind.arguments[1]}) AS {kind.name})" if kind.arguments else column
    return any_of([Sql(f"{column} <> {rounded}"), _negative(column, kind)])


def _negative(column: Sql, kind: ColumnType) -> Sql:
    return Sql(f"{column} < 0" if kind.unsigned else "false")


def _integer(column: Sql, kind: ColumnType) -> Sql:
    bits = _BITS[kind.name]
    least, most = (0, 2**bits - 1) if kind.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return Sql(f"CAST({column} AS decimal(20, 0)) NOT BETWEEN {least} AND {most}")


_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_SIZES = {"tiny": 8, "": 16, "medium": 24, "long": 32}
_OF_SIZES = [f"{size}{kind}" for size in _SIZES for kind in ("text", "blob")]

_CONDITIONS: Mapping[str, Callable[[Sql, ColumnType], Sql]] = {
    **dict.fromkeys(_BITS, _integer),
    **dict.fromkeys(("float", "double"), _floating),
    **dict.fromkeys(("datetime", "timestamp"), _instant),
    **dict.fromkeys(("binary", "bit"), _padded),
    **dict.fromkeys(("varchar", "varbinary", *_OF_SIZES), _text),
    "char": _char,
    "decimal": _negative,
    **dict.fromkeys(_RELABELLED, _is_unknown),
    "time": _time,
    "year": _year,
    **dict.fromkeys(("uuid", "inet4", "inet6"), _canonical),
}
