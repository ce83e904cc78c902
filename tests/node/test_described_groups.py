"""DescribeGroups for both kinds of groups."""

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import StartMember
from protocol.messages.groups import OPERATIONS_NOT_REQUESTED, DescribeGroups, JoinGroup, JoinProtocol
from tests.node.node_rig import NodeRig

MEMBERS = {
    "classic": JoinGroup("g", 10_000, "", "consumer", (JoinProtocol("range", b""),), 10_000, "i"),
    "client-balanced": StartMember("g", "c", ("orders",), consume_position="first", session_timeout_ms=10_000),
}


@pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)
def test_who_asks_is_told_what_anybody_may_do_with_a_group(member: Message) -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.ask(1, member)

    def described(**asked: Any) -> Any:
        (reply,) = rig.ask(1, DescribeGroups(("g", "absent"), **asked))
        return reply.groups  # type: ignore[attr-defined]

    there, absent = described(include_authorized_operations=True)
    bits = {number for number in range(32) if there.authorized_operations >> number & 1}
    assert len(there.members) == 1
    assert bits == {3, 6, 8, 10, 11}, "read, delete, describe, describe and alter configs: as Kafka 4.3 without ACLs"
    assert (absent.error_code, absent.authorized_operations) == (ErrorCode.GROUP_ID_NOT_FOUND, OPERATIONS_NOT_REQUESTED)
    assert {one.authorized_operations for one in described()} == {OPERATIONS_NOT_REQUESTED}
