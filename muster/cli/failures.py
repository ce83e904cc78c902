"""Failures of the command: exit codes, a sentence for people, and a document for scripts."""

import json
import sys
from enum import IntEnum
from typing import Any, Final

import typer

from muster.admin.asking import Complaint, NotFound
from muster.cli.asking import NAMED, ActRefused
from muster.errors import AuthenticationFailed, CannotConnect, MusterError, Refused, RequestTimedOut
from protocol.errors import ErrorCode

_ABSENT: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_AS_JSON: Final = "muster.cli.as_json"


class ExitCode(IntEnum):
    """Exit codes beside 0. A problem of a group found by `muster doctor` is not a failure."""

    FAILED = 1
    MISUSED = 2
    NOT_THERE = 3
    REFUSED = 4
    NOT_REACHED = 5
    PROBLEM = 6


def remember_form(ctx: Any, arguments: list[str]) -> None:
    """Store whether failures are JSON documents: `--json` counts even if other arguments are invalid."""
    before_names = arguments[: arguments.index("--")] if "--" in arguments else arguments
    ctx.meta[_AS_JSON] = "--json" in before_names


def is_json(ctx: Any) -> bool:
    """Return true if failures are JSON documents."""
    return bool(ctx.meta.get(_AS_JSON))


def exit_code(error: Exception) -> ExitCode:
    """Return the exit code for this failure."""
    if isinstance(error, NotFound) or (isinstance(error, Refused) and error.error_code in _ABSENT):
        return ExitCode.NOT_THERE
    if isinstance(error, Refused | ActRefused | AuthenticationFailed):
        return ExitCode.REFUSED
    return ExitCode.NOT_REACHED if isinstance(error, CannotConnect | RequestTimedOut) else ExitCode.FAILED


def complain(ctx: Any, error: MusterError | Complaint) -> ExitCode:
    """Print the failure to standard error; return the exit code."""
    code = exit_code(error)
    if is_json(ctx):
        kafka_error = error.error_code.name if isinstance(error, Refused) else None
        _print_document(code, str(error), kafka_error=kafka_error, **ctx.meta.get(NAMED, {}))
    else:
        print(f"muster: {error}", file=sys.stderr, flush=True)
    return code


def complain_of_use(error: typer.BadParameter) -> ExitCode:
    """Print a usage error as a JSON document."""
    _print_document(ExitCode.MISUSED, error.format_message(), kafka_error=None)
    return ExitCode.MISUSED


def _print_document(code: ExitCode, message: str, **facts: Any) -> None:
    told = {"code": code.name, "exit_code": int(code), "message": message, **facts}
    print(json.dumps({"error": told}, indent=2), file=sys.stderr, flush=True)
