"""The command `towpath`: a look at captures of change messages, without Spark."""

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

import towpath
from towpath import files
from towpath.ddl import ddl
from towpath.sinks import sink

if TYPE_CHECKING:
    from towpath._towpath import _Metrics

FINE, BAD_MESSAGES, NOT_DONE = 0, 1, 2

_STATUS = """exit status: 0 if all is well, 1 if there were messages or values that cannot be read (or, of detect,
messages of no known dialect), 2 if the command could not be carried out"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Those behind the command's name; by default the process's own.

    Returns:
        The exit status.
    """
    given = parser().parse_args(arguments)
    try:
        status: int = given.run(given)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except towpath.DecodeError as error:
        return _failed(error, BAD_MESSAGES)
    except (OSError, ValueError, ImportError) as error:
        return _failed(error, NOT_DONE)


def _failed(error: Exception, status: int) -> int:
    print(f"towpath: {error}", file=sys.stderr)
    return status


def parser() -> argparse.ArgumentParser:
    """What the command takes; `run` of the parsed arguments is the verb's function."""
    command = argparse.ArgumentParser("towpath", description=__doc__, epilog=_STATUS)
    command.add_argument("--version", action="version", version=f"towpath {towpath.__version__}")
    verbs = command.add_subparsers(required=True, metavar="VERB")
    _verb(verbs, "dialects", dialects, "list the dialects")
    _reading(_verb(verbs, "detect", detect, "count the messages of each dialect"))
    _deciding(_verb(verbs, "infer", infer, "print a schema from the types that messages declare"))
    _decoding(_verb(verbs, "decode", decode, "decode messages to JSON lines, Parquet or Arrow"))
    _reporting(_verb(verbs, "report", report, "write an HTML page with plots of what the messages hold"))
    return command


def _verb(verbs: Any, name: str, run: Any, does: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, help=does, description=f"{does}.", epilog=_STATUS)
    verb.set_defaults(run=run)
    return verb


def _reading(verb: argparse.ArgumentParser) -> argparse.ArgumentParser:
    verb.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a capture, plain, .gz or .zst, or a folder or pattern; - is standard input",
    )
    verb.add_argument("--framing", choices=files.FRAMINGS, help="how messages are told apart (default: by the name)")
    return verb


def _filtering(verb: argparse.ArgumentParser) -> argparse.ArgumentParser:
    _reading(verb)
    verb.add_argument("--dialect", default="auto", help="how the messages are written (default: auto)")
    verb.add_argument("--database", metavar="REGEX", help="only databases whose whole name matches")
    verb.add_argument("--table", metavar="REGEX", help="only tables whose whole name matches")
    return verb


def _deciding(verb: argparse.ArgumentParser) -> None:
    _filtering(verb)
    verb.add_argument("--messages", type=int, default=10_000, metavar="N", help="look at the first N (default: 10000)")


def _decoding(verb: argparse.ArgumentParser) -> None:
    _options(verb)
    verb.add_argument("--layout", choices=["change", "changelog", "upsert"], default="change")
    verb.add_argument("--fields", type=lambda text: text.split(","), metavar="A,B", help="envelope columns to put out")
    verb.add_argument("--mode", choices=["PERMISSIVE", "DROPMALFORMED", "FAILFAST"], default="PERMISSIVE")
    verb.add_argument(
        "-o", "--output", default="-", metavar="FILE", help=".parquet, .arrow or .jsonl; - is JSON lines (default)"
    )


def _reporting(verb: argparse.ArgumentParser) -> None:
    _options(verb)
    verb.add_argument("-o", "--output", default="report.html", metavar="FILE", help="(default: report.html)")


def _options(verb: argparse.ArgumentParser) -> None:
    _filtering(verb)
    verb.add_argument("--schema", metavar="DDL", help="the table's columns: 'id bigint, total decimal(10,2)'")
    verb.add_argument(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="NAME=VALUE",
        help="any other argument of towpath.Decoder, its value as JSON or plain text: --set time_zone=Asia/Shanghai",
    )


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
    rows = [(one["name"], one["wire"], one["producer"]) for one in towpath.dialects()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return FINE


def detect(given: argparse.Namespace) -> int:
    """Count the messages of each dialect, file by file."""
    unknown = 0
    for name in given.files:
        counts = Counter(found for batch in _batches([name], given.framing) for found in _dialects(batch))
        unknown += counts[None]
        for found, count in counts.most_common():
            print(f"{name}: {found or 'unknown'}: {count}")
    return BAD_MESSAGES if unknown else FINE


def _dialects(batch: pa.RecordBatch) -> Iterator[str | None]:
    return (towpath.detect(value.as_py()) for value in batch.column("value"))


def infer(given: argparse.Namespace) -> int:
    """Print a schema as DDL."""
    messages = _first(given.messages, _batches(given.files, given.framing))
    print(ddl(towpath.infer_schema(messages, given.dialect, given.database, given.table)))
    return FINE


def _first(count: int, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    """The first messages, in one batch."""
    taken: list[pa.RecordBatch] = []
    while count > 0 and (batch := next(batches, None)) is not None:
        taken.append(batch.slice(0, count))
        count -= len(taken[-1])
    if not taken:
        raise ValueError("infer_schema: there are no messages to look at")
    # Several files may have keys of another type, or lengths that need another one.
    messages = [batch.select(["key", "value"]).cast(_MESSAGES) for batch in taken]
    return pa.Table.from_batches(messages).combine_chunks().to_batches()[0]


_MESSAGES = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def decode(given: argparse.Namespace) -> int:
    """Decode to a file or standard output, and say what was counted."""
    decoder = _decoder(given, layout=given.layout, fields=given.fields, mode=given.mode)
    with sink(given.output, decoder.schema) as write:
        for batch in _batches(given.files, given.framing):
            write(decoder.decode(batch))
    return _told(decoder.metrics)


def report(given: argparse.Namespace) -> int:
    """Write the report."""
    from towpath.report import FIELDS, write_report

    # Values are only looked at, and found to be errors, where an image is asked for.
    decoder = _decoder(given, fields=[*FIELDS, "before", "after"] if given.schema else FIELDS)
    write_report(map(decoder.decode, _batches(given.files, given.framing)), given.output)
    print(given.output)
    return _told(decoder.metrics)


def _decoder(given: argparse.Namespace, **arguments: Any) -> towpath.Decoder:
    settings = {"database": given.database, "table": given.table, "key": "key", **arguments, **dict(given.set)}
    return towpath.Decoder(given.dialect, given.schema, **settings)


def _told(metrics: _Metrics) -> int:
    """Print the counts where they do not mix with rows; the status follows from them."""
    errors = metrics["errors"]
    kinds = "".join(f"{', ' if at else ': '}{count} {kind}" for at, (kind, count) in enumerate(sorted(errors.items())))
    counts = [f"{metrics['messages']} messages", f"{metrics['rows']} rows", f"{metrics['filtered']} filtered"]
    counts += [f"{metrics['dropped']} dropped", f"{sum(errors.values())} errors{kinds}"]
    print("\n".join(counts), file=sys.stderr)
    return BAD_MESSAGES if any(errors.values()) else FINE


def _batches(names: Sequence[str], framing: str | None) -> Iterator[pa.RecordBatch]:
    """The messages of the files, with a column `key`, and a bar on a terminal that shows how far they were read."""
    for name in names:
        with _found(name, framing) as found:
            for file in found:
                with _bar(file) as seen:
                    for batch in files.messages(files.whole(file)):
                        yield batch if "key" in batch.schema.names else batch.append_column("key", _nulls(batch))
                        seen(batch)


def _nulls(batch: pa.RecordBatch) -> pa.Array:
    return pa.nulls(len(batch), pa.binary())


@contextmanager
def _found(name: str, framing: str | None) -> Iterator[Iterable[files.File]]:
    """Standard input goes into a file first, as a stream cannot be read at a place."""
    if name != "-":
        yield files.find([name], framing=framing or "auto")
        return
    with tempfile.NamedTemporaryFile() as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield files.find([file.name], framing=framing or "lines")


@contextmanager
def _bar(file: files.File) -> Iterator[Callable[[pa.RecordBatch], object]]:
    """What moves the bar, if tqdm is there: by bytes, or by messages where the file is compressed."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield len
        return
    plain = file.compression == "none"
    total, unit = (file.size, "B") if plain else (None, " messages")
    name = PurePath(file.path).name
    with tqdm(desc=name, total=total, unit=unit, unit_scale=True, disable=None, leave=False) as bar:
        # In a plain file, to where its last message begins.
        yield lambda batch: bar.update(batch["_offset"][-1].as_py() - bar.n if plain else len(batch))
