from collections.abc import Callable

import pytest

from pyspark_muster import member, reader
from pyspark_muster.control import Finished
from pyspark_muster.reporting import Reporter
from tests.spark.fake_group import FakeGroup, FakeMember

GroupOf = Callable[[FakeGroup], FakeGroup]


class NoKeeper:
    """Stands in for the keeper's thread: tests call `attend` themselves."""

    path = "control"

    def __init__(self, attend: Callable[[Finished | None], None]) -> None:
        self.attend = attend

    def start(self) -> None:
        """Start no thread."""

    stop = start


class NoReporter(Reporter):
    """Reports nothing; tests set what an operator requests."""

    def start(self) -> None:
        """Send no request."""


@pytest.fixture
def use_group(monkeypatch: pytest.MonkeyPatch) -> GroupOf:
    """Make readers join this group."""
    monkeypatch.setattr(reader, "_leave_on_sigterm", lambda: None)
    monkeypatch.setattr(reader, "IDLE_WAIT_S", 0.0)

    def use(group: FakeGroup) -> FakeGroup:
        monkeypatch.setattr(reader, "Keeper", NoKeeper)
        monkeypatch.setattr(reader, "Reporter", NoReporter)
        monkeypatch.setattr(member, "GroupMember", type("Member", (FakeMember,), {"group": group}))
        return group

    return use


@pytest.fixture
def group(use_group: GroupOf) -> FakeGroup:
    return use_group(FakeGroup())
