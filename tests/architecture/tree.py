"""The tree that these tests read."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("coordinator", "membership", "muster", "partition_log", "protocol", "purgatory", "pyspark_muster")
BESIDE = ("bench", "demo", "deploy", "docs", "examples", "interop", "tests")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def sources(*folders: str) -> Iterator[Path]:
    """Python files below these folders, in order."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
