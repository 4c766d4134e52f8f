"""The command `towpath`: inspects and converts captures of change messages, without Spark."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath import _towpath, files
from towpath.ddl import ddl
from towpath.decoder import PARAMETERS, Decoder, infer_schema
from towpath.sinks import sink

if TYPE_CHECKING:
    from towpath._towpath import _Metrics

SUCCESS, DECODE_ERRORS, FAILURE = 0, 1, 2

_STATUS = """exit status: 0 if all is well, 1 if there were messages or values that cannot be read (or, of detect,
messages of no known dialect), 2 if the command could not be carried out"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The arguments after the command's name; by default those of the process.

    Returns:
        The exit status.
    """
    parsed = parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    except _towpath.DecodeError as error:
        return _failed(error, DECODE_ERRORS)
    except (OSError, ValueError, ImportError) as error:
        return _failed(error, FAILURE)


def _failed(error: Exception, status: int) -> int:
    print(f"towpath: {error}", file=sys.stderr)
    return status


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; `run` of the parsed arguments is the subcommand's function."""
    command = argparse.ArgumentParser("towpath", description=__doc__, epilog=_STATUS)
    command.add_argument("--version", action="version", version=f"towpath {_towpath.__version__}")
    verbs = command.add_subparsers(required=True, metavar="VERB")
    _verb(verbs, "dialects", dialects, "list the dialects")
    _add_input(_verb(verbs, "detect", detect, "count the messages of each dialect"))
    _add_infer(_verb(verbs, "infer", infer, "print a schema from the types that messages declare"))
    _add_decode(_verb(verbs, "decode", decode, "decode messages to JSON lines, Parquet or Arrow"))
    _add_report(_verb(verbs, "report", report, "write an HTML page with plots of what the messages hold"))
    return command


def _verb(verbs: Any, name: str, run: Any, purpose: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, help=purpose, description=f"{purpose}.", epilog=_STATUS)
    verb.set_defaults(run=run)
    return verb


def _add_argument(verb: argparse.ArgumentParser, name: str, **settings: Any) -> None:
    """A flag for an argument of `Decoder`, with the same name and default."""
    verb.add_argument(f"--{name}", default=PARAMETERS[name].default, **settings)


def _add_input(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a capture, plain, .gz or .zst, or a folder or pattern; - is standard input",
    )
    verb.add_argument("--framing", choices=files.FRAMINGS, help="how messages are delimited (default: by the name)")


def _add_filters(verb: argparse.ArgumentParser) -> None:
    _add_input(verb)
    _add_argument(verb, "dialect", help="the message format (default: %(default)s)")
    _add_argument(verb, "database", metavar="REGEX", help="only databases whose whole name matches")
    _add_argument(verb, "table", metavar="REGEX", help="only tables whose whole name matches")


def _add_infer(verb: argparse.ArgumentParser) -> None:
    _add_filters(verb)
    verb.add_argument("--messages", type=int, default=10_000, metavar="N", help="read the first N (default: 10000)")
    _add_set(verb, f"{' or '.join(_INFERRED_WITH)}: --set schema_registry=http://registry:8081")


def _add_decode(verb: argparse.ArgumentParser) -> None:
    _add_decoder(verb)
    _add_argument(verb, "layout", choices=_towpath.LAYOUTS)
    _add_argument(verb, "fields", type=lambda text: text.split(","), metavar="A,B", help="envelope columns to write")
    _add_argument(verb, "mode", choices=_towpath.MODES)
    verb.add_argument(
        "-o", "--output", default="-", metavar="FILE", help=".parquet, .arrow or .jsonl; - is JSON lines (default)"
    )


def _add_report(verb: argparse.ArgumentParser) -> None:
    _add_decoder(verb)
    verb.add_argument("-o", "--output", default="report.html", metavar="FILE", help="(default: report.html)")


def _add_decoder(verb: argparse.ArgumentParser) -> None:
    _add_filters(verb)
    _add_argument(verb, "schema", metavar="DDL", help="the table's columns: 'id bigint, total decimal(10,2)'")
    _add_set(
        verb, "any other argument of towpath.Decoder, its value as JSON or plain text: --set time_zone=Asia/Shanghai"
    )


def _add_set(verb: argparse.ArgumentParser, help: str) -> None:
    verb.add_argument("--set", action="append", type=_setting, default=[], metavar="NAME=VALUE", help=help)


_INFERRED_WITH = ("schema_registry", "writer_schemas")
"""Arguments of `infer_schema` that say where schemas are."""


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def dialects(_: argparse.Namespace) -> int:
    """List the dialects."""
    rows = [(one["name"], one["wire"], one["producer"]) for one in _towpath.dialects()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return SUCCESS


def detect(parsed: argparse.Namespace) -> int:
    """Count the messages of each dialect in each file."""
    unknown = 0
    for name in parsed.files:
        counts = Counter(found for batch in _batches([name], parsed.framing) for found in _dialects(batch))
        unknown += counts[None]
        for found, count in counts.most_common():
            print(f"{name}: {found or 'unknown'}: {count}")
    return DECODE_ERRORS if unknown else SUCCESS


def _dialects(batch: pa.RecordBatch) -> Iterator[str | None]:
    return (_towpath.detect(value.as_py()) for value in batch.column("value"))


def infer(parsed: argparse.Namespace) -> int:
    """Print the inferred schema as DDL."""
    messages = _first(parsed.messages, _batches(parsed.files, parsed.framing))
    settings = dict(parsed.set)
    if unknown := settings.keys() - set(_INFERRED_WITH):
        raise ValueError(f"--set: unknown {min(unknown)!r}; allowed are {', '.join(_INFERRED_WITH)}")
    print(ddl(infer_schema(messages, parsed.dialect, parsed.database, parsed.table, **settings)))
    return SUCCESS


def _first(count: int, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    """The first messages as one batch."""
    taken: list[pa.RecordBatch] = []
    while count > 0 and (batch := next(batches, None)) is not None:
        taken.append(batch.slice(0, count))
        count -= len(taken[-1])
    if not taken:
        raise ValueError("infer_schema: there are no messages to look at")
    # The types of keys and values may differ between files: null, binary, large binary.
    messages = [batch.select(["key", "value"]).cast(_MESSAGES) for batch in taken]
    return pa.Table.from_batches(messages).combine_chunks().to_batches()[0]


_MESSAGES = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def decode(parsed: argparse.Namespace) -> int:
    """Decode to a file or standard output, and print the metrics."""
    decoder = _decoder(parsed)
    with sink(parsed.output, decoder.schema) as write:
        for batch in _batches(parsed.files, parsed.framing):
            for rows in decoder.decode_batches(batch):
                write(rows)
    return _print_metrics(decoder.metrics)


def report(parsed: argparse.Namespace) -> int:
    """Write the report."""
    from towpath.report import FIELDS, write_report

    # Values are converted, so that their errors are found, only if row images are among the fields.
    decoder = _decoder(parsed, fields=[*FIELDS, "before", "after"] if parsed.schema else FIELDS)
    batches = _batches(parsed.files, parsed.framing)
    write_report((rows for batch in batches for rows in decoder.decode_batches(batch)), parsed.output)
    print(parsed.output)
    return _print_metrics(decoder.metrics)


def _decoder(parsed: argparse.Namespace, **fixed: Any) -> Decoder:
    flags = {name: value for name, value in vars(parsed).items() if name in PARAMETERS}
    return Decoder(**{"key": "key", **flags, **fixed, **dict(parsed.set)})


def _print_metrics(metrics: _Metrics) -> int:
    """Print the metrics to standard error, where they do not mix with rows, and return the exit status."""
    errors = metrics["errors"]
    kinds = "".join(f"{', ' if at else ': '}{count} {kind}" for at, (kind, count) in enumerate(sorted(errors.items())))
    counts = [f"{count} {name}" for name, count in metrics.items() if isinstance(count, int)]
    missing = [f"{count} rows without column {name!r}" for name, count in metrics["missing_columns"].items()]
    print("\n".join([*counts, f"{sum(errors.values())} errors{kinds}", *missing]), file=sys.stderr)
    return DECODE_ERRORS if any(errors.values()) else SUCCESS


def _batches(names: Sequence[str], framing: str | None) -> Iterator[pa.RecordBatch]:
    """The messages of the files, always with a column `key`. A terminal shows a progress bar."""
    for name in names:
        with _found(name, framing) as found:
            for file in found:
                with _progress_bar(file) as advance:
                    for batch in files.messages(files.whole(file)):
                        yield batch if "key" in batch.schema.names else batch.append_column("key", _nulls(batch))
                        advance(batch)


def _nulls(batch: pa.RecordBatch) -> pa.Array:
    return pa.nulls(len(batch), pa.binary())


@contextmanager
def _found(name: str, framing: str | None) -> Iterator[Iterable[files.File]]:
    """The named files. Standard input is copied to a file first, since a stream cannot be read at an offset."""
    if name != "-":
        yield files.find([name], framing=framing or "auto")
        return
    with tempfile.NamedTemporaryFile() as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield files.find([file.name], framing=framing or "lines")


@contextmanager
def _progress_bar(file: files.File) -> Iterator[Callable[[pa.RecordBatch], object]]:
    """A function that advances the bar, if tqdm is installed: by bytes, or by messages if the file is compressed."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield len
        return
    plain = file.compression == "none"
    total, unit = (file.size, "B") if plain else (None, " messages")
    name = PurePath(file.path).name
    with tqdm(desc=name, total=total, unit=unit, unit_scale=True, disable=None, leave=False) as bar:
        # In a plain file, to the offset of the batch's last message.
        yield lambda batch: bar.update(batch["_offset"][-1].as_py() - bar.n if plain else len(batch))
