"""The reference pages of output columns and of parameters, made from the installed package.

Names, types, order, defaults, docstrings and allowed texts come from the code. The meaning of the output columns and of
the options of single dialects is here. A name without a meaning, or a meaning without a name, is an error.
"""

import argparse
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

import towpath
from towpath import literals
from towpath.cli import parser
from towpath.report import write_report
from towpath.spark import source_options as options

ROOT = Path(__file__).parents[2]

COLUMNS = {
    "op": "The operation: see [operations](#operations)",
    "database": "Name of the database",
    "schema": "Name of the schema, for producers that also read databases with schemas",
    "table": "Name of the table",
    "primary_key": "Names of the primary key's columns, if the message or its Kafka key has them",
    "before": "The row before the change. Null for inserts, and if the message does not have it",
    "after": "The row after the change. Null for deletes",
    "changed": "Names of the columns that an update changed",
    "missing_columns": "Columns of the `schema` that the message does not have. Their cells are null",
    "event_time": "When the change happened in the source",
    "produced_time": "When the producer wrote the message",
    "sql": "The statement, in rows that are not row changes",
    "table_changes": "The producer's description of the table after a DDL statement, as JSON text",
    "column_types": "The declared type of each column",
    "jdbc_types": "The JDBC type number of each column",
    "sequence": "Orders the changes of a key: the later change has the greater value",
    "source": "Where the change comes from: see [source](#source)",
    "row": "Index of the change in its message",
    "error": "Why the row or the message could not be decoded, else null: see [error](#error)",
    "_corrupt_record": "The whole message, if the row has an error, else null",
}
"""Meaning of each envelope column, by its name in layout `change`."""

SOURCE = {
    "dialect": "The dialect that read the message",
    "operation": "The operation in the producer's own word",
    "connector": "The producer's connector, such as `mysql`",
    "message_id": "The producer's number of the message",
    "server_id": "MySQL's server id",
    "file": "Binlog file",
    "position": "Position in the binlog file",
    "gtid": "Global transaction id",
    "transaction_id": "The producer's id of the transaction",
    "commit_ts": "TiDB's commit timestamp",
    "watermark_ts": "TiCDC's watermark: all changes up to this timestamp have been sent",
    "handle_key_only": "The message has only the row's key (TiCDC, for messages that are too large)",
    "claim_check": "Path of the file in which TiCDC stored the message",
    "version": "Version of the producer or of its format",
}

ERROR = {
    "kind": "[Kind](errors.md) of the error",
    "message": "Dialect, place, what was found and what was expected",
    "column": "The table's column, if the error is of one column's value",
    "byte": "Offset in the message, after decompression, if it is known",
}

SEQUENCE = {
    "major": "TiDB's commit timestamp, else Kafka's `offset` if the input has it, else the event time",
    "minor": "Tells changes of equal `major` apart: Kafka's offset, or the index of the message in the batch",
    "row": "Orders the changes within a message",
}

OPERATIONS = {
    "insert": "A row was inserted",
    "update": "A row was updated",
    "delete": "A row was deleted",
    "snapshot": "A row that the producer read in a full copy of the table",
    "truncate": "All rows of a table were removed",
    "ddl": "A statement changed the schema",
    "query": "A statement other than DDL",
    "begin": "A transaction begins",
    "commit": "A transaction is committed",
    "rollback": "A transaction is rolled back",
    "heartbeat": "The producer is alive",
    "gtid": "A GTID is announced",
    "watermark": "All changes up to a point have been sent (TiCDC)",
    "tombstone": "A Kafka record without a value",
    "other": "An operation of the producer that has no counterpart here",
    "error": "A message that could not be decoded",
}

DIALECT_OPTIONS: dict[str, tuple[str, Any]] = {
    "column_types": ("`{column: MySQL type}`: the types of columns, where messages do not declare them", {"id": "int"}),
    "decimal_handling_mode": ("Debezium's `decimal.handling.mode`", "precise"),
    "time_precision_mode": ("Debezium's `time.precision.mode`", "connect"),
    "binary_handling_mode": ("How binary values are written as text; Debezium's `binary.handling.mode`", "base64"),
    "bigint_unsigned_handling_mode": ("Debezium's `bigint.unsigned.handling.mode`", "long"),
    "writer_schema": ("The Avro schema of the messages, as JSON text", "{}"),
    "schema_registry": ("URL or configuration of the schema registry", "http://localhost"),
    "writer_schemas": ("Avro schemas by their ids", {1: '"int"'}),
    "table_schemas": ("BOOTSTRAP and DDL messages, which have the schemas of tables", ["{}"]),
    "unwrapped": ("Whether messages are rows without an envelope", True),
    "op_column": ("The member of such a row that says what happened", "_cdc.op"),
}
"""Meaning of each option of single dialects, and any value of it."""

WITHOUT_OPTIONS = "canal-protobuf"

KINDS = {
    "dialect": "Dialect",
    "layout": "Layout",
    "mode": "Mode",
    "zero_date": "ZeroDate",
    "compression": "Compression",
    "missing": "Missing",
}
"""Parameters whose texts `towpath.literals` lists."""

FUNCTIONS: list[tuple[str, Callable[..., Any]]] = [
    ("towpath.Decoder.decode", towpath.Decoder.decode),
    ("towpath.Decoder.decode_batches", towpath.Decoder.decode_batches),
    ("towpath.infer_schema", towpath.infer_schema),
    ("towpath.spark.decode", towpath.spark.decode),
    ("towpath.spark.from_cdc", towpath.spark.from_cdc),
    ("towpath.spark.replicate", towpath.spark.replicate),
    ("towpath.spark.apply_changes", towpath.spark.apply_changes),
    ("towpath.spark.rebuild", towpath.spark.rebuild),
    ("towpath.spark.reprocess", towpath.spark.reprocess),
    ("towpath.spark.versions", towpath.spark.versions),
    ("towpath.spark.progress_listener", towpath.spark.progress_listener),
    ("towpath.spark.report", towpath.spark.report),
    ("towpath.report.write_report", write_report),
]


class OutdatedError(Exception):
    """A name of the code has no meaning here, or the other way round."""


def columns_page() -> str:
    """The page of output columns."""
    parts = [
        "# Output columns\n",
        "Generated from the code. A decoder returns the columns below in this order. `fields` selects and orders them; "
        "columns that are not selected are not built. Columns of `keep` come last. In the layouts `changelog` and "
        "`upsert` the names begin with an underscore, because the table's own columns are beside them.\n",
        "Times are in UTC. A nullable column is null where the message does not have the value.\n",
    ]
    for layout in get_args(literals.Layout):
        parts.append(f"## Layout `{layout}`\n\n{_layout_table(layout)}")
    _explained(operations(), OPERATIONS, "operations")
    parts.append(f"## Operations\n\nThe texts of `op` (`_op`).\n\n{_table(['op', 'meaning'], _quoted(OPERATIONS))}")
    parts.append(
        "In layout `changelog` the texts are `insert`, `update_preimage`, `update_postimage` and `delete`, as in "
        "Delta's change data feed. All other operations keep their names.\n"
    )
    schema = towpath.Decoder().schema
    upsert = towpath.Decoder(schema="id bigint", layout="upsert").schema
    for title, kind, meanings in (
        ("source", schema.field("source").type, SOURCE),
        ("error", schema.field("error").type, ERROR),
        ("sequence", upsert.field("_sequence").type, SEQUENCE),
    ):
        members = _explained([field.name for field in kind], meanings, title)
        rows = [[f"`{field.name}`", _arrow(field.type), members[field.name]] for field in kind]
        parts.append(f"## {title}\n\nThe members of `{title}`.\n\n{_table(['member', 'Arrow type', 'meaning'], rows)}")
    kept = [[f"`{name}`", _arrow(kind)] for name, kind in kafka_columns().items()]
    parts.append(
        "## Columns of Kafka\n\nThe types that `keep` knows, which are those of Spark's Kafka source.\n\n"
        + _table(["column", "Arrow type"], kept)
    )
    return "\n".join(parts)


def operations() -> list[str]:
    """The names of the operations, from the enum of the native code."""
    enum = re.search(
        r"pub enum Op \{(.*?)\n    \}", (ROOT / "rust" / "event.rs").read_text(encoding="utf-8"), re.DOTALL
    )
    return re.findall(r'= "(\w+)"', enum[1]) if enum else []


def _layout_table(layout: str) -> str:
    allowed = fields_of(layout)
    schema = towpath.Decoder(schema="id bigint", layout=layout, fields=allowed).schema
    default = towpath.Decoder(schema="id bigint", layout=layout).schema
    plain = {_plain(name, layout): name for name in allowed}
    meanings = _explained(plain, COLUMNS, layout, complete=False)
    rows = []
    for name, shown in plain.items():
        image = name in ("before", "after")
        kind = "struct of the table's columns" if image else _arrow(schema.field(shown).type)
        spark = "" if kind.startswith("struct") else _code(spark_type(schema.field(shown).type))
        rows.append([f"`{shown}`", kind, spark, "yes" if shown in default.names else "no", meanings[name]])
    return _table(["column", "Arrow type", "Spark type", "default", "meaning"], rows)


def fields_of(layout: str) -> list[str]:
    """The envelope columns of a layout in their order, as the native decoder lists them."""
    try:
        towpath.Decoder(schema="id bigint", layout=layout, fields=["?"])  # type: ignore[list-item, arg-type]
    except ValueError as error:
        return str(error).partition("expected one of ")[2].split(", ")
    raise OutdatedError("a decoder accepts an unknown field")


def _plain(name: str, layout: str) -> str:
    if name == "_change_type":
        return "op"
    return name if layout == "change" or name == "_corrupt_record" else name.removeprefix("_")


def kafka_columns() -> Mapping[str, pa.DataType]:
    """The columns of Spark's Kafka source."""
    from towpath.spark.kafka.options import COLUMNS as KAFKA

    return KAFKA


def parameters_page() -> str:
    """The page of parameters."""
    parts = [
        "# Parameters\n",
        "Generated from the code. [The Python API](api.md) has the same with return values and exceptions.\n",
        f"## towpath.Decoder\n\n{_parameters(towpath.Decoder.__new__, inspect.getdoc(towpath.Decoder) or '')}",
        '`towpath.spark.decode`, `from_cdc`, `replicate`, the options of `format("towpath")` and `--set` of the '
        "command pass these on.\n",
        f"### Options of single dialects\n\n{_dialect_options()}",
    ]
    for name, function in FUNCTIONS:
        parts.append(f"## {name}\n\n{_parameters(function, inspect.getdoc(function) or '')}")
    parts.append(_sources())
    parts.append(_commands())
    return "\n".join(parts)


def _dialect_options() -> str:
    rows = []
    for name, (meaning, value) in _explained(options._DIALECT_OPTIONS, DIALECT_OPTIONS, "options of dialects").items():
        pages = ", ".join(f"[{dialect}](dialects/{dialect}.md)" for dialect in dialects_with(name, value)) or "all"
        rows.append([f"`{name}`", _code(options._DIALECT_OPTIONS[name]), meaning, pages])
    return _table(["option", "type", "meaning", "dialects"], rows)


def dialects_with(option: str, value: Any) -> list[str]:
    """The dialects that have an option, as the error of a dialect without it lists them; none if all have it."""
    try:
        towpath.Decoder(WITHOUT_OPTIONS, "id int", **{option: value})
    except ValueError as error:
        return str(error).partition("it is an option of ")[2].split(", ")
    return []


def _parameters(function: Callable[..., Any], docstring: str) -> str:
    """The parameters of a function, with the descriptions of its docstring."""
    described = arguments_of(docstring)
    rows = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        name = f"**{parameter.name}" if parameter.kind is parameter.VAR_KEYWORD else parameter.name
        if name not in described:
            raise OutdatedError(f"{function.__qualname__}: {name} is not described")
        default = "required" if parameter.default is parameter.empty else f"`{_default(parameter.default)}`"
        if parameter.kind is parameter.VAR_KEYWORD:
            default = ""
        rows.append([f"`{name}`", _type(parameter), default, _text(described[name])])
    return _table(["parameter", "type", "default", "meaning"], rows)


def arguments_of(docstring: str) -> dict[str, str]:
    """The section `Args` of a docstring in Google's style."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", docstring, re.MULTILINE)
    if section is None:
        return {}
    entries = re.split(r"^    (?=[\w*]+: )", section[1], flags=re.MULTILINE)[1:]
    pairs = (entry.partition(": ") for entry in entries)
    return {name: " ".join(text.split()) for name, _, text in pairs}


def _type(parameter: inspect.Parameter) -> str:
    if parameter.annotation is parameter.empty:
        return ""
    if parameter.name in KINDS and str(parameter.annotation).startswith(KINDS[parameter.name]):
        if parameter.name == "dialect":
            return "a [dialect](index.md#dialects)"
        return ", ".join(f"`{_shown(text)}`" for text in get_args(getattr(literals, KINDS[parameter.name])))
    return _code(str(parameter.annotation))


def _default(value: Any) -> str:
    if value == 256 << 20:
        return "256 << 20"
    return _shown(value)


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _sources() -> str:
    """The options of `format("towpath")` that are not arguments of `Decoder`."""
    from towpath.spark.kafka.options import _KAFKA_PARSERS

    own = [f"`{name}`" for name in options._DEFAULTS if name not in ("path", "paths")]
    return (
        '## format("towpath")\n\n'
        "All parameters of `towpath.Decoder` except `value` and `key`, as text. Also, for files "
        f"([meaning](spark/source.md#options)): {', '.join(own)}.\n\n"
        f"For topics ([meaning](spark/kafka.md#options)): {', '.join(f'`{name}`' for name in _KAFKA_PARSERS)} "
        "and `kafka.*`.\n"
    )


def _commands() -> str:
    """The flags of each verb of the command."""
    [verbs] = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    parts = ["## The command `towpath`\n\n[What it does](cli.md). All verbs have `--help`.\n"]
    for name, verb in verbs.choices.items():
        rows = [
            [_flags(action), _text(action.help or "") % {"default": action.default, "prog": "towpath"}]
            for action in verb._actions
            if not isinstance(action, argparse._HelpAction)
        ]
        table = _table(["flag", "meaning"], rows) if rows else "It has no flags.\n"
        parts.append(f"### towpath {name}\n\n{_sentence(verb.description or '')}\n\n{table}")
    return "\n".join(parts)


def _flags(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar}`"
    if action.option_strings and action.nargs != 0:
        if action.choices:
            return f"{names}: {', '.join(f'`{choice}`' for choice in action.choices)}"
        return f"{names} `{action.metavar or action.dest.upper()}`"
    return names


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _explained(
    names: Iterable[str], meanings: Mapping[str, Any], what: str, *, complete: bool = True
) -> dict[str, Any]:
    """The meanings of these names, in their order."""
    names = list(names)
    unknown = [name for name in names if name not in meanings]
    superfluous = [name for name in meanings if name not in names] if complete else []
    if unknown or superfluous:
        raise OutdatedError(f"{what}: without a meaning {unknown}, without a name {superfluous}")
    return {name: meanings[name] for name in names}


def _quoted(meanings: Mapping[str, str]) -> list[list[str]]:
    return [[f"`{name}`", meaning] for name, meaning in meanings.items()]


SPARK = {"string": "string", "binary": "binary", "bool": "boolean", "int32": "int", "int64": "bigint"}


def spark_type(kind: pa.DataType) -> str:
    """The Spark type of an envelope column, as in `decoder.spark_schema`."""
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{spark_type(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    return "timestamp" if pa.types.is_timestamp(kind) else SPARK[str(kind)]


def _arrow(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_list(kind):
        return f"list of {_arrow(kind.value_type)}"
    if pa.types.is_map(kind):
        return f"map from {_arrow(kind.key_type)} to {_arrow(kind.item_type)}"
    return _code(str(kind))


def _code(text: str) -> str:
    return f"`{text}`"


def _text(text: str) -> str:
    return text.replace("|", "\\|")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
