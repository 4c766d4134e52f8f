"""Parses the command line, runs a verb, and reports a failure in one line."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from typing import NoReturn

from towpath import _towpath
from towpath.cli.exit_status import DECODE_ERRORS, EPILOG, FAILURE, INTERRUPTED, SUCCESS
from towpath.cli.text import show
from towpath.cli.verbs import check, decode, detect, dialects, doctor, head, infer, replicate, report, tables
from towpath.names import did_you_mean

VERBS = {
    "dialects": dialects,
    "detect": detect,
    "tables": tables,
    "infer": infer,
    "head": head,
    "check": check,
    "decode": decode,
    "report": report,
    "replicate": replicate,
    "doctor": doctor,
}
"""Module of each verb: `PURPOSE` is its help, `add_arguments` declares its arguments, `run` returns its status."""


_WITH_SPARK = ("replicate", "doctor")
"""Verbs that run or check pyspark, which needs pandas."""


class WithoutPandas(MetaPathFinder):
    """Finder without pandas. pyarrow imports it to convert a list, which takes longer than the rest of the command."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raise an ImportError for pandas, as if it were not installed."""
        if fullname == "pandas":
            raise ModuleNotFoundError("the command does not use pandas", name=fullname)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Arguments after the command's name. Defaults to the arguments of the process.

    Returns:
        The exit status.
    """
    declared = parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell calls this for completion
        import argcomplete

        argcomplete.autocomplete(declared)
    parsed, unknown = declared.parse_known_args(arguments)
    if unknown:
        _refuse(unknown, parsed.parser)
    if arguments is None and parsed.verb not in _WITH_SPARK:
        sys.meta_path.insert(0, WithoutPandas())
    if parsed.verb == "decode" or getattr(parsed, "json", False):
        _write_utf8()
    try:
        status: int = VERBS[parsed.verb].run(parsed)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, for example `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)
    except _towpath.DecodeError as error:
        return _failed(str(error), DECODE_ERRORS)
    except (OSError, ValueError, TypeError, ImportError) as error:
        return _failed(str(error), FAILURE)
    except Exception as error:  # show one line for any error
        return _failed(f"{type(error).__name__}: {error}", FAILURE)


def _write_utf8() -> None:
    """Write UTF-8 in any locale, as JSON requires."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def _failed(what: str, status: int) -> int:
    show(f"towpath: {' '.join(what.split())}", sys.stderr)
    return status


class _Parser(argparse.ArgumentParser):
    """Parser that reports a wrong argument in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(FAILURE, f"{self.prog}: {message}; {self.prog} --help lists the arguments\n")


def _refuse(unknown: Sequence[str], verb: argparse.ArgumentParser) -> NoReturn:
    """Exit with an error about arguments that a verb does not have. The parser of all verbs does not know its flags."""
    flags = [flag for action in verb._actions for flag in action.option_strings]
    first = next((one for one in unknown if one.startswith("-")), unknown[0]).partition("=")[0]
    verb.error(f"unrecognized arguments: {' '.join(unknown)}; {did_you_mean(first, flags)}".rstrip("; "))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line. `verb` of the parsed arguments is a name in `VERBS`."""
    command = _Parser("towpath", description="Inspect and convert captures of change messages.", epilog=EPILOG)
    command.add_argument("--version", action="version", version=f"towpath {_towpath.__version__}")
    verbs = command.add_subparsers(required=True, metavar="VERB", dest="verb")
    for name, module in VERBS.items():
        verb = verbs.add_parser(name, help=module.PURPOSE, description=f"{module.PURPOSE}.", epilog=EPILOG)
        module.add_arguments(verb)
        verb.set_defaults(parser=verb)
    return command
