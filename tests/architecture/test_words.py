"""Docstrings begin with a verb or a noun, and each public class of the product has a name of its own."""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache

import pytest

from tests.architecture.public_names import MODULES
from tests.architecture.tree import BESIDE, PACKAGES, ROOT, outline, sources

pytestmark = pytest.mark.xdist_group("outlines")
HEADLESS = re.compile(r"\s*(As|How|Of|That|Those|What|Whatever|When|Where|Whether|Which|Who|Whoever|Whom|Whose|Why)\b")
NOT_YET: set[str] = set()
"""Folders still to be converted; one that has nothing left to convert fails the test."""
FACES = {name for name in MODULES[0].__all__ if name in MODULES[1].__all__}
"""Classes with one face for threads and one for asyncio, under the same public name."""


@cache
def headless() -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {text.strip().splitlines()[0]}"
        for path in sources(*PACKAGES, *BESIDE)
        for number, text in outline(path).texts
        if HEADLESS.match(text)
    ]


@cache
def classes() -> list[tuple[str, str]]:
    return [
        (node.name, f"{path.relative_to(ROOT)}:{node.lineno}")
        for path in sources(*PACKAGES)
        for node in outline(path).classes
        if node.name[0].isupper()  # `on` begins a row of each state table
    ]


def shared(places: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Class names that occur in more than one of these places."""
    found = defaultdict(list)
    for name, place in places:
        found[name].append(place)
    return {name: at for name, at in found.items() if len(at) > 1 and name not in FACES}


def converted(place: str) -> bool:
    return not place.startswith(tuple(NOT_YET))


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    assert [one for one in headless() if converted(one)] == [], "name the subject, or say what is done"


def test_each_public_class_has_a_name_of_its_own() -> None:
    assert shared((name, at) for name, at in classes() if converted(at)) == {}


def test_folders_leave_the_list_when_they_are_converted() -> None:
    offences = [*headless(), *(at for places in shared(classes()).values() for at in places)]
    assert [entry for entry in NOT_YET if not any(one.startswith(entry) for one in offences)] == []
