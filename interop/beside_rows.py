"""Files of the records that members have read: a file for each member, a line for each record, written before its
commit."""

import os
from collections.abc import Iterable
from pathlib import Path

Row = tuple[str, int, int, bytes]
"""A topic, a partition, an offset, and what stood there."""
RecordPosition = tuple[str, int, int]


def append(folder: Path, name: str, rows: Iterable[Row]) -> None:
    """All at once: whoever is killed in the middle has written whole lines, but for the last."""
    lines = (f"{topic} {partition} {offset} {value.decode()}\n" for topic, partition, offset, value in rows)
    with (folder / f"{name}.rows").open("ab", buffering=0) as file:
        os.write(file.fileno(), "".join(lines).encode())


def written_bytes(folder: Path, name: str) -> int:
    """Return the size of a member's file."""
    path = folder / f"{name}.rows"
    return path.stat().st_size if path.exists() else 0


def read(folder: Path, name: str, after_bytes: int = 0) -> list[RecordPosition]:
    """In the order in which they were written. Raises AssertionError for one that is not what stood at its place."""
    path = folder / f"{name}.rows"
    if not path.exists():
        return []
    found = []
    with path.open() as file:
        file.seek(after_bytes)
        lines = file.read().split("\n")[:-1]
    for line in lines:
        topic, partition, offset, value = line.split(" ")
        assert value == mark(topic, int(partition), int(offset)).decode(), f"{name} read {line}"
        found.append((topic, int(partition), int(offset)))
    return found


def mend(folder: Path, name: str) -> None:
    """Cut off the incomplete last line of a killed member, so that the next record begins a line."""
    path = folder / f"{name}.rows"
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def mark(topic: str, partition: int, number: int) -> bytes:
    """Return the value of the record of this number, which names its place."""
    return f"{topic}-{partition}:{number}".encode()
