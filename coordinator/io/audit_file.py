"""EDGE: the audit log: a file that is rotated by its size, written in a separate thread. Only its owner may read it.

Lines are written as they come, and not synced: a crash of the machine, or of the process, may lose the last ones.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import Any, Final

from coordinator.io.job_runners import JobThread
from coordinator.node.effects import WriteAudit

MOST_WAITING: Final = 100_000
"""Largest number of lines that wait to be written; more are lost, and counted."""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _File(RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=_private)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is of logging
        raise  # noqa: PLE0704 - called in an except clause


class AuditFile:
    """Carries out `WriteAudit`. `lost` is called in the loop with a number of lines that could not be written, and the
    reason."""

    def __init__(self, path: str, max_bytes: int, max_backups: int, lost: Callable[[int, str], None]) -> None:
        """Open the file. Raises OSError."""
        self._file = _File(path, maxBytes=max_bytes, backupCount=max_backups)
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._waiting = 0
        self._thread = JobThread("audit")

    def write(self, effect: WriteAudit) -> None:
        """Queue the lines and return."""
        lines = effect.lines
        if self._waiting + len(lines) > MOST_WAITING:
            self._lost(len(lines), "the disk is too slow")
            return
        self._waiting += len(lines)
        self._thread.submit(lambda: self._attempt(lines))

    def _attempt(self, lines: list[bytes]) -> None:
        failed, why = 0, ""
        for line in lines:
            try:
                self._file.emit(logging.makeLogRecord({"msg": line.decode().removesuffix("\n")}))
            except OSError as error:
                failed, why = failed + 1, error.strerror or str(error)
        self._call_soon(self._done, len(lines), failed, why)

    def _call_soon(self, *call: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(*call)

    def _done(self, count: int, failed: int, why: str) -> None:
        self._waiting -= count
        if failed:
            self._lost(failed, why)

    def finish(self) -> None:
        """Return when all lines are written."""
        self._thread.finish()
        self._file.close()
