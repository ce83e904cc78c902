"""EDGE: ends the process at once after a fatal failure, with a log line that says why and an exit code for its kind.
The next start recovers the state from disk.
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
    """Log why a step failed and end the process.

    After half a step the state is unknown and the step's flush is lost: a loop that continued would hold the ports and
    acknowledge nothing. A failed disk is logged without a traceback.
    """
    if isinstance(error, (OSError, LogDamaged)):
        log.critical("the disk failed; stopping", error=str(error), happened=happened)
        os._exit(DISK_FAILED)
    log.critical("a step failed; stopping", happened=happened, traceback="".join(traceback.format_exception(error)))
    os._exit(STATE_UNKNOWN)


@contextlib.contextmanager
def exit_on_error(happened: str) -> Iterator[None]:
    """End the process if the block raises: after a failed write or sync the content of the page cache is unknown, and
    recovery must replay the disk."""
    try:
        yield
    except BaseException as error:
        trace = {} if isinstance(error, OSError) else {"traceback": traceback.format_exc()}
        log.critical("the disk failed; stopping", error=str(error), happened=happened, **trace)
        os._exit(DISK_FAILED)
