"""`--watch [SECONDS]`: refreshes the output of a command until Ctrl-C."""

import io
import re
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from math import ceil
from os import terminal_size
from shutil import get_terminal_size
from typing import Annotated, Any, Final

import typer
from rich.text import Text
from typer.core import TyperCommand

from muster.admin.asking import Complaint
from muster.cli.failures import complain
from muster.cli.showing import local_time
from muster.errors import MusterError
from protocol.words import counted

DEFAULT_S: Final = 2.0
_SHORTEST_S, _LONGEST_S = 0.1, 86_400.0
_NUMBER: Final = re.compile(r"\d+(\.\d*)?|\.\d+")
_CLEAR: Final = "\x1b[H\x1b[2J"
_SPARE_ROWS: Final = 2
"""Rows for the message of a failure, and for the cursor."""

Watch = Annotated[
    float | None,
    typer.Option(
        "--watch", metavar="[SECONDS]", help=f"Refresh every so many seconds until Ctrl-C (default: {DEFAULT_S:g})."
    ),
]


class WatchableCommand(TyperCommand):
    """Command that allows `--watch` without a number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments: a number after `--watch` is its value; anything else is an argument of the command."""
        end = args.index("--") if "--" in args else len(args)
        told = list(args)
        for number, argument in enumerate(args[:end]):
            if argument == "--watch" and not (number + 1 < end and _NUMBER.fullmatch(args[number + 1])):
                told[number] = f"--watch={DEFAULT_S:g}"
        return super().parse_args(ctx, told)


class _Frame(io.StringIO):
    """Output of one round until it is complete."""

    def __init__(self, screen: terminal_size | None) -> None:
        super().__init__()
        self._is_terminal = screen is not None

    def isatty(self) -> bool:
        return self._is_terminal


def watched(ctx: typer.Context, every_s: float | None, show: Callable[[], None], *, is_data: bool) -> None:
    """Show once, or every `every_s` seconds until an interruption. A terminal is redrawn each time, and the output cut
    to its height; otherwise each round prints a block, with the time in front unless it `is_data`. A failure in the
    first round ends the command. A later one is printed, and rounds continue, since the server may be restarting."""
    if every_s is None:
        show()
        return
    if not _SHORTEST_S <= every_s <= _LONGEST_S:
        raise typer.BadParameter(f"{every_s:g} is not in {_SHORTEST_S:g}..{_LONGEST_S:g} seconds", param_hint="--watch")
    is_first = True
    while True:
        size = screen()
        frame, failure = _shown(show, size)
        if size is not None:
            heading = f"Every {every_s:g} s, until Ctrl-C. {local_time(_now_ms())}\n\n"
            sys.stdout.write(_CLEAR + _fitted(heading + frame, size))
        elif frame:
            heading = "" if is_data else f"{local_time(_now_ms())}\n"
            sys.stdout.write(("" if is_first else "\n") + heading + frame)
        sys.stdout.flush()
        if failure is not None:
            if is_first:
                raise failure
            complain(ctx, failure)
        is_first = False
        wait(every_s)


def _shown(show: Callable[[], None], size: terminal_size | None) -> tuple[str, MusterError | Complaint | None]:
    """Return the output and the failure, if any. Exit codes (of problems) are ignored while rounds continue."""
    frame = _Frame(size)
    with redirect_stdout(frame), suppress(typer.Exit):
        try:
            show()
        except (MusterError, Complaint) as failure:
            return frame.getvalue(), failure
    return frame.getvalue(), None


def _fitted(text: str, size: terminal_size) -> str:
    """Return as many lines as fit the terminal, and the number of the others."""
    left = size.lines - _SPARE_ROWS
    lines = text.splitlines()
    for number, line in enumerate(lines):
        left -= max(1, ceil(Text.from_ansi(line).cell_len / size.columns))
        if left < 0 or (left == 0 and number + 1 < len(lines)):
            more = counted(len(lines) - number, "more line")
            return "\n".join([*lines[:number], f"... {more}: without --watch, or in a pipe, they are shown", ""])
    return text


def screen() -> terminal_size | None:
    """Return the size of the terminal at standard output; None if that is not a terminal."""
    return get_terminal_size() if sys.stdout.isatty() else None


def wait(every_s: float) -> None:
    """Wait for the next round."""
    time.sleep(every_s)


def _now_ms() -> int:
    return int(time.time() * 1000)
