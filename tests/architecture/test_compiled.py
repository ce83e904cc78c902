"""Modules that are compiled: what mypyc cannot take is not in them, and a test never takes one build for the other."""

import ast
import importlib
import os
from pathlib import Path

import pytest

import hatch_build
from coordinator import build_info
from tests import builds
from tests.architecture.tree import ROOT

MODULES = hatch_build.modules(ROOT)
PROJECT = """
[tool.hatch.build.targets.wheel]
packages = ["service"]
[tool.hatch.build.targets.wheel.hooks.custom]
modules = ["service/node.py"]
"""


@pytest.mark.parametrize("path", MODULES)
def test_no_compiled_module_has_a_class_with_options(path: str) -> None:
    """mypyc leaves them out without a word: a frozen Struct would not be frozen, and array_like is a file's format."""
    classes = [node for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.ClassDef)]
    assert [one.name for one in classes if one.keywords] == []


def test_the_daemon_says_which_build_it_is() -> None:
    assert build_info.build() == ("compiled" if builds.is_compiled() else "pure")
    assert "coordinator/build_info.py" in MODULES


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "service").mkdir()
    (tmp_path / "service/node.py").touch()
    return tmp_path


def put_library(tree: Path, name: str = f"node{hatch_build.SUFFIX}") -> Path:
    library = tree / "service" / name
    library.touch()
    return library


def test_libraries_beside_sources_are_refused(tree: Path) -> None:
    assert builds.complaint(tree, compiled=False) is None
    library = put_library(tree)
    assert builds.complaint(tree, compiled=False) == (
        f"service/{library.name} hides its source: `make pure` removes it, `make test COMPILED=1` tests it"
    )


def test_libraries_of_another_interpreter_are_no_compiled_build(tree: Path) -> None:
    put_library(tree, "node.cpython-399-other.so")
    assert "service/node.py is not compiled" in (builds.complaint(tree, compiled=True) or "")


def test_libraries_older_than_their_sources_are_refused(tree: Path) -> None:
    library = put_library(tree)
    assert builds.complaint(tree, compiled=True) is None
    os.utime(library, (1, 1))
    assert "service/node.py is not compiled as it stands now" in (builds.complaint(tree, compiled=True) or "")


def test_what_is_compiled_in_place_can_be_removed(tree: Path) -> None:
    put_library(tree)
    (tree / "muster__mypyc.so").touch()
    hatch_build.remove(tree)
    assert hatch_build.libraries(tree) == []


@pytest.mark.parametrize("path", MODULES)
def test_no_compiled_module_joins_integers_with_a_kind_of_integers(path: str) -> None:
    """mypyc keeps an int without its object: of `int | ErrorCode` it forgets which of the two it was."""
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            names = {one.id for one in _alternatives(node) if isinstance(one, ast.Name)}
            kinds = [name for name in names if _is_kind_of_integer(getattr(module, name, None))]
            assert "int" not in names or not kinds, f"{path}:{node.lineno} joins int and {kinds[0]}"


def _alternatives(node: ast.expr) -> list[ast.expr]:
    return [*_alternatives(node.left), *_alternatives(node.right)] if isinstance(node, ast.BinOp) else [node]


def _is_kind_of_integer(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, int)
