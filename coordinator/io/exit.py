"""EDGE: how the process ends when it cannot go on: at once, with a line that says why and an exit code that says what
kind of thing it was. What it takes to know again where everything stands is a start, which is tested best of all.
"""

import contextlib
import os
import traceback
from collections.abc import Iterator
from typing import NoReturn

import structlog

from partition_log.errors import LogDamaged

log = structlog.get_logger()

DISK_FAILED, STATE_UNKNOWN = 74, 70
"""Exit codes: EX_IOERR and EX_SOFTWARE of sysexits.h."""


def exit_process(happened: str, error: BaseException) -> NoReturn:
    """After half a step nobody knows what the state is, and the flush it wanted is lost: a loop that went on would hold
    the ports and acknowledge nothing. If it is the disk that failed, no traceback is needed to say so."""
    if isinstance(error, (OSError, LogDamaged)):
        log.critical("the disk failed; stopping", error=str(error), happened=happened)
        os._exit(DISK_FAILED)
    log.critical("a step failed; stopping", happened=happened, traceback="".join(traceback.format_exception(error)))
    os._exit(STATE_UNKNOWN)


@contextlib.contextmanager
def exit_on_error(happened: str) -> Iterator[None]:
    """After a failed write or sync nobody knows what the page cache holds: stop, and let recovery replay the disk."""
    try:
        yield
    except BaseException as error:
        trace = {} if isinstance(error, OSError) else {"traceback": traceback.format_exc()}
        log.critical("the disk failed; stopping", error=str(error), happened=happened, **trace)
        os._exit(DISK_FAILED)
