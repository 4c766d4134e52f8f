"""Arguments that several verbs share, and their conversion."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any

from towpath import _towpath
from towpath.cli.inputs import FRAMINGS, Input, Inputs
from towpath.decoder import PARAMETERS
from towpath.foreign_json import parsed_json


def add_argument(verb: argparse.ArgumentParser, name: str, **settings: Any) -> argparse.Action:
    """Add a flag for an argument of `Decoder`, with the same name and default."""
    return verb.add_argument(f"--{name}", default=PARAMETERS[name].default, **settings)


def add_input(verb: argparse.ArgumentParser) -> None:
    """Add arguments for the files or topics to read."""
    verb.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="a capture, plain, gzip or zstd, or a folder or pattern; - is standard input; a pipe is read as it is",
    )
    verb.add_argument("--kafka", metavar="BROKERS", help="read topics instead of files: host:port,host:port")
    verb.add_argument("--topic", action="append", default=[], help="a topic; may be repeated")
    verb.add_argument(
        "--client",
        action="append",
        type=_client_setting,
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the Kafka client: --client security.protocol=SASL_SSL, or NAME=@FILE with a secret",
    )
    verb.add_argument("--since", type=_time, metavar="TIME", help="skip Kafka messages before 2026-11-22T12:00 (UTC)")
    verb.add_argument("--framing", choices=FRAMINGS, help="how messages are delimited (default: by the name)")
    verb.add_argument("--limit", type=count, metavar="N", help="read the first N messages only")


def add_filters(verb: argparse.ArgumentParser) -> None:
    """Add arguments for the files to read and the filters of their messages."""
    add_input(verb)
    dialect = add_argument(verb, "dialect", help="the message format (default: %(default)s)")
    # Do not use `choices`: the decoder refuses unknown names. It knows aliases, and suggests the nearest name.
    setattr(dialect, "completer", _dialects)  # noqa: B010  # argcomplete reads this
    add_argument(verb, "database", metavar="REGEX", help="only databases whose whole name matches")
    add_argument(verb, "table", metavar="REGEX", help="only tables whose whole name matches")


def add_decoder(verb: argparse.ArgumentParser) -> None:
    """Add the arguments of a decoder."""
    add_filters(verb)
    add_argument(
        verb, "schema", metavar="DDL", help="the table's columns: 'id bigint, total decimal(10,2)', or @FILE with them"
    )
    add_set(
        verb,
        "any other argument of towpath.Decoder, its value as JSON, plain text or @FILE with it: "
        "--set time_zone=Asia/Shanghai",
    )


def add_layout(verb: argparse.ArgumentParser) -> None:
    """Add the arguments that determine the rows."""
    add_argument(verb, "layout", choices=_towpath.LAYOUTS)
    add_argument(verb, "fields", type=lambda text: text.split(","), metavar="A,B", help="envelope columns to write")
    add_argument(verb, "mode", choices=_towpath.MODES)


def add_output(verb: argparse.ArgumentParser, default: str, what: str) -> None:
    """Add the argument for the file to write."""
    verb.add_argument("-o", "--output", default=default, metavar="FILE", help=what)
    verb.add_argument("--force", action="store_true", help="overwrite the output if it exists")


def add_json(verb: argparse.ArgumentParser, what: str = "print JSON") -> None:
    """Add a flag for machine-readable output."""
    verb.add_argument("--json", action="store_true", help=what)


def add_set(verb: argparse.ArgumentParser, help: str) -> None:
    """Add an argument that sets other arguments by name."""
    verb.add_argument("--set", action="append", type=_setting, default=[], metavar="NAME=VALUE", help=help)


def _dialects(**_: Any) -> list[str]:
    """Return the values of `--dialect` for shell completion."""
    return ["auto", *(dialect["name"] for dialect in _towpath.dialects())]


def _client_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, _secret(value)


def _secret(value: str) -> str:
    """Return a value, or read it from the file after `@`, since other users can see arguments. `@@` stands for `@`."""
    if not value.startswith("@"):
        return value
    if value.startswith("@@"):
        return value[1:]
    try:
        return _text_of(value[1:]).rstrip("\r\n")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-11-22T12:00") from None


def count(text: str) -> int:
    """Parse a number of messages or rows.

    Raises:
        argparse.ArgumentTypeError: The text is not such a number.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of messages or rows such as 0, 1, 2")
    return int(text)


def _setting(text: str) -> tuple[str, Any]:
    name, value = _client_setting(text)
    try:
        return name, parsed_json(value)
    except ValueError:
        return name, value


def inputs(parsed: argparse.Namespace, *, live: bool = False) -> Input:
    """Return the messages of the named files or topics. Live messages of standard input are passed on immediately."""
    if bool(parsed.files) == bool(parsed.kafka):
        raise ValueError("name either files to read, or a broker and topics: --kafka localhost:9092 --topic orders")
    if bool(parsed.kafka) != bool(parsed.topic):
        raise ValueError("--kafka requires --topic, and --topic requires --kafka")
    if parsed.kafka:
        from towpath.cli.topics import Topics

        return Topics(parsed.kafka, parsed.topic, parsed.client, parsed.since, parsed.limit)
    return Inputs(parsed.files, parsed.framing, parsed.limit, live=live)


def decoder_arguments(parsed: argparse.Namespace, **fixed: Any) -> dict[str, Any]:
    """Return the decoder arguments from the command line."""
    flags = {name: value for name, value in vars(parsed).items() if name in PARAMETERS}
    arguments = {"key": "key", **flags, **fixed, **dict(parsed.set)}
    schema = arguments.get("schema")
    if isinstance(schema, str) and schema.startswith("@"):
        arguments["schema"] = _text_of(schema[1:])
    return arguments


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read @{path}: {error}") from None
