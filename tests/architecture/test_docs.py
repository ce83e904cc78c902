"""The pages agree with the code, as far as a test can tell."""

import re
from pathlib import Path

import pytest

from coordinator.config.config import KEYS
from coordinator.groups.classic.notes import Cause
from pyspark_muster.options import Options
from tests.architecture.tree import BESIDE, PACKAGES, ROOT

DOCS = ROOT / "docs"
PAGES = sorted((*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "deploy").glob("*.md")))


def _read(name: str) -> str:
    return (DOCS / name).read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_tests_that_the_attacks_are_tried_by_exist() -> None:
    table = _read("security.md").partition("\n## Attacks\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_/]+\.py)::(\w+)`", table)
    assert len(named) > 10
    missing = [
        (path, test) for path, test in named if not re.search(rf"\bdef {test}\(", (ROOT / "tests" / path).read_text())
    ]
    assert missing == []


def test_every_cause_of_a_rebalance_is_explained_to_operators() -> None:
    page = _read("operations.md")
    assert [cause.value for cause in Cause if f"`{cause.value}`" not in page] == []


def test_the_limits_that_operators_read_of_are_keys() -> None:
    limits = _read("operations.md").partition("\n## Limits\n")[2]
    named = re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", limits)
    assert len(named) > 10
    assert [name for name in named if name not in KEYS] == []


def test_the_options_of_the_spark_page_are_those_that_are_read_with_their_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", _read("spark.md").partition("\n## Options\n")[2], re.MULTILINE)
    told = {name.lower(): default.strip(" `") for name, default in rows}
    fields = [field for field in Options.__struct_fields__ if "security" not in field]  # those have names of their own
    assert told.keys() == {field.replace("_", "") for field in fields}
    parsed = Options.parse({"bootstrap": "b:1", "group": "g", "topics": "t"})
    for field in fields:
        default = told[field.replace("_", "")]
        if default != "*required*":
            value = getattr(parsed, field)
            assert default == _shown(value), field


def _shown(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def test_every_decision_is_short_has_its_three_parts_and_is_in_the_index() -> None:
    folder = DOCS / "decisions"
    records = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    index = re.findall(r"^\| \[(\d+)\]\(([\w-]+\.md)\) \| (.+) \|$", (folder / "README.md").read_text(), re.MULTILINE)
    assert [name for _, name, _ in index] == [path.name for path in records]
    for (number, name, title), path in zip(index, records, strict=True):
        text = path.read_text()
        assert text.startswith(f"# {number} {title}\n"), name
        assert name.startswith(f"{number}-"), name
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Consequence"], name
        assert len(text.splitlines()) <= 25, name


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_package_is_on_the_map(page: str) -> None:
    folders = set(
        re.findall(r"`(\w+)/`", "".join(re.findall(r"^\| (`[^|]*) \|", (ROOT / page).read_text(), re.MULTILINE)))
    )
    wanted = {*PACKAGES, *BESIDE} if page == "README.md" else set(PACKAGES)
    assert sorted(wanted - folders) == []
