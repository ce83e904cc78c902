"""Members and their principals: ids that were stolen are of no use to others."""

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListRefusals,
    SyncGroup,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.node.test_kafka import Peer
from tests.node.test_logins import LoginDesk, log_in

UNKNOWN, FENCED = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
ALICE, BOB, ALICE_TOO = 1, 2, 3


def join(member_id: str = "", instance_id: str | None = None) -> JoinGroup:
    return JoinGroup("g", 6_000, member_id=member_id, group_instance_id=instance_id, rebalance_timeout_ms=6_000,
                     protocol_type="consumer", protocols=(JoinProtocol("range", b"x"),))  # fmt: skip


class Stage:
    """Alice is a member, and static; Bob has come in too, and so has she again."""

    def __init__(self, **settings: Any) -> None:
        self.desk = LoginDesk(**settings)
        self.peers = {number: Peer(self.desk, number) for number in (ALICE, BOB, ALICE_TOO)}
        for number, peer in self.peers.items():
            log_in(self.desk, peer, user="bob" if number == BOB else "alice")
        self.member = self.ask(ALICE, join(instance_id="one"), 5)
        assert isinstance(self.member, JoinGroupReply) and not self.member.error_code

    def ask(self, who: int, message: Message, version: int) -> Any:
        replies = self.peers[who].ask((message, version))
        self.desk.wait(0)
        (reply,) = replies or self.peers[who].heard()
        return reply

    def requests(self, instance_id: str | None) -> list[tuple[Message, int]]:
        member_id, generation = self.member.member_id, self.member.generation_id
        commit = (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 1),)),)
        return [
            (Heartbeat("g", generation, member_id, instance_id), 4),
            (SyncGroup("g", generation, member_id, instance_id), 3),
            (OffsetCommit("g", commit, generation, member_id, instance_id), 7),
            (join(member_id, instance_id), 5),
            (LeaveGroup("g", (LeavingMember(member_id, instance_id),)), 4),
        ]


def code_of(reply: Any) -> ErrorCode:
    topics = getattr(reply, "topics", ())
    code: ErrorCode = topics[0].partitions[0].error_code if topics else reply.error_code
    return code


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize(("instance_id", "code"), [("one", FENCED), (None, UNKNOWN)])
def test_another_principal_cannot_use_a_member_and_its_owner_can(
    place: int, instance_id: str | None, code: ErrorCode
) -> None:
    stage = Stage()
    message, version = stage.requests(instance_id)[place]
    assert code_of(stage.ask(BOB, message, version)) is code
    (told,) = stage.desk.ask_inside(ListRefusals(("g",))).refusals  # type: ignore[union-attr]
    assert (told.principal, told.error_code) == ("User:bob", code)
    _, group = stage.desk.node.core.find("g")
    classic = None if group is None else group.classic
    assert classic is not None and stage.member.member_id in classic.members
    assert code_of(stage.ask(ALICE_TOO, message, version)) not in (UNKNOWN, FENCED)


def test_another_principal_cannot_take_over_an_instance_id() -> None:
    stage = Stage()
    assert stage.ask(BOB, join(instance_id="one"), 5).error_code is FENCED
    assert not stage.ask(ALICE_TOO, join(instance_id="one"), 5).error_code
