"""Members and their principals: ids that were stolen are of no use to others."""

from typing import Any

import pytest

from coordinator.accounts.records import AclRecord
from coordinator.handlers.table import HANDLERS, INTERNAL_HANDLERS
from coordinator.node.member_ownership import MemberOwnership
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import (
    ConfirmConsumed,
    FetchRegistered,
    LeaveMember,
    MemberHeartbeat,
    PartitionMeta,
    RegisterPartitions,
    StartMember,
    UnregisterPartitions,
)
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
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
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitTopic,
)
from protocol.messages.reports import DrainedMember, DrainMembers, DrainMembersReply
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.session import RequestRef
from tests.accounts.rig import NOW
from tests.node.test_access_rules import GROUP, OP, TOPIC, rule
from tests.node.test_audit_log import ROOT, AuditRig
from tests.node.test_kafka import Peer
from tests.node.test_logins import LoginRig, log_in
from tests.node.test_native_logins import log_in_natively

UNKNOWN, FENCED = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
ALICE, BOB, ALICE_TOO = 1, 2, 3


def join(member_id: str = "", instance_id: str | None = None) -> JoinGroup:
    return JoinGroup("g", 6_000, member_id=member_id, group_instance_id=instance_id, rebalance_timeout_ms=6_000,
                     protocol_type="consumer", protocols=(JoinProtocol("range", b"x"),))  # fmt: skip


class OwnershipRig:
    """Alice is a member, and static; Bob has come in too, and so has she again."""

    def __init__(self, **settings: Any) -> None:
        self.node_rig = LoginRig(**settings)
        self.peers = {number: Peer(self.node_rig, number) for number in (ALICE, BOB, ALICE_TOO)}
        for number, peer in self.peers.items():
            log_in(self.node_rig, peer, user="bob" if number == BOB else "alice")
        self.member = self.ask(ALICE, join(instance_id="one"), 5)
        assert isinstance(self.member, JoinGroupReply) and not self.member.error_code

    def ask(self, who: int, message: Message, version: int) -> Any:
        replies = self.peers[who].ask((message, version))
        self.node_rig.wait(0)
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
    rig = OwnershipRig()
    message, version = rig.requests(instance_id)[place]
    assert code_of(rig.ask(BOB, message, version)) is code
    (told,) = rig.node_rig.ask_inside(ListRefusals(("g",))).refusals  # type: ignore[union-attr]
    assert (told.principal, told.error_code) == ("User:bob", code)
    _, group = rig.node_rig.node.core.find("g")
    classic = None if group is None else group.classic
    assert classic is not None and rig.member.member_id in classic.members
    assert code_of(rig.ask(ALICE_TOO, message, version)) not in (UNKNOWN, FENCED)


def test_a_transactional_producer_may_be_of_another_principal_than_the_member() -> None:
    """Serve it as Kafka does: the producer needs READ on the group, and could commit without naming a member."""
    rig = OwnershipRig()
    rig.node_rig.make_topic("orders")
    core, moment = rig.node_rig.node.core, rig.node_rig._moment()
    handlers = MemberOwnership(core).guarded({**HANDLERS, **INTERNAL_HANDLERS})
    topics = (TxnOffsetCommitTopic("orders", (TxnOffsetCommitPartition(0, 1),)),)
    member_id, generation = rig.member.member_id, rig.member.generation_id
    commit = TxnOffsetCommit("x", "g", 7, 0, topics, generation, member_id)
    handlers[TxnOffsetCommit](core, RequestRef(BOB, 99, TxnOffsetCommit), commit, moment)
    assert all(not isinstance(reply, ErrorReply) for _ref, reply in core.outbox.ready)


def test_a_heartbeat_for_a_member_that_had_no_owner_is_refused_once_it_has_one() -> None:
    """After a start members have no owners, and any principal with the right is answered, again and again."""
    rig = OwnershipRig()
    sync, version = rig.requests(None)[1]
    assert not code_of(rig.ask(ALICE, sync, version))
    rig.node_rig.disk.crash()
    rig.node_rig = LoginRig(disk=rig.node_rig.disk)
    rig.peers = {number: Peer(rig.node_rig, number) for number in (ALICE, BOB)}
    for number, peer in rig.peers.items():
        log_in(rig.node_rig, peer, user="bob" if number == BOB else "alice")
    beat = rig.requests(None)[0]
    for _ in range(3):
        assert code_of(rig.ask(BOB, *beat)) is ErrorCode.NONE
    assert not rig.ask(ALICE, join(rig.member.member_id, "one"), 5).error_code
    assert code_of(rig.ask(BOB, *beat)) is UNKNOWN


def test_another_principal_cannot_take_over_an_instance_id() -> None:
    rig = OwnershipRig()
    assert rig.ask(BOB, join(instance_id="one"), 5).error_code is FENCED
    assert not rig.ask(ALICE_TOO, join(instance_id="one"), 5).error_code


def test_another_principal_cannot_drain_a_member() -> None:
    rig = OwnershipRig()
    drain = DrainMembers("g", (rig.member.member_id,))
    for number, user in ((8, "bob"), (9, "alice")):
        rig.node_rig.connect(number)
        log_in_natively(rig.node_rig, number, user=user)
    (refused,), (served,) = rig.node_rig.ask(8, drain), rig.node_rig.ask(9, drain)
    assert code_of(refused) is UNKNOWN
    assert served == DrainMembersReply(members=(DrainedMember(drain.member_ids[0], ErrorCode.UNSUPPORTED_VERSION),))


def test_who_may_delete_a_group_removes_members_of_others() -> None:
    node_rig = AuditRig(group_initial_rebalance_delay_ms=0)
    everybody = [
        rule(GROUP, OP.READ, "*")._replace(principal="User:*"),
        rule(GROUP, OP.DELETE, "g")._replace(principal="User:bob"),
    ]
    node_rig.node.core.accounts.write([AclRecord(one, is_there=True) for one in everybody], NOW)
    peers = {user: Peer(node_rig, number) for number, user in enumerate(("alice", "bob"), 1)}
    for user in ("alice", "bob"):
        log_in(node_rig, peers[user], user=user)
    node_rig.wait(0)
    (member,) = peers["alice"].ask((join(instance_id="one"), 5))
    assert isinstance(member, JoinGroupReply) and not member.error_code
    leave = LeaveGroup("g", (LeavingMember(member.member_id, "one"),)), 4
    beat = Heartbeat("g", member.generation_id, member.member_id), 4
    (refused,) = peers["bob"].ask(beat)
    assert code_of(refused) is UNKNOWN, "it does not become the member"
    node_rig.connect(9)
    log_in_natively(node_rig, 9, user="bob")
    (drained,) = node_rig.ask(9, DrainMembers("g", (member.member_id,)))
    assert not code_of(drained)
    (left,) = peers["bob"].ask(leave)
    assert not code_of(left) and not left.members[0].error_code  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["consumer", "balanced"])
def test_members_of_the_other_kinds_of_groups_are_their_principals_as_well(kind: str) -> None:
    node_rig = AuditRig()
    node_rig.ask_as(ROOT, CreateTopics((CreatableTopic("orders", 2),)))
    everybody = [rule(resource, OP.READ, "*")._replace(principal="User:*") for resource in (GROUP, TOPIC)]
    node_rig.node.core.accounts.write([AclRecord(one, is_there=True) for one in everybody], NOW)
    peers = {number: Peer(node_rig, number) for number in (ALICE, BOB, ALICE_TOO)} if kind == "consumer" else {}
    for number in (ALICE, BOB, ALICE_TOO):
        user = "bob" if number == BOB else "alice"
        if peers:
            log_in(node_rig, peers[number], user=user)
        else:
            node_rig.connect(number)
            log_in_natively(node_rig, number, user=user)

    def ask(who: int, message: Message) -> Any:
        (reply,) = peers[who].ask((message, 1)) if peers else node_rig.ask(who, message)
        return reply

    def enter(member_id: str, instance_id: str | None) -> Message:
        if peers:
            return ConsumerGroupHeartbeat(
                "g", member_id, 0, instance_id, None, 60_000, ("orders",), topic_partitions=()
            )
        return StartMember("g", member_id, ("orders",), instance_id=instance_id)

    def requests(epoch: int) -> list[Message]:
        if peers:
            return [ConsumerGroupHeartbeat("g", "m", number) for number in (epoch, -2, -1)]
        return [
            MemberHeartbeat("g", "m", epoch),
            PartitionMeta("g", "m", epoch),
            RegisterPartitions("g", "m", epoch, ()),
            UnregisterPartitions("g", "m", epoch, ()),
            FetchRegistered("g", "m", epoch, ()),
            ConfirmConsumed("g", "m", epoch, ()),
            LeaveMember("g", "m", epoch),
        ]

    entered = ask(ALICE, enter("m", "one"))
    assert not entered.error_code, entered
    node_rig.told()
    assert ask(BOB, enter("n", "one")).error_code is FENCED
    assert ask(BOB, enter("m", None)).error_code is UNKNOWN
    for message in requests(entered.member_epoch):
        assert ask(BOB, message).error_code is UNKNOWN, message
    lines = node_rig.told()
    assert {(one["event"], one["principal"], one["lacked"]) for one in lines} == {
        ("refused", "User:bob", "ownership of a member of group g")
    }
    told = node_rig.ask_as(ROOT, ListRefusals(("g",))).refusals
    assert {one.principal for one in told} == {"User:bob"}
    assert ask(ALICE_TOO, requests(entered.member_epoch)[0]).error_code is ErrorCode.NONE
    again = ask(ALICE_TOO, enter("m", None if peers else "one"))
    assert again.error_code is ErrorCode.NONE
    assert ask(ALICE, requests(again.member_epoch)[-1]).error_code is ErrorCode.NONE
