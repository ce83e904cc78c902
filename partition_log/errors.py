"""Errors of a log, one class for each reaction of the caller."""

import enum

ADVICE = (
    "Keep a copy of the data folder and restore the whole folder from a backup; "
    "docs/operations.md, 'Without a backup', says what can be done if there is none"
)
"""Advice in errors: a single file from another backup does not fit, since the checkpoint has each log's end."""
MISSING = "the file is missing"


class LogDamaged(Exception):
    """The content of a file is damaged; nothing has been changed or guessed.

    `position` is a place in the file, `offset` the record expected there, None if it is unknown. If `what` begins with
    `MISSING`, there is no such place.
    """

    def __init__(self, file: str, position: int, offset: int | None, what: str, advice: str) -> None:
        at = f"position {position}" if offset is None else f"position {position} (offset {offset})"
        self.is_missing = what.startswith(MISSING)
        told = f"is missing{what.removeprefix(MISSING)}" if self.is_missing else f"is damaged at {at}: {what}"
        super().__init__(f"{file} {told}. {advice}")
        self.file = file
        self.position = position
        self.offset = offset
        self.what = what
        self.advice = advice


class FolderInUse(OSError):
    """Another process has the data folder open."""


class SyncFailed(OSError):
    """A sync of a file or a folder failed, with any error number. No retry is allowed: the process ends.

    Linux marks pages clean whose writeback failed, and reports the failure once: a second sync would succeed, and the
    bytes would be lost. The next start writes all bytes after the checkpoint again, from the write-ahead log.
    """

    def __str__(self) -> str:
        return f"{super().__str__()}: a sync failed, and what was written may not be on the disk"


class OffsetOutsideLog(Exception):
    """The offset is below the log's start or above its end."""

    def __init__(self, name: str, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} of {name} is not within {start} and {end}")
        self.offset = offset
        self.start = start
        self.end = end


class AppendError(enum.Enum):
    """Reasons to refuse an append, which then changes nothing."""

    DISK_FULL = "no room on the disk for what must be written ahead"
    RECORD_TOO_LARGE = "the batch is larger than a batch may be"
    NOT_OWNED = "another node may write to the log"
    TOO_FAR_BEHIND = "more waits to be durable than may"
