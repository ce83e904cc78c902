"""The architecture page describes the tree as it is."""

import re

import pytest

from tests.architecture.tree import BESIDE, PACKAGES, ROOT, outline, project, sources

PAGE = (ROOT / "docs" / "architecture.md").read_text()
LINES = 200
ROOTS = (*PACKAGES, *BESIDE)


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= LINES


def test_every_path_on_the_page_exists() -> None:
    paths = {one for one in re.findall(r"`([\w./-]+)`", PAGE) if one.split("/")[0] in ROOTS and "/" in one}
    assert len(paths) > 40
    assert sorted(one for one in paths if not (ROOT / one).exists()) == []


def test_files_are_named_by_their_whole_path() -> None:
    assert [one for one in re.findall(r"`([\w./-]+\.(?:py|toml))`", PAGE) if not (ROOT / one).exists()] == []


def _layers() -> list[set[str]]:
    contracts = project()["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one.get("containers") == ["coordinator"])
    return [set(re.findall(r"\w+", layer)) for layer in layers]


def test_the_layers_are_those_of_the_import_contract() -> None:
    table = PAGE.partition("\n## The layers\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == _layers()


@pytest.mark.xdist_group("outlines")  # files are parsed once in each process
def test_only_the_printed_files_import_asyncio() -> None:
    (printed,) = re.findall(r"```text\n((?:[\w./]+\n)+)```", PAGE)
    entries = printed.split()
    using = {
        str(path.relative_to(ROOT))
        for path in sources(*PACKAGES)
        if any(one.split(".")[0] == "asyncio" for one in outline(path).imports)
    }
    stray = sorted(one for one in using if not one.startswith(tuple(entries)))
    assert not stray, "print these in docs/architecture.md, or keep the event loop out of them"
    assert [entry for entry in entries if not any(one.startswith(entry) for one in using)] == []


STEPS = re.findall(r"^\| \d+ \| `([\w./]+)` \| ([^|]*) \|", PAGE, re.MULTILINE)


@pytest.mark.xdist_group("outlines")
@pytest.mark.parametrize(("path", "functions"), STEPS)
def test_each_step_of_the_walks_is_in_its_file(path: str, functions: str) -> None:
    named = set(re.findall(r"`(\w+)`", functions))
    assert named
    assert named <= outline(ROOT / path).defined


def test_a_request_and_an_expiry_are_walked_through() -> None:
    assert len(STEPS) > 15
