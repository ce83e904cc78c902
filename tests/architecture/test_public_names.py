"""Nothing that applications import or call is lost, renamed or given another default unnoticed."""

from tests.architecture.public_names import lines
from tests.architecture.tree import ROOT

GOLDEN = ROOT / "tests" / "architecture" / "public_names.txt"


def test_the_names_that_applications_use_are_those_of_the_list() -> None:
    wanted, found = GOLDEN.read_text().splitlines(), list(lines())
    assert [one for one in wanted if one not in found] == [], "lost, or changed"
    assert [one for one in found if one not in wanted] == [], (
        "new: python -m tests.architecture.public_names > tests/architecture/public_names.txt"
    )
