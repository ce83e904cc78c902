"""Names of the files in a log's folder. Those of segments are Kafka's."""

from typing import NamedTuple

_DIGITS = 20
_KINDS_OF_SEGMENT = ("log", "index", "timeindex")


def file_name(base_offset: int, kind: str) -> str:
    return f"{base_offset:020d}.{kind}"


def offset_of(name: str, *kinds: str) -> int | None:
    """Offset at the beginning of the name of a file of these kinds; None for any other name."""
    stem, _, kind = name.partition(".")
    return int(stem) if len(stem) == _DIGITS and stem.isdecimal() and kind in kinds else None


def is_segment_file(name: str) -> bool:
    return offset_of(name, *_KINDS_OF_SEGMENT) is not None


def segment_bases(names: list[str]) -> list[int]:
    """Base offsets of the segments among a folder's files, ascending."""
    return sorted(base for name in names if (base := offset_of(name, "log")) is not None)


class SwapName(NamedTuple):
    """Name of a `.swap` file: the range of offsets that it replaces."""

    base_offset: int
    end: int

    @property
    def text(self) -> str:
        return f"{self.base_offset:020d}-{self.end:020d}.swap"

    def replaces(self, name: str) -> bool:
        """Return true for a file of a segment that the swap replaces, except the one whose name it takes."""
        base = offset_of(name, *_KINDS_OF_SEGMENT)
        return base is not None and self.base_offset <= base < self.end and name != file_name(self.base_offset, "log")


def swap_name(name: str) -> SwapName | None:
    """Parse the name of a `.swap` file; None for any other name."""
    numbers, _, kind = name.partition(".")
    base, _, end = numbers.partition("-")
    if kind != "swap" or len(base) != _DIGITS or len(end) != _DIGITS or not (base + end).isdecimal():
        return None
    return SwapName(int(base), int(end))


def cleaned_name(base_offset: int) -> str:
    """Name of a segment that compaction is writing."""
    return file_name(base_offset, "cleaned")


def is_cleaning_file(name: str) -> bool:
    """Return true for a file that compaction has written, or was writing, and that is not yet a segment of the log."""
    return offset_of(name, "cleaned") is not None or swap_name(name) is not None
