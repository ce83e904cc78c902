"""Groups beside a cluster with an authorizer: what a client may do with a group is what its broker says."""

from typing import Any

import pytest

from coordinator.config.keys import UpstreamOffsets
from coordinator.gateway.authorization import Authorization
from coordinator.gateway.gateway import Gateway
from coordinator.gateway.permissions import VALID_MS
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigs,
    AlterConfigsReply,
    AlterConfigsResource,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ReplaceConfigsResource,
    ResourceType,
)
from protocol.messages.groups import (
    DeleteGroups,
    DeleteGroupsReply,
    DescribeGroups,
    DescribeGroupsReply,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    ListGroups,
    ListGroupsReply,
    SyncGroup,
    SyncGroupReply,
)
from protocol.messages.node import FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataReply, MetadataTopic
from tests.upstream.guarded import ALTER_CONFIGS, CONFIGS, DELETE, DESCRIBE, READ, GuardedPair

NONE, REFUSED = ErrorCode.NONE, ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_REFUSED, AWAY = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.COORDINATOR_NOT_AVAILABLE
ALICE, EVE = 1, 2
MINUTE_MS = VALID_MS
JOIN = JoinGroup("pay", 60_000, rebalance_timeout_ms=60_000, protocol_type="consumer",
                 protocols=(JoinProtocol("range", b"x"),))  # fmt: skip
BEAT = Heartbeat("pay", 1, "m")


def guarded(*of_alice: Any, **settings: Any) -> GuardedPair:
    pair = GuardedPair(**{"upstream_offsets": UpstreamOffsets.IGNORE, **settings})
    pair.find()
    pair.ask_broker(CreateTopics((CreatableTopic("wages", 2, 1), CreatableTopic("orders", 2, 1))), 5)
    pair.client(ALICE, *(of_alice or (("pay", READ), ("pay", DELETE), ("wages", READ))))
    pair.client(EVE)
    return pair


def guard_of(pair: GuardedPair) -> Authorization:
    assert isinstance(pair.node, Gateway)
    return pair.node.proxied.authorization


def commit(*topics: str, group: str = "pay") -> OffsetCommit:
    return OffsetCommit(group, tuple(OffsetCommitTopic(one, (OffsetCommitPartition(0, 7),)) for one in topics))


def fetch(*topics: str, group: str = "pay") -> OffsetFetch:
    named = tuple(OffsetFetchTopic(one, (0,)) for one in topics) if topics else None
    return OffsetFetch((OffsetFetchGroup(group, named),))


def code_of(reply: Message) -> ErrorCode:
    """The error, wherever such a reply has it."""
    match reply:
        case OffsetCommitReply():
            return reply.topics[0].partitions[0].error_code
        case OffsetFetchReply():
            return reply.groups[0].error_code
        case DescribeGroupsReply():
            return reply.groups[0].error_code
        case DeleteGroupsReply():
            return reply.results[0].error_code
        case FindCoordinatorReply():
            return reply.coordinators[0].error_code
        case DescribeConfigsReply():
            return reply.results[0].error_code
        case AlterConfigsReply() | IncrementalAlterConfigsReply():
            return reply.responses[0].error_code
        case JoinGroupReply() | SyncGroupReply() | HeartbeatReply() | LeaveGroupReply() | OffsetDeleteReply():
            return reply.error_code
    raise AssertionError(reply)


_GROUP = ResourceType.GROUP
EVERY_API: list[tuple[Message, int, Any, ErrorCode]] = [
    (FindCoordinator(("pay",)), 4, DESCRIBE, NONE),
    (FindCoordinator(("pay",)), 0, DESCRIBE, NONE),
    (JOIN, 3, READ, NONE),
    (SyncGroup("pay", 1, "m"), 3, READ, ErrorCode.UNKNOWN_MEMBER_ID),
    (BEAT, 3, READ, ErrorCode.UNKNOWN_MEMBER_ID),
    (LeaveGroup("pay", (LeavingMember("m"),)), 2, READ, ErrorCode.UNKNOWN_MEMBER_ID),
    (commit("wages"), 8, READ, NONE),
    (commit("wages"), 2, READ, NONE),
    (fetch("wages"), 8, DESCRIBE, NONE),
    (fetch("wages"), 2, DESCRIBE, NONE),
    (OffsetDelete("pay", (OffsetDeleteTopic("wages", (0,)),)), 0, DELETE, NONE),
    (DescribeGroups(("pay",)), 5, DESCRIBE, NONE),
    (DescribeGroups(("pay",)), 0, DESCRIBE, NONE),
    (DeleteGroups(("pay",)), 2, DELETE, NONE),
    (DescribeConfigs((DescribeConfigsResource(_GROUP, "pay"),)), 4, CONFIGS, NONE),
    (
        IncrementalAlterConfigs(
            (AlterConfigsResource(_GROUP, "pay", (AlterableConfig("group.max.size", value="1"),)),)
        ),
        1,
        ALTER_CONFIGS,
        NONE,
    ),
    (AlterConfigs((ReplaceConfigsResource(_GROUP, "pay", ()),)), 2, ALTER_CONFIGS, NONE),
]


@pytest.mark.parametrize("is_coordinator", [False, True])
@pytest.mark.parametrize(("message", "version", "operation", "code"), EVERY_API)
def test_every_api_of_groups_needs_its_operation(
    message: Message, version: int, operation: Any, code: ErrorCode, is_coordinator: bool
) -> None:
    pair = guarded(("pay", operation), ("wages", READ))
    pair.is_coordinator = is_coordinator
    if isinstance(message, OffsetDelete | DeleteGroups):
        pair.client(3, ("pay", READ), ("wages", READ))
        assert code_of(pair.ask(3, commit("wages"), 8)) is NONE
    assert code_of(pair.ask(EVE, message, version)) is REFUSED
    others = {READ, DELETE, CONFIGS, ALTER_CONFIGS} - {operation} if operation is not DESCRIBE else {CONFIGS}
    pair.client(4, ("wages", READ), *(("pay", one) for one in others), ("other", operation))
    assert code_of(pair.ask(4, message, version)) is REFUSED
    assert code_of(pair.ask(ALICE, message, version)) is code


def test_without_an_authorizer_nothing_is_asked() -> None:
    pair = GuardedPair(upstream_offsets=UpstreamOffsets.IGNORE)
    pair.has_authorizer = False
    pair.find()
    pair.client(EVE)
    for message, version, _, _ in EVERY_API:
        assert code_of(pair.ask(EVE, message, version)) is not REFUSED
    assert isinstance(pair.ask(EVE, ListGroups(), 4), ListGroupsReply)
    assert pair.queries == []
    assert pair.broker_received == []


def test_what_is_refused_changes_nothing() -> None:
    pair = guarded()
    assert code_of(pair.ask(ALICE, commit("wages"), 8)) is NONE
    for message, version in ((JOIN, 3), (DeleteGroups(("pay",)), 2), (commit("wages", group="new"), 8)):
        assert code_of(pair.ask(EVE, message, version)) is REFUSED
    assert set(pair.front.node.core.directory) == {"pay"}
    assert not pair.front.node.core.directory["pay"].classic.members


def test_offsets_need_the_topic_too() -> None:
    pair = guarded(("pay", READ), ("pay", DELETE), ("wages", READ), ("seen", DESCRIBE))
    reply = pair.ask(ALICE, commit("wages", "seen", "orders"), 8)
    assert isinstance(reply, OffsetCommitReply)
    assert {topic.name: topic.partitions[0].error_code for topic in reply.topics} == {
        "wages": NONE,
        "seen": TOPIC_REFUSED,
        "orders": TOPIC_REFUSED,
    }
    fetched = pair.ask(ALICE, fetch("wages", "seen", "orders"), 8)
    assert isinstance(fetched, OffsetFetchReply)
    told = {topic.name: topic.partitions[0] for topic in fetched.groups[0].topics}
    assert {name: one.error_code for name, one in told.items()} == {
        "wages": NONE,
        "seen": NONE,
        "orders": TOPIC_REFUSED,
    }
    assert (told["wages"].committed_offset, told["orders"].committed_offset) == (7, -1)
    deleted = pair.ask(
        ALICE, OffsetDelete("pay", (OffsetDeleteTopic("wages", (0,)), OffsetDeleteTopic("seen", (0,)))), 0
    )
    assert isinstance(deleted, OffsetDeleteReply)
    assert [topic.partitions[0].error_code for topic in deleted.topics] == [NONE, TOPIC_REFUSED]


def test_a_request_of_which_nothing_is_permitted_does_not_reach_the_node() -> None:
    pair = guarded(("pay", READ))
    assert code_of(pair.ask(ALICE, commit("wages", "orders"), 8)) is TOPIC_REFUSED
    assert not pair.front.node.core.directory


def test_topics_by_their_ids() -> None:
    pair = guarded(("pay", READ), ("wages", READ))
    told = pair.ask_broker(Metadata((MetadataTopic("wages"), MetadataTopic("orders"))), 12)
    assert isinstance(told, MetadataReply)
    wages, orders = (topic.topic_id for topic in told.topics)
    part = (OffsetCommitPartition(0, 7),)
    ids = (wages, orders, b"n" * 16)
    reply = pair.ask(ALICE, OffsetCommit("pay", tuple(OffsetCommitTopic("", part, one) for one in ids)), 10)
    assert isinstance(reply, OffsetCommitReply)
    assert {topic.topic_id: topic.partitions[0].error_code for topic in reply.topics} == {
        wages: NONE,
        orders: TOPIC_REFUSED,
        b"n" * 16: ErrorCode.UNKNOWN_TOPIC_ID,
    }
    named = tuple(OffsetFetchTopic("", (0,), one) for one in ids)
    fetched = pair.ask(ALICE, OffsetFetch((OffsetFetchGroup("pay", named, wants_topic_ids=True),)), 10)
    assert isinstance(fetched, OffsetFetchReply)
    codes = {topic.topic_id: topic.partitions[0].error_code for topic in fetched.groups[0].topics}
    assert codes == {wages: NONE, orders: TOPIC_REFUSED, b"n" * 16: ErrorCode.UNKNOWN_TOPIC_ID}


def test_a_topic_that_the_broker_does_not_know_yet_is_asked_for_again() -> None:
    pair = guarded(("pay", READ), ("late", READ))
    told = pair.ask_broker(CreateTopics((CreatableTopic("late", 1, 1),)), 5)
    told = pair.ask_broker(Metadata((MetadataTopic("late"),)), 12)
    assert isinstance(told, MetadataReply)
    late = told.topics[0].topic_id
    message = OffsetCommit("pay", (OffsetCommitTopic("", (OffsetCommitPartition(0, 7),), late),))
    known, pair._topics = pair._topics, lambda: ()  # type: ignore[method-assign]
    assert code_of(pair.ask(ALICE, message, 10)) is ErrorCode.UNKNOWN_TOPIC_ID
    pair._topics = known  # type: ignore[method-assign]
    assert code_of(pair.ask(ALICE, message, 10)) is NONE


def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_described() -> None:
    pair = guarded(("pay", READ), ("wages", READ), ("orders", READ))
    assert code_of(pair.ask(ALICE, commit("wages", "orders"), 8)) is NONE
    pair.client(3, ("pay", DESCRIBE), ("orders", DESCRIBE))
    for version in (2, 5, 8):
        reply = pair.ask(3, fetch(), version)
        assert isinstance(reply, OffsetFetchReply)
        assert [topic.name for topic in reply.groups[0].topics] == ["orders"]


def test_several_groups_in_one_request() -> None:
    pair = guarded(("a", READ), ("b", READ), ("a", DELETE), ("wages", READ))
    for group in ("a", "b"):
        pair.ask(ALICE, commit("wages", group=group), 8)
    found = pair.ask(ALICE, FindCoordinator(("a", "x", "b")), 4)
    assert isinstance(found, FindCoordinatorReply)
    assert {one.key: one.error_code for one in found.coordinators} == {"a": NONE, "b": NONE, "x": REFUSED}
    described = pair.ask(ALICE, DescribeGroups(("x", "a")), 5)
    assert isinstance(described, DescribeGroupsReply)
    assert {one.group_id: (one.error_code, one.group_state) for one in described.groups} == {
        "a": (NONE, "Empty"),
        "x": (REFUSED, ""),
    }
    topics = (OffsetFetchTopic("wages", (0,)), OffsetFetchTopic("orders", (0,)))
    fetched = pair.ask(ALICE, OffsetFetch(tuple(OffsetFetchGroup(one, topics) for one in ("x", "a"))), 8)
    assert isinstance(fetched, OffsetFetchReply)
    told = {one.group_id: one for one in fetched.groups}
    assert (told["x"].error_code, told["a"].error_code) == (REFUSED, NONE)
    assert [one.partitions[0].error_code for one in told["a"].topics] == [NONE, TOPIC_REFUSED]
    deleted = pair.ask(ALICE, DeleteGroups(("a", "b")), 2)
    assert isinstance(deleted, DeleteGroupsReply)
    assert {one.group_id: one.error_code for one in deleted.results} == {"a": NONE, "b": REFUSED}
    assert set(pair.front.node.core.directory) == {"b"}


def test_the_list_has_groups_that_may_be_described() -> None:
    many = [f"g{number}" for number in range(450)]
    pair = guarded(("wages", READ), *((group, READ) for group in many), max_requests_per_connection=10)
    for group in many:
        pair.ask(ALICE, commit("wages", group=group), 8)
    pair.queries.clear()
    pair.client(3, *((group, DESCRIBE) for group in many[::2]))
    pair.client(4, ("cluster", DESCRIBE))
    assert _listed(pair, EVE) == set()
    assert _listed(pair, 3) == set(many[::2])
    asked = len(pair.queries)
    assert _listed(pair, 4) == set(many)
    assert len(pair.queries) == asked + 1, "who may describe the cluster lists them all"


def _listed(pair: GuardedPair, number: int) -> set[str]:
    reply = pair.ask(number, ListGroups(), 4)
    assert isinstance(reply, ListGroupsReply)
    assert reply.error_code is NONE
    return {group.group_id for group in reply.groups}


def test_more_groups_than_may_be_asked_for_at_once() -> None:
    many = [f"g{number}" for number in range(100)]
    pair = guarded(("wages", READ), *((group, READ) for group in many), *((group, DELETE) for group in many[::2]))
    for group in many:
        pair.ask(ALICE, commit("wages", group=group), 8)
    reply = pair.ask(ALICE, DeleteGroups(tuple(many)), 2)
    assert isinstance(reply, DeleteGroupsReply)
    assert {one.group_id for one in reply.results if not one.error_code} == set(many[::2])
    assert set(pair.front.node.core.directory) == set(many[1::2])


def test_operations_that_are_told_are_the_clients_own() -> None:
    pair = guarded(("pay", READ), ("pay", CONFIGS))
    reply = pair.ask(ALICE, DescribeGroups(("pay",), include_authorized_operations=True), 5)
    assert isinstance(reply, DescribeGroupsReply)
    assert reply.groups[0].authorized_operations == 1 << READ | 1 << DESCRIBE | 1 << CONFIGS


# -------------------------------------------------------------------------------------------------------- for a minute


def test_an_answer_is_believed_for_a_minute() -> None:
    pair = guarded()
    pair.ask(ALICE, BEAT, 3)
    pair.rights[ALICE].clear()
    pair.wait(MINUTE_MS - 1)
    assert code_of(pair.ask(ALICE, BEAT, 3)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(pair.queries) == 1
    pair.wait(1)
    assert code_of(pair.ask(ALICE, BEAT, 3)) is REFUSED
    pair.rights[ALICE].add(("pay", READ))
    pair.wait(MINUTE_MS)
    assert code_of(pair.ask(ALICE, BEAT, 3)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(pair.queries) == 3


def test_each_connection_has_its_own_answers() -> None:
    pair = guarded()
    assert code_of(pair.ask(ALICE, BEAT, 3)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(pair.ask(EVE, BEAT, 3)) is REFUSED


def test_an_authorizer_that_comes_and_goes() -> None:
    pair = guarded()
    pair.has_authorizer = False
    pair.find()
    assert code_of(pair.ask(EVE, BEAT, 3)) is ErrorCode.UNKNOWN_MEMBER_ID
    pair.has_authorizer = True
    pair.find()
    assert code_of(pair.ask(EVE, BEAT, 3)) is REFUSED


# ------------------------------------------------------------------------------------------ brokers that do not answer


def test_while_the_broker_says_nothing_the_last_answer_holds() -> None:
    pair = guarded()
    pair.ask(ALICE, BEAT, 3)
    pair.ask(EVE, BEAT, 3)
    pair.wait(MINUTE_MS)
    pair.ignores_queries = True
    pair.send(ALICE, BEAT, 3)
    pair.send(EVE, BEAT, 3)
    pair.run()
    assert not pair.heard[ALICE], "it waits for its broker"
    pair.wait(6_000)
    assert [code_of(reply) for reply in pair.heard[ALICE]] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert [code_of(reply) for reply in pair.heard[EVE]] == [REFUSED]
    asked = len(pair.queries)
    pair.heard[ALICE].clear()
    assert code_of(pair.ask(ALICE, BEAT, 3)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(pair.queries) == asked, "nobody waits behind an answer that is overdue"


def test_a_group_of_which_the_broker_has_said_nothing_is_not_available() -> None:
    pair = guarded()
    pair.ignores_queries = True
    for number, (message, version) in enumerate(((BEAT, 3), (commit("wages"), 8), (ListGroups(), 4)), 10):
        pair.client(number, ("pay", READ), ("wages", READ))
        pair.send(number, message, version)
        pair.wait(6_000)
        (reply,) = pair.heard[number]
        assert (reply.error_code if isinstance(reply, ListGroupsReply) else code_of(reply)) is AWAY
    pair.client(20, ("pay", READ))
    pair.send(20, fetch("wages"), 8)
    pair.wait(6_000)
    assert code_of(pair.heard[20][0]) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not pair.front.node.core.directory


def test_an_answer_that_comes_late_counts() -> None:
    pair = guarded()
    pair.holds_replies = True
    pair.send(ALICE, BEAT, 3)
    pair.wait(6_000)
    assert code_of(pair.heard[ALICE].pop()) is AWAY
    pair.release()
    assert code_of(pair.ask(ALICE, BEAT, 3)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(pair.queries) == 1


def test_while_no_broker_can_be_reached_nobody_is_asked() -> None:
    pair = guarded()
    pair.ask(ALICE, BEAT, 3)
    pair.wait(MINUTE_MS)
    pair.away()
    assert code_of(pair.ask(ALICE, BEAT, 3)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(pair.ask(EVE, BEAT, 3)) is AWAY
    assert len(pair.queries) == 1
    pair.find()
    assert code_of(pair.ask(EVE, BEAT, 3)) is REFUSED


def test_who_waits_when_the_cluster_goes_away_waits_no_longer() -> None:
    pair = guarded()
    pair.ignores_queries = True
    pair.send(ALICE, BEAT, 3)
    pair.run()
    pair.away()
    pair.run()
    assert code_of(pair.heard[ALICE].pop()) is AWAY


def test_a_broker_that_is_lost_with_a_question_fails_the_question_alone() -> None:
    pair = guarded()
    pair.is_cut = True
    assert code_of(pair.ask(ALICE, BEAT, 3)) is AWAY
    assert pair.closed == {}
    pair.is_cut = False
    assert code_of(pair.ask(ALICE, BEAT, 3)) is AWAY, "not asked again within a second"
    pair.wait(1_000)
    assert code_of(pair.ask(ALICE, BEAT, 3)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_connection_that_is_lost_with_a_question_leaves_nothing() -> None:
    pair = guarded()
    pair.holds_replies = True
    pair.send(ALICE, BEAT, 3)
    pair.run()
    pair.lose(ALICE)
    pair.wait(10_000)
    guard = guard_of(pair)
    assert not guard.clients
    assert not guard._waiting


def test_what_the_broker_does_not_speak_is_refused() -> None:
    pair = guarded()
    pair.without = (12, 44, 47)
    pair.find()
    pair.client(3, ("pay", READ), ("pay", DELETE), ("pay", ALTER_CONFIGS), ("wages", READ))
    for message, version, operation, _ in EVERY_API:
        if operation in (READ, DELETE, ALTER_CONFIGS):
            assert code_of(pair.ask(3, message, version)) is REFUSED


# ----------------------------------------------------------------------------------------------------------- the order


def test_answers_leave_in_the_order_of_the_requests() -> None:
    pair = guarded()
    pair.holds_replies = True
    pair.send(ALICE, Metadata((MetadataTopic("wages"),)), 9)
    pair.send(ALICE, BEAT, 3)
    pair.send(ALICE, Metadata((MetadataTopic("orders"),)), 9)
    pair.send(ALICE, commit("orders"), 8)
    pair.send(ALICE, BEAT, 3)
    pair.run()
    assert [type(reply) for reply in pair.heard[ALICE]] == [MetadataReply]
    pair.release()
    kinds = [MetadataReply, HeartbeatReply, MetadataReply, OffsetCommitReply, HeartbeatReply]
    assert [type(reply) for reply in pair.heard[ALICE]] == kinds
    assert code_of(pair.heard[ALICE][3]) is TOPIC_REFUSED


def test_with_an_answer_overdue_the_broker_is_still_asked_in_order() -> None:
    pair = guarded()
    pair.holds_replies = True
    pair.send(ALICE, BEAT, 3)
    pair.wait(6_000)
    pair.send(ALICE, Metadata((MetadataTopic("wages"),)), 9)
    pair.send(ALICE, BEAT, 3)
    late, pair.late = pair.late, []
    pair.to_front += late  # the broker answers what it was asked first
    pair.holds_replies = False
    pair.run()
    assert [type(reply) for reply in pair.heard[ALICE]] == [HeartbeatReply, MetadataReply, HeartbeatReply]
    assert [code_of(reply) for reply in pair.heard[ALICE][::2]] == [AWAY, ErrorCode.UNKNOWN_MEMBER_ID]


def test_who_is_in_front_of_no_broker_is_not_asked() -> None:
    pair = guarded()
    pair.connect_natively(9)
    assert code_of(pair.ask_natively(9, commit("wages"))) is NONE
    listed = pair.ask_inside(ListGroups())
    assert isinstance(listed, ListGroupsReply)
    assert [group.group_id for group in listed.groups] == ["pay"]
    assert pair.queries == []


def test_permissions_that_are_kept_are_bounded() -> None:
    pair = guarded(max_entries_per_request=100_000)
    groups = tuple(f"g{number}" for number in range(10_001))
    assert code_of(pair.ask(EVE, DescribeGroups(groups), 5)) is REFUSED
    assert len(guard_of(pair).clients[EVE].cache._known) < 10_000
