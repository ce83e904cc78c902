"""EDGE: the disk for jobs in threads. A job that reaches the limit of open files waits until a file can be opened:
connections hold the others, and close sooner or later. Ending the process would not help."""

import errno
import time
from typing import Any, cast

import structlog

from partition_log.disk.disk import Disk

log = structlog.get_logger()

_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE)
_TRY_AGAIN_S = 0.05
_OPENING = frozenset({"list", "lock", "open", "sync_folder"})
"""Calls that take a file descriptor."""


class _Patient:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._disk, name)
        if name not in _OPENING:
            return call

        def wait_and_call(*args: Any, **named: Any) -> Any:
            is_told = False
            while True:
                try:
                    return call(*args, **named)
                except OSError as error:
                    if error.errno not in _NO_MORE_FILES:
                        raise
                    if not is_told:
                        log.warning("no more files may be open: a job waits", why=str(error))
                        is_told = True
                    time.sleep(_TRY_AGAIN_S)

        return wait_and_call


def patient(disk: Disk) -> Disk:
    """Return the disk with calls that wait for a file descriptor, perhaps for ever: only for jobs in threads."""
    return cast(Disk, _Patient(disk))
