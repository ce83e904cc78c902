"""Findings about a data folder, and totals of the bytes and records read."""

import enum

import msgspec


class Severity(enum.Enum):
    """`DAMAGE`: acknowledged records may be lost. `WARNING`: a cache or a snapshot is wrong, and is rebuilt when it is
    needed. `NOTE`: worth knowing.
    """

    DAMAGE = "damage"
    WARNING = "warning"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True):
    """`position` is a place in the file and `offset` one in the log; None if the finding concerns neither."""

    severity: Severity
    file: str
    position: int | None
    offset: int | None
    what: str

    @property
    def sentence(self) -> str:
        """Describe the finding, without its severity."""
        at = "" if self.position is None else f" at position {self.position}"
        offset = "" if self.offset is None else f" (offset {self.offset})"
        return f"{self.file}{at}{offset}: {self.what}"


class ScanTotals:
    """Totals of logs below the checkpoint, and of the write-ahead log behind it."""

    __slots__ = ("batches", "bytes", "frame_bytes", "frames", "logs", "records", "segments")

    def __init__(self) -> None:
        self.logs = self.segments = self.batches = self.records = self.bytes = self.frames = self.frame_bytes = 0

    def add(self, other: "ScanTotals") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
