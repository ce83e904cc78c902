"""Scenarios as checks: a number such as `CB12` stands for the one test that bears it."""

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]

_NUMBERED = re.compile(r"^(?:async )?def (test_(h|cb)(\d+)_\w+)\(", re.MULTILINE)


@cache
def nodes() -> Mapping[str, tuple[str, ...]]:
    """The tests that bear a number, by their pytest names: `H12` of docs/spec/consumer-client.md#H, `CB17` of
    docs/spec/client-balanced-groups.md#17.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, series, number in _NUMBERED.findall(path.read_text()):
            found[f"{series.upper()}{number}"].append(f"{path.relative_to(ROOT).as_posix()}::{name}")
    return {number: tuple(ones) for number, ones in found.items()}


class Scenario(msgspec.Struct, frozen=True):
    """The test of that number, with all of its cases. Raises ValueError where it is used if there is none, or two."""

    number: str

    @property
    def node(self) -> str:
        found = nodes().get(self.number, ())
        if len(found) != 1:
            raise ValueError(f"{len(found)} tests bear the number {self.number}")
        return found[0]

    @property
    def words(self) -> tuple[str, ...]:
        return ("test", self.node)

    @property
    def told(self) -> str:
        file, _, name = self.node.partition("::")
        return f"[{Path(file).stem}](../{file}) `{name}`"
