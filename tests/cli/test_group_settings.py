"""`muster groups alter`, `pin` and `unpin`."""

import pytest

from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode


def test_settings_of_a_group_are_changed_and_reset(shell: Shell, node: FakeNode) -> None:
    said = shell.lines(
        "groups", "alter", "billing", "--config", "group.offsets.backward=rejected", "--reset", "group.offsets.pinned"
    )

    assert said == ["Changed 2 settings of group billing."]
    assert node.group_configs == {"billing": {"group.offsets.backward": "rejected", "group.offsets.pinned": None}}


def test_offsets_are_pinned_and_unpinned(shell: Shell, node: FakeNode) -> None:
    assert shell.lines("groups", "pin", "billing") == ["Offsets of billing do not expire."]
    assert node.group_configs == {"billing": {"group.offsets.pinned": "true"}}
    assert "muster offsets expiring" in shell.lines("groups", "unpin", "billing")[0]
    assert node.group_configs == {"billing": {"group.offsets.pinned": None}}


def test_a_key_that_is_none_is_refused(shell: Shell) -> None:
    assert "no retention" in shell.complaint("groups", "alter", "billing", "--config", "retention=1", code=4)


def test_a_reset_of_what_is_no_setting_is_refused_with_those_that_are(shell: Shell, node: FakeNode) -> None:
    resets = ("--reset", "group.offsets.pinned", "--reset", "group.offsets.pined")

    said = shell.complaint("groups", "alter", "billing", *resets, code=4)

    valid = "there are group.offsets.backward, group.offsets.pinned"
    assert f"group 'billing': group.offsets.pined is no setting of a group; {valid}" in " ".join(said.split())
    assert node.group_configs == {}, "nothing was changed"


def test_a_node_that_does_not_tell_its_settings_decides_what_may_be_reset(shell: Shell, node: FakeNode) -> None:
    node.group_settings = ()

    said = shell.lines("groups", "alter", "billing", "--reset", "group.some.other")

    assert said == ["Changed 1 setting of group billing."]
    assert node.group_configs == {"billing": {"group.some.other": None}}


@pytest.mark.parametrize("arguments", [(), ("--config", "group.offsets.backward")])
def test_a_change_must_be_said(shell: Shell, arguments: tuple[str, ...]) -> None:
    assert "KEY=VALUE" in shell.complaint("groups", "alter", "billing", *arguments, code=2)
