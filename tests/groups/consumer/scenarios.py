"""The scenarios of server-driven groups in the words of docs/spec/consumer-group-protocol.md#19, each with the tests
that name it: `test_scenario_7_...`, `test_scenarios_23_and_83_...`, or `Scenario 88` at the start of a docstring."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
SPEC = ROOT / "docs" / "spec" / "consumer-group-protocol.md"
TITLE = "Server-driven groups (docs/spec/consumer-group-protocol.md#19)"

_THEME = re.compile(r"### 19\.\d+ (.+)")
_SCENARIO = re.compile(r"(\d+)\. (.+)")
_NUMBERS = re.compile(r"\d+(?:(?:, |_and_|_to_)\d+)*")
_IN_NAME = re.compile(rf"test_scenarios?_({_NUMBERS.pattern})_")
_IN_DOCSTRING = re.compile(rf"Scenarios? ({_NUMBERS.pattern})")


class Naming(NamedTuple):
    """A test that names scenarios."""

    path: Path
    name: str


def themes() -> dict[str, dict[int, str]]:
    """Return the scenarios of each theme, by their numbers."""
    found: dict[str, dict[int, str]] = {}
    latest: dict[int, str] = {}
    for line in SPEC.read_text().partition("\n## 19. ")[2].splitlines():
        if theme := _THEME.match(line):
            latest = found[theme[1]] = {}
        elif scenario := _SCENARIO.match(line):
            latest[int(scenario[1])] = scenario[2]
        elif latest and line.startswith(" "):
            latest[max(latest)] += f" {line.strip()}"
    return found


@cache
def by_number() -> dict[int, list[Naming]]:
    found: dict[int, list[Naming]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if _IN_NAME.search(text) or _IN_DOCSTRING.search(text) else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in numbers_of(node):
                    found[number].append(Naming(path, node.name))
    return found


def numbers_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """Return the scenarios that a test names."""
    named = _IN_NAME.match(node.name) or _IN_DOCSTRING.match(ast.get_docstring(node) or "")
    if named is None:
        return
    for part in re.split(r", |_and_", named[1]):
        first, _, last = part.partition("_to_")
        yield from range(int(first), int(last or first) + 1)


def part() -> Iterator[str]:
    """Yield the lines of docs/scenarios.md about them."""
    found = by_number()
    for theme, scenarios in themes().items():
        yield from ("", f"### {theme}", "", "| # | what happens -> what must come of it | tests |", "|---|---|---|")
        for number, text in scenarios.items():
            escaped = text.replace("|", r"\|")
            yield f"| {number} | {escaped} | {_shown(found[number])} |"


def _shown(tests: list[Naming]) -> str:
    """Name each file once, with its tests."""
    files: dict[Path, list[str]] = defaultdict(list)
    for one in tests:
        files[one.path].append(f"`{one.name}`")
    return ", ".join(
        f"[{path.stem}](../{path.relative_to(ROOT).as_posix()}) {' '.join(names)}" for path, names in files.items()
    )
