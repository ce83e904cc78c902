"""The table of a connection in front of a broker, judged by kio's own classes for every answer there is."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

import kio.schema
import pytest

from protocol.kafka.front.apis import OUR_KEYS, PASSED, REWRITTEN

NOT_OF_BROKERS = {29, 31}
"""The hosts in answers about ACLs are those that may connect."""


@cache
def answers() -> dict[tuple[int, int], Any]:
    """By key and version."""
    found = {}
    for module in pkgutil.walk_packages(kio.schema.__path__, "kio.schema."):
        if module.name.endswith(".response"):
            for one in vars(importlib.import_module(module.name)).values():
                if is_dataclass(one) and getattr(one, "__type__", None) is not None and "__api_key__" in vars(one):
                    found[int(vars(one)["__api_key__"]), int(vars(one)["__version__"])] = one
    return found


def places(kind: Any) -> Iterator[str]:
    """Names of fields, however deep, that tell where somebody listens."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        if field.name in ("host", "port"):
            yield field.name
        for inner in (hints[field.name], *get_args(hints[field.name])):
            if is_dataclass(inner):
                yield from places(inner)


@pytest.mark.parametrize("key", [key for key in PASSED if key not in NOT_OF_BROKERS])
def test_no_answer_that_goes_through_names_a_place(key: int) -> None:
    known = [version for api, version in answers() if api == key and version <= PASSED[key]]
    assert known
    for version in known:
        assert not list(places(answers()[key, version])), f"version {version}"


@pytest.mark.parametrize("key", [0, 1, 55])
def test_the_next_version_of_those_that_are_held_back_names_one(key: int) -> None:
    assert set(places(answers()[key, PASSED[key] + 1])) == {"host", "port"}


@pytest.mark.parametrize("key", REWRITTEN)
def test_those_that_are_rewritten_name_one(key: int) -> None:
    assert list(places(answers()[key, 0]))


def test_no_request_is_the_brokers_and_ours_too() -> None:
    assert not OUR_KEYS & set(PASSED)
    assert not set(REWRITTEN) & set(PASSED)
