"""Packages whose names are imported at their first use: type checkers and programs see the same names."""

import ast
import importlib
import pickle
from pathlib import Path

import pytest

import muster
from muster._on_demand import names_on_demand

PACKAGES = ("muster", "muster.blocking", "pyspark_muster")


@pytest.mark.parametrize("package", PACKAGES)
def test_each_name_is_the_one_that_type_checkers_see(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    checked = {
        name.name: one.module
        for branch in ast.parse(Path(module.__file__).read_text()).body
        if isinstance(branch, ast.If)
        for one in branch.body
        if isinstance(one, ast.ImportFrom) and one.module is not None
        for name in one.names
    }
    assert sorted(checked) == sorted(module.__all__)
    for name, source in checked.items():
        assert module.__getattr__(name) is getattr(importlib.import_module(source), name)


def test_a_name_that_is_missing_is_an_error_of_attributes_and_imports() -> None:
    with pytest.raises(AttributeError, match="module 'muster' has no attribute 'Cosumer'"):
        muster.Cosumer  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Cosumer'"):
        from muster import Cosumer  # type: ignore[attr-defined]  # noqa: F401


def test_a_name_is_looked_up_once_and_listed_before() -> None:
    package = {"__name__": "ours"}
    get = names_on_demand(package, {"collections": "Counter OrderedDict"})
    first = get("Counter")
    assert package["Counter"] is first
    assert "OrderedDict" not in package
    assert {"Consumer", "ClientBalancedConsumer", "__doc__"} <= set(dir(muster))
    assert pickle.loads(pickle.dumps(muster.Consumer)) is muster.Consumer
