"""The bounds of what a node keeps count every wait that its groups account for, and no more."""

from unittest.mock import NonCallableMock

import pytest

from coordinator.node.node import Node
from protocol.messages.balanced import StartMember
from tests.node.node_rig import NodeRig
from tests.simulation.bounds import compare_sizes
from tests.simulation.errors import Broken
from tests.simulation.network import Link

_MEMBERS = 40


def _compare(node: Node) -> None:
    compare_sizes(node, {number: NonCallableMock(Link) for number in node.core.connections})


def test_a_lease_of_each_client_balanced_member_is_accounted_for() -> None:
    rig = NodeRig()
    rig.make_topic("orders")
    rig.connect(1)
    for number in range(_MEMBERS):
        rig.ask(1, StartMember("g", f"c-{number}", ("orders",), consume_position="first", session_timeout_ms=10_000))
    assert rig.node.core.purgatory.by_kind["lease"] == _MEMBERS
    _compare(rig.node)
    rig.node.core.directory["g"].as_balanced().members.clear()
    with pytest.raises(Broken, match="watched operations"):
        _compare(rig.node)
