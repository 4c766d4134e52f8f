"""Runs the job that a file describes: replicates a topic to Delta or Iceberg tables without a program."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from towpath.cli.arguments import add_json
from towpath.cli.exit_status import FAILURE, SUCCESS
from towpath.cli.text import print_table

if TYPE_CHECKING:
    from towpath.job.file import Job

PURPOSE = "keep the tables of a topic up to date, as a YAML file specifies"


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    verb.add_argument("job", nargs="?", metavar="JOB.yml", help="the job file")
    verb.add_argument("--check", action="store_true", help="validate what the job needs, and do not run it")
    verb.add_argument("--once", action="store_true", help="stop after the messages that are in the topics now")
    verb.add_argument("--schema", action="store_true", help="print the JSON schema of the job file")
    add_json(verb)


def run(parsed: argparse.Namespace) -> int:
    """Run or check the job."""
    from towpath.job.file import read_job
    from towpath.job.schema import job_schema

    if parsed.schema:
        print(json.dumps(job_schema(), indent=2, ensure_ascii=False))
        return SUCCESS
    if parsed.job is None:
        raise ValueError("expected a job file; towpath replicate --schema prints its schema")
    job = read_job(parsed.job)
    try:
        return _run(job, parsed)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise ValueError(job.hidden(str(error))) from None
    except Exception as error:  # from Spark or Java
        raise ValueError(job.hidden(f"{type(error).__name__}: {error}")) from None


def _run(job: Job, parsed: argparse.Namespace) -> int:
    from towpath.job.run import run as run_job
    from towpath.job.run import session

    def say(line: str, values: Mapping[str, Any]) -> None:
        text = json.dumps(values, ensure_ascii=False, default=str) if parsed.json else line
        print(job.hidden(text), flush=True)

    if not parsed.check:
        run_job(job, say, once=parsed.once)
        return SUCCESS
    from towpath.job.validation import check

    found = list(check(job, session(job, is_quiet=True)))
    if parsed.json:
        print(json.dumps([asdict(one) for one in found], ensure_ascii=False))
    else:
        print_table([[one.name, "ok" if one.is_ok else "problem", one.found] for one in found])
    return SUCCESS if all(one.is_ok for one in found) else FAILURE
