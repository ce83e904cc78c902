"""That the tree keeps its shape: files stay small, have tests, and say nothing of the machine they were written on."""

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.architecture.tree import BESIDE, PACKAGES, ROOT, module_of, sources

LINES = 400
TESTED = ("coordinator", "partition_log", "protocol", "purgatory")
MACHINE = re.compile(r"(?:^|[^A-Za-z0-9_.-])/(?:work|farm|root|home|Users)/")
REGISTRY = re.compile(
    "index" + "-url|python" + "hosted|//pypi" + r"\.|registry\.npm" + r"js|repo1?\.maven|crates\.io/|/simple" + "/"
)
TEXTS = {".cfg", ".css", ".html", ".js", ".md", ".py", ".service", ".sh", ".toml", ".txt", ".yaml", ".yml"}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_eats_the_others(package: str) -> None:
    long = {str(path.relative_to(ROOT)): lines for path in sources(package) if (lines := _lines(path)) > LINES}
    assert not long, f"above {LINES} lines: split by the things these files do"


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_every_file_of_the_service_is_named_by_a_test() -> None:
    imported = set(chain.from_iterable(_imports(path) for path in sources("tests")))
    imported.update(_imports(ROOT / "protocol" / "apis.py"))  # its table is what wire tests go by, version by version
    silent = [
        str(path.relative_to(ROOT))
        for path in sources(*TESTED)
        if path.name not in ("__init__.py", "__main__.py") and module_of(path) not in imported
    ]
    assert not silent, "no test imports these"


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_nothing_names_a_machine_or_a_registry() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _texts()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if MACHINE.search(line) or REGISTRY.search(line)
    ]
    assert not found


def _texts() -> Iterator[Path]:
    here = (path for path in ROOT.iterdir() if path.is_file())
    below = chain.from_iterable((ROOT / folder).rglob("*") for folder in (*PACKAGES, *BESIDE, ".ci"))
    for path in sorted(chain(here, below)):
        if path.is_file() and (path.suffix in TEXTS or path.name in ("Makefile", "Dockerfile", "run")):
            yield path


def test_the_patterns_find_what_they_are_for() -> None:
    assert MACHINE.search("open('/" + "home/me/x')")
    assert not MACHINE.search("/var/lib/muster and ../work/x")
    assert REGISTRY.search("pip --" + "index" + "-url x")
