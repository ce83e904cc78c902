"""What can go wrong in a log, told apart by what the caller can do about it."""

import enum

ADVICE = "Stop, keep a copy of the data folder, and restore this file from a backup"
"""What to do about a damaged file of a log."""


class LogDamaged(Exception):
    """What is on disk cannot be what was written: it is not guessed at. Nothing has been changed.

    `position` is a place in the file, `offset` the record it would have held, `None` where that is unknown.
    """

    def __init__(self, file: str, position: int, offset: int | None, what: str, advice: str) -> None:
        at = f"position {position}" if offset is None else f"position {position} (offset {offset})"
        super().__init__(f"{file} is damaged at {at}: {what}. {advice}")
        self.file = file
        self.position = position
        self.offset = offset
        self.what = what
        self.advice = advice


class FolderInUse(OSError):
    """Another process has the data folder open."""


class OffsetOutOfRange(Exception):
    """Below the log's start, or above its end."""

    def __init__(self, name: str, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} of {name} is not within {start} and {end}")
        self.offset = offset
        self.start = start
        self.end = end


class AppendError(enum.Enum):
    """Why an append was refused. Nothing has changed then."""

    DISK_FULL = "no room on the disk for what must be written ahead"
    RECORD_TOO_LARGE = "the batch is larger than a batch may be"
