"""Each citation of a specification leads to a heading, or to a row or an entry below one.

A citation is `docs/spec/NAME.md#N`, with more of the same page as `docs/spec/NAME.md#N, #M`. `N` is a section (`2.1.4`,
`A9`), a part (`E`), or a section and one of its numbered rows (`E4.V4`, `9.1.5`).
"""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from tests.architecture.tree import BESIDE, PACKAGES, ROOT, sources

SPEC = ROOT / "docs" / "spec"
NAMES = sorted(path.stem for path in SPEC.glob("*.md"))

ANCHOR = r"[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*"
CITATION = re.compile(rf"docs/spec/([a-z-]+)\.md((?:(?:,|,? and| to)?(?:\s+(?:# )?)?#{ANCHOR})*)")

BY_NAME = re.compile(rf"(?<![\w/.#-])(?:{'|'.join(NAMES)})(?!\.md|[\w/-])", re.IGNORECASE)
BY_NUMBER = re.compile(r"\((?:section )?(\d{1,2}(?:\.\d{1,2})+)(?:, [\d.]+)*[);,]")
BY_LETTER = re.compile(r"(?<![\w#./'\"`-])([A-H]\d{1,2})(?![\w.-]*\w)")


@cache
def anchors(name: str) -> frozenset[str]:
    found, section = set(), ""
    for line in (SPEC / f"{name}.md").read_text().splitlines():
        if heading := re.match(rf"#+ (?:Part )?({ANCHOR})", line):
            section = heading[1]
            found.add(section)
        elif row := re.match(r"(?:\| )?([A-Z]?\d+)(?: \||\. )", line):
            found.add(f"{section}.{row[1]}")
    return frozenset(found)


def unresolved(text: str) -> list[str]:
    """Citations in the text that lead nowhere."""
    found = []
    for name, cited in CITATION.findall(text):
        if name not in NAMES:
            found.append(f"docs/spec/{name}.md")
        else:
            found += [
                f"docs/spec/{name}.md#{one}" for one in re.findall(rf"#({ANCHOR})", cited) if one not in anchors(name)
            ]
    return found


def texts() -> Iterator[Path]:
    here = (path for path in ROOT.iterdir() if path.is_file())
    below = chain.from_iterable((ROOT / folder).rglob("*") for folder in (*PACKAGES, *BESIDE))
    for path in sorted(chain(here, below)):
        if path.suffix in (".md", ".py", ".toml", ".txt") and path.is_file() and path != Path(__file__):
            yield path


def remarks(path: Path) -> Iterator[tuple[int, str]]:
    """Comments and texts in triple quotes, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.string.lstrip("rf").startswith('"""')
        ):
            yield token.start[0], token.string


def test_every_citation_leads_to_a_heading() -> None:
    lost = {str(path.relative_to(ROOT)): found for path in texts() if (found := unresolved(path.read_text()))}
    assert not lost


def test_specifications_are_cited_by_their_path() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        if SPEC not in path.parents
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if BY_NAME.search(line)
    ]
    assert not found, "cite as docs/spec/NAME.md#N"


@pytest.mark.parametrize("package", ["coordinator", "muster", "protocol", "purgatory"])
def test_no_section_is_cited_without_its_page(package: str) -> None:
    numbers = anchors("group-protocol") | anchors("client-balanced-groups")
    letters = anchors("consumer-client") if package == "muster" else frozenset[str]()
    found = [
        f"{path.relative_to(ROOT)}:{number}: {cited}"
        for path in sources(package)
        for number, text in remarks(path)
        for cited in chain(numbers.intersection(BY_NUMBER.findall(text)), letters.intersection(BY_LETTER.findall(text)))
    ]
    assert not found, "cite as docs/spec/NAME.md#N"


def test_a_section_a_part_and_a_row_resolve_and_others_do_not() -> None:
    good = (
        "docs/spec/group-protocol.md#2.1.4, #9.1.5; docs/spec/consumer-client.md#E and #E4.V4, docs/spec/shared-log.md"
    )
    assert unresolved(good) == []
    bad = "docs/spec/group-protocol.md#2.1.4,\n# #2.99 docs/spec/none.md"
    assert unresolved(bad) == ["docs/spec/group-protocol.md#2.99", "docs/spec/none.md"]


def test_the_old_forms_are_found() -> None:
    assert BY_NAME.search("as in " + "group-" + "protocol 2.1.4")
    assert BY_NUMBER.findall("the gate (2.1.5), in 3.3 s (RFC 1122, 4.2)") == ["2.1.5"]
    assert BY_LETTER.findall("a new topic (A7, step 4), docs/spec/consumer-client.md#A9") == ["A7"]
