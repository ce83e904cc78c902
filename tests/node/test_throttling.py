"""Clients that use more than their limits: answered, told how long to wait, and not read meanwhile."""

import math
from typing import Any

import pytest

from coordinator.accounts.quotas import Limit
from coordinator.accounts.records import QuotaRecord
from coordinator.config.accounts import Mechanisms
from coordinator.config.keys import RebalanceProtocols
from coordinator.core.held_members import HeldMembers, MemberUse
from coordinator.node.effects import Effect, Pause, Resume
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import StartMember
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.data import Fetch, FetchPartition, FetchTopic, Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.quotas import (
    AlterClientQuotas,
    AlterClientQuotasReply,
    AlteringQuota,
    DescribeClientQuotas,
    DescribeClientQuotasReply,
    DescribedQuota,
    QuotaChange,
    QuotaEntity,
    QuotaFilter,
    QuotaValue,
)
from protocol.record_batch import encode_batch
from tests.accounts.rig import NOW
from tests.node.test_audit_log import AuditRig
from tests.node.test_kafka import NEW, Peer
from tests.node.test_logins import ALL, log_in

BOB = (QuotaEntity("user", "bob"),)
NOBODY_LOGS_IN = Mechanisms()


class ThrottledRig(AuditRig):
    """A node that records which connections are paused, without access rules."""

    def __init__(self, **settings: Any) -> None:
        self.paused: set[int] = set()
        no_rules: dict[str, Any] = {"authorizer_class_name": None, "sasl_enabled_mechanisms": NOBODY_LOGS_IN}
        super().__init__(**{**no_rules, **settings})
        self.make_topic()

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Pause):
            self.paused.add(effect.connection)
        elif isinstance(effect, Resume):
            self.paused.discard(effect.connection)
        else:
            super()._carry_out(effect)

    def limit(self, key: str, rate: float, user: str | None = None) -> None:
        self.node.core.accounts.write([QuotaRecord((("user", user),), {key: rate})], NOW)


def commit(offset: int) -> tuple[Message, int]:
    return OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, offset),)),)), 7


def test_who_commits_too_often_is_answered_told_to_wait_and_not_read_until_then() -> None:
    rig = ThrottledRig()
    rig.limit("commit_rate", 2)
    peer, other = Peer(rig, 1), Peer(rig, 2)
    replies: list[Any] = peer.ask(*(commit(offset) for offset in range(5)))
    rig.wait(0)
    replies += peer.heard()
    assert [one.throttle_time_ms for one in replies] == [0, 0, 500], "the others are not looked at"
    assert rig.paused == {1}
    assert not peer.ask((ListGroups(), 4)), "what comes all the same waits as well"
    assert other.ask((ListGroups(), 4)), "others notice nothing"
    rig.wait(499)
    assert not peer.heard() and rig.paused == {1}
    rig.wait(1)
    (more,) = peer.heard()
    assert more.throttle_time_ms == 500  # type: ignore[attr-defined]
    rig.wait(500)
    assert len(peer.heard()) == 1 and rig.paused == {1}
    rig.wait(500)
    assert len(peer.heard()) == 1 and not rig.paused, "the list, which costs nothing"
    assert rig.node.core.counters["requests_throttled"] == 3


def test_a_member_that_is_throttled_is_not_taken_for_dead() -> None:
    rig = ThrottledRig()
    peer = Peer(rig, 1)
    replies = peer.ask((NEW, 3))
    rig.wait(0)
    (joined,) = [*replies, *peer.heard()]
    assert isinstance(joined, JoinGroupReply)
    who = joined.generation_id, joined.member_id
    peer.ask((SyncGroup("g", *who, assignments=(SyncGroupAssignment(joined.member_id, b"a"),)), 2))
    rig.limit("commit_rate", 0.2)
    for offset in range(3):
        peer.ask(commit(offset))
        rig.wait(0)
    assert rig.paused == {1}
    peer.ask((Heartbeat("g", *who), 3))
    rig.wait(6_000)
    _, group = rig.node.core.find("g")
    assert group is not None and len(group.classic.members) == 1


def test_produced_and_fetched_bytes_are_counted() -> None:
    rig = ThrottledRig()
    batch = encode_batch([(None, b"x" * 1_000)] * 4, timestamp_ms=NOW.wall_ms)
    peer = Peer(rig, 1)
    produce = Produce(acks=1, timeout_ms=1_000, topic_data=(ProduceTopic("orders", (ProducePartition(0, batch),)),))
    fetch = Fetch(topics=(FetchTopic("orders", (FetchPartition(0, 0, 1 << 20),)),), max_wait_ms=0)
    for key, request, version in (("producer_byte_rate", produce, 9), ("consumer_byte_rate", fetch, 11)):
        rig.limit(key, 2_000)
        replies: list[Any] = peer.ask((request, version))
        rig.wait(0)
        replies += peer.heard()
        (reply,) = replies
        expected = math.ceil((len(batch) - 2_000) / 2)
        assert abs(reply.throttle_time_ms - expected) <= 1
        rig.wait(10_000)
        assert not rig.paused


@pytest.mark.parametrize(
    "join",
    [
        NEW,
        ConsumerGroupHeartbeat("c", "m", 0, rebalance_timeout_ms=6_000, subscribed_topic_names=(), topic_partitions=()),
        StartMember("b", "m", ("orders",)),
    ],
)
def test_joins_of_every_kind_are_counted(join: Message) -> None:
    rig = ThrottledRig(group_coordinator_rebalance_protocols=RebalanceProtocols(("classic", "consumer")))
    rig.limit("join_rate", 1)
    rig.connect(1)
    said = [rig.ask(1, join) for _ in range(2)]
    assert rig.node.core.connections[1].throttled_until_ms == 1_000, said
    rig.wait(1_000)
    assert not rig.node.core.connections[1].throttled_until_ms


def test_connections_are_counted_by_user_and_by_address() -> None:
    rig = ThrottledRig(sasl_enabled_mechanisms=ALL)
    rig.limit("connection_creation_rate", 1, "bob")
    for number, user in ((1, "bob"), (2, "alice"), (3, "bob"), (4, "alice")):
        log_in(rig, Peer(rig, number), user=user)
    assert rig.paused == {3}
    rig.node.core.accounts.write([QuotaRecord((("ip", None),), {"connection_creation_rate": 1.0})], NOW)
    for number, host in ((5, "10.0.0.5"), (6, "10.0.0.6"), (7, "10.0.0.5")):
        rig.connect_from(number, host)
    assert rig.paused == {3, 7}
    rig.wait(1_000)
    assert not rig.paused


def test_a_connection_that_is_lost_while_it_is_throttled_leaves_nothing() -> None:
    rig = ThrottledRig()
    rig.limit("join_rate", 1)
    rig.connect(1)
    for _ in range(3):
        rig.ask(1, StartMember("b", "m", ("orders",)))
    rig.node.serving.drop(1)
    rig.wait(20_000)
    assert 1 not in rig.node.core.connections


def test_without_limits_nothing_is_counted() -> None:
    rig = ThrottledRig()
    before = rig.node.serving.handlers
    rig.limit("join_rate", 1)
    assert rig.node.serving.handlers is not before and rig.node.serving.on_reply is not None
    rig.node.core.accounts.write([QuotaRecord((("user", None),), {})], NOW)
    assert rig.node.serving.handlers is before and rig.node.serving.on_reply is None


# ------------------------------------------------------------------------------------------------------ administration


def altered(rig: AuditRig, *ops: QuotaChange, entity: tuple[QuotaEntity, ...] = BOB, **more: bool) -> Any:
    reply = rig.ask_inside(AlterClientQuotas((AlteringQuota(entity, ops),), **more))
    assert isinstance(reply, AlterClientQuotasReply)
    (one,) = reply.entries
    assert one.entity == entity
    return one


def described(rig: AuditRig, *components: QuotaFilter, strict: bool = False) -> Any:
    reply = rig.ask_inside(DescribeClientQuotas(components, strict))
    assert isinstance(reply, DescribeClientQuotasReply)
    return reply


def test_limits_are_set_told_and_removed() -> None:
    rig = ThrottledRig()
    rig.told()
    assert not altered(rig, QuotaChange("join_rate", 5.0), QuotaChange("commit_rate", 9.5)).error_code
    values = (QuotaValue("commit_rate", 9.5), QuotaValue("join_rate", 5.0))
    assert described(rig).entries == (DescribedQuota(BOB, values),)
    (line,) = rig.told()
    assert line["changes"][0] == {"what": "limit of user bob, commit_rate", "before": None, "after": 9.5} or line
    assert not altered(rig, QuotaChange("join_rate", remove=True), validate_only=True).error_code
    assert not altered(rig, QuotaChange("commit_rate", remove=True)).error_code
    assert described(rig).entries == (DescribedQuota(BOB, values[1:]),)
    assert not altered(rig, QuotaChange("join_rate", remove=True)).error_code
    assert described(rig).entries == ()


@pytest.mark.parametrize(
    ("entity", "change"),
    [
        ((), QuotaChange("join_rate", 1.0)),
        (BOB * 2, QuotaChange("join_rate", 1.0)),
        ((*BOB, QuotaEntity("user")), QuotaChange("join_rate", 1.0)),
        (BOB, QuotaChange("request_percentage", 1.0)),
        (BOB, QuotaChange("join_rate", math.nan)),
    ],
)
def test_a_limit_that_cannot_be_is_refused_and_changes_nothing(
    entity: tuple[QuotaEntity, ...], change: QuotaChange
) -> None:
    rig = ThrottledRig()
    refused = altered(rig, QuotaChange("commit_rate", 1.0), change, entity=entity)
    assert refused.error_code is ErrorCode.INVALID_REQUEST and refused.error_message
    assert not rig.node.core.accounts.quotas.limits


def test_limits_are_asked_for_by_name_by_default_and_by_any() -> None:
    rig = ThrottledRig()
    entities: list[tuple[QuotaEntity, ...]] = [
        BOB,
        (QuotaEntity("user"),),
        (QuotaEntity("client-id", "c"), QuotaEntity("user", "bob")),
        (QuotaEntity("ip", "10.0.0.1"),),
    ]
    for entity in entities:
        assert not altered(rig, QuotaChange("connection_creation_rate", 1.0), entity=entity).error_code

    def found(*components: QuotaFilter, strict: bool = False) -> list[int]:
        return [entities.index(one.entity) for one in described(rig, *components, strict=strict).entries]

    assert found() == [0, 1, 2, 3] and found(strict=True) == []
    assert found(QuotaFilter("user", 0, "bob")) == [0, 2]
    assert found(QuotaFilter("user", 0, "bob"), strict=True) == [0]
    assert found(QuotaFilter("user", 1)) == [1]
    assert found(QuotaFilter("user", 2)) == [0, 1, 2]
    assert found(QuotaFilter("user", 2), QuotaFilter("client-id", 2)) == [2]
    for wrong, code in (
        ((QuotaFilter("user", 3),), ErrorCode.INVALID_REQUEST),
        ((QuotaFilter("user", 1, "bob"),), ErrorCode.INVALID_REQUEST),
        ((QuotaFilter("user", 0),), ErrorCode.INVALID_REQUEST),
        ((QuotaFilter("", 1),), ErrorCode.INVALID_REQUEST),
        ((QuotaFilter("group", 1),), ErrorCode.UNSUPPORTED_VERSION),
        ((QuotaFilter("user", 1), QuotaFilter("user", 2)), ErrorCode.INVALID_REQUEST),
        ((QuotaFilter("user", 1), QuotaFilter("ip", 2)), ErrorCode.INVALID_REQUEST),
    ):
        assert described(rig, *wrong).error_code is code


# ---------------------------------------------------------------------------- members, and what they say of themselves

LIMITED = ErrorCode.GROUP_MAX_SIZE_REACHED


def join(group_id: str, member_id: str = "", metadata: bytes = b"x" * 100, **more: Any) -> tuple[Message, int]:
    offer = (JoinProtocol("range", metadata),)
    wanted = JoinGroup(group_id, 60_000, member_id, "consumer", offer, rebalance_timeout_ms=60_000, **more)
    return wanted, 3  # a version without pending ids


def joined(peer: Peer, group_id: str, **more: Any) -> Any:
    (reply,) = peer.ask(join(group_id, **more))
    peer._rig.wait(1_000)  # whoever is refused is not read for so long
    return reply


@pytest.fixture
def rig() -> ThrottledRig:
    return ThrottledRig(group_initial_rebalance_delay_ms=0)


def test_a_user_has_as_many_members_in_all_groups_as_its_limit_says(rig: ThrottledRig) -> None:
    rig.limit("member_count", 2)
    peer = Peer(rig, 1)
    first, second, third = (joined(peer, group_id) for group_id in ("a", "b", "c"))
    assert (first.error_code, second.error_code, third.error_code) == (0, 0, LIMITED)
    assert third.throttle_time_ms == 1_000 and rig.node.core.counters["requests_throttled"] == 1
    assert joined(peer, "a", member_id=first.member_id).error_code == 0, "it is one of the two"
    (left,) = peer.ask((LeaveGroup("a", (LeavingMember(first.member_id),)), 2))
    assert left.error_code == 0  # type: ignore[attr-defined]
    assert joined(peer, "c").error_code == 0, "there is room again"
    assert joined(peer, "d").error_code is LIMITED
    shown = rig.node.core.refusals.list(frozenset({"d"}))
    assert ["member_count=2" in one.detail for one in shown] == [True], "muster doctor says why"


def test_a_static_member_that_comes_back_takes_its_own_place(rig: ThrottledRig) -> None:
    rig.limit("member_count", 1)
    peer = Peer(rig, 1)
    for _ in range(3):
        (reply,) = peer.ask((join("a", group_instance_id="i")[0], 5))
        rig.wait(1_000)
        assert reply.error_code == 0  # type: ignore[attr-defined]
    assert joined(peer, "a").error_code is LIMITED


def test_members_that_were_there_before_the_limit_count(rig: ThrottledRig) -> None:
    peer = Peer(rig, 1)
    first, *others = (joined(peer, group_id) for group_id in ("a", "b", "c"))
    assert not any(one.error_code for one in (first, *others))
    rig.limit("member_count", 3)
    rig.wait(1_000)
    assert joined(peer, "a", member_id=first.member_id).error_code == 0
    assert joined(peer, "d").error_code is LIMITED
    rig.limit("member_count", 4)
    rig.wait(1_000)
    assert joined(peer, "d").error_code == 0


def test_a_limit_of_metadata_bytes_counts_what_members_offer(rig: ThrottledRig) -> None:
    rig.limit("member_metadata_bytes", 250)
    peer = Peer(rig, 1)
    first, second = joined(peer, "a"), joined(peer, "b")
    assert (first.error_code, second.error_code) == (0, 0)
    assert joined(peer, "c").error_code is ErrorCode.MESSAGE_TOO_LARGE
    more = joined(peer, "a", member_id=first.member_id, metadata=b"x" * 160)
    assert more.error_code is ErrorCode.MESSAGE_TOO_LARGE, "of a present member, the difference"
    assert joined(peer, "a", member_id=first.member_id, metadata=b"x" * 10).error_code == 0
    assert joined(peer, "c").error_code == 0


@pytest.mark.parametrize("subscription", [{"subscribed_topic_names": ("orders",)}, {"subscribed_topic_regex": "o.*"}])
def test_a_member_of_a_server_driven_group_counts_and_leaves_room(subscription: dict[str, Any]) -> None:
    rig = ThrottledRig(group_coordinator_rebalance_protocols=RebalanceProtocols(("classic", "consumer")))
    rig.limit("member_count", 1)
    peer = Peer(rig, 1)

    def beat(member_id: str, epoch: int) -> Any:
        own = subscription if epoch == 0 else {}
        wanted = ConsumerGroupHeartbeat("s", member_id, epoch, rebalance_timeout_ms=60_000, topic_partitions=(), **own)
        (reply,) = peer.ask((wanted, 1))
        rig.wait(1_000)
        return reply

    assert [beat("m", 0).error_code, beat("n", 0).error_code] == [0, LIMITED]
    assert beat("m", -1).error_code == 0
    assert beat("n", 0).error_code == 0


def test_members_of_client_balanced_groups_count(rig: ThrottledRig) -> None:
    rig.limit("member_count", 1)
    rig.connect(9)
    (first,) = rig.ask(9, StartMember("cb", "m1", ("orders",)))
    assert not first.error_code  # type: ignore[attr-defined]
    (refused,) = rig.ask(9, StartMember("cb", "m2", ("orders",)))
    assert refused.error_code is LIMITED  # type: ignore[attr-defined]


def test_users_are_counted_apart_and_a_client_id_for_all_users() -> None:
    holdings = HeldMembers({})
    of = {name: Limit(1, (("user", name),)) for name in ("a", "b")}
    one = MemberUse(1, 10)
    assert holdings.admit(of["a"], "User:a", "g", one, is_bytes=False)
    assert holdings.admit(of["b"], "User:b", "g", one, is_bytes=False)
    assert holdings.admit(Limit(1, (("client-id", "c"),)), "User:b", "g", one, is_bytes=False)
    assert not holdings.admit(Limit(5, (("user", "a"),)), "User:a", "g", one, is_bytes=True)
    assert not holdings.look()


def test_groups_that_are_gone_are_forgotten() -> None:
    holdings = HeldMembers({})
    for number in range(20_001):
        assert holdings.admit(Limit(1e9, (("user", "a"),)), "User:a", f"g{number}", MemberUse(1, 0), is_bytes=False)
    assert sum(map(len, holdings._groups.values())) == 1
