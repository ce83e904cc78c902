"""One JoinGroup and one expiry touch no more files and functions than docs/architecture.md says."""

import re

import pytest

from tests import builds
from tests.architecture.touched import COORDINATOR, Touched, TwoMembers, touched
from tests.architecture.tree import ROOT

PRINTED = re.findall(r"touches (\d+) files and (\d+) functions", (ROOT / "docs" / "architecture.md").read_text())
pytestmark = pytest.mark.skipif(builds.is_compiled(), reason="a profile does not see compiled functions")


def test_a_join_and_an_expiry_touch_no_more_than_the_page_says() -> None:
    join, expiry = (Touched(int(files), int(functions)) for files, functions in PRINTED)
    seen = TwoMembers().join().within(*COORDINATOR), TwoMembers().expire().within(*COORDINATOR)
    for now, most in zip(seen, (join, expiry), strict=True):
        assert now.files <= most.files and now.functions <= most.functions, (
            f"{now} is more than {most} of docs/architecture.md: `python -m tests.architecture.touched` lists them"
        )


def test_only_functions_of_the_repository_are_counted() -> None:
    seen = touched(lambda: (re.escape("."), builds.is_compiled(), COORDINATOR))
    assert dict(seen) == {}
    assert TwoMembers().join()["coordinator/handlers/join_group.py"][-2:] == ["admit_join", "join_group"]
