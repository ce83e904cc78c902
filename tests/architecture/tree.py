"""The tree that these tests read."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "coordinator",
    "diagnosis",
    "membership",
    "muster",
    "partition_log",
    "protocol",
    "purgatory",
    "pyspark_muster",
)
BESIDE = ("bench", "demo", "deploy", "docs", "examples", "interop", "pipelines", "tests")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def sources(*folders: str) -> Iterator[Path]:
    """Python files below these folders, in order."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Outline(NamedTuple):
    """Facts about a file that tests of the shape read; small, unlike its tree."""

    classes: list[ast.ClassDef]
    """Without their bodies."""
    defined: set[str]
    """Names of classes and functions, methods included."""
    imports: list[str]
    """Modules, and the names taken from them, in full."""
    texts: list[tuple[int, str]]
    """Strings as statements: docstrings, and descriptions of the assignment above; with their lines."""


@cache
def outline(path: Path) -> Outline:
    """Outline of a Python file, parsed once in each process."""
    found = Outline([], set(), [], [])
    for node in _statements(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name):
                found.defined.add(name)
                found.classes.append(node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.defined.add(name)
            case ast.Import(names=names):
                found.imports.extend(one.name for one in names)
            case ast.ImportFrom(module=str(module), names=names):
                found.imports.extend((module, *(f"{module}.{one.name}" for one in names)))
            case ast.Expr(value=ast.Constant(value=str(text))):
                found.texts.append((node.lineno, text))
    for one in found.classes:
        one.body = []
    return found


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Statements at any depth; expressions, of which there are many more, hold none."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, block, ()))
