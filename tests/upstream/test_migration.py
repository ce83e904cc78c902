"""A group that comes here for the first time goes on where it was at the cluster, unless somebody is still there."""

from typing import Any

import pytest

from coordinator.config.keys import UpstreamOffsets
from coordinator.gateway.migration import GroupRequest
from coordinator.gateway.migration_lookup import (
    ActiveMembers,
    ClusterOffsets,
    LookupFailed,
    LookupStage,
    MigrationLookup,
    NextRequests,
    NoOffsets,
    continue_lookup,
    start_lookup,
)
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    DeleteGroups,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListedGroup,
    ListGroupsReply,
    ListNotes,
    ListNotesReply,
    SyncGroup,
)
from protocol.messages.node import FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopic,
    OffsetFetchTopicReply,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataReply, MetadataTopicReply
from tests.upstream.pair import Pair

JOIN = JoinGroup(
    "g", 6_000, rebalance_timeout_ms=6_000, protocol_type="consumer", protocols=(JoinProtocol("range", b"x"),)
)
COMMIT = OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(1, 42, 3, "note"),)),))
FETCH = OffsetFetch((OffsetFetchGroup("g", (OffsetFetchTopic("orders", (0, 1)),)),))


MEETING: tuple[GroupRequest, ...] = (JOIN, COMMIT, FETCH)


def paired(*, has_offsets: bool = True, **settings: Any) -> Pair:
    pair = Pair(**settings)
    pair.find()
    pair.connect(1)
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 2, 1),)), 5)
    if has_offsets:
        pair.ask_broker(COMMIT, 8)
    return pair


def offsets(pair: Pair, number: int = 1) -> list[int]:
    reply = pair.ask(number, FETCH, 8)
    assert isinstance(reply, OffsetFetchReply)
    return [part.committed_offset for part in reply.groups[0].topics[0].partitions]


def inside(pair: Pair) -> list[int]:
    reply = pair.ask_inside(FETCH)
    assert isinstance(reply, OffsetFetchReply)
    return [part.committed_offset for part in reply.groups[0].topics[0].partitions]


def joined(pair: Pair, number: int = 1) -> JoinGroupReply:
    reply = pair.ask(number, JOIN, 3)
    assert isinstance(reply, JoinGroupReply)
    return reply


def notes(pair: Pair) -> list[tuple[str, str]]:
    reply = pair.ask_inside(ListNotes("g"))
    assert isinstance(reply, ListNotesReply)
    return [(note.cause, note.detail) for note in reply.notes]


def member_at_broker(pair: Pair) -> str:
    reply = pair.ask_broker(JOIN, 3)
    assert isinstance(reply, JoinGroupReply)
    pair.ask_broker(SyncGroup("g", reply.generation_id, reply.member_id), 3)
    return reply.member_id


def test_a_group_goes_on_at_its_offsets() -> None:
    pair = paired()
    assert joined(pair).error_code is ErrorCode.NONE
    assert offsets(pair) == [-1, 42]
    assert notes(pair)[0] == ("offsets adopted", "1 offset of 1 topic")
    kept = pair.node.core.shard_of("g").offsets.get("g", "orders", 1)
    assert kept is not None
    assert kept.topic_id == pair.node.topics.id_of("orders")


def test_its_offsets_are_taken_over_once() -> None:
    pair = paired()
    joined(pair)
    pair.ask_broker(OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(1, 50),)),)), 8)
    assert offsets(pair) == [-1, 42]


def test_whoever_commits_first_meets_the_group_too() -> None:
    pair = paired()
    reply = pair.ask(1, OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),)),)), 8)
    assert isinstance(reply, OffsetCommitReply)
    assert inside(pair) == [7, 42]


def test_who_only_looks_is_told_what_the_cluster_has_and_takes_nothing_over() -> None:
    pair = paired()
    assert offsets(pair) == [-1, 42]
    assert inside(pair) == [-1, -1]
    reply = pair.ask(1, OffsetFetch((OffsetFetchGroup("g"),)), 8)
    assert isinstance(reply, OffsetFetchReply)
    (topic,) = reply.groups[0].topics
    assert (topic.name, topic.partitions[0].metadata) == ("orders", "note")
    assert notes(pair) == []


def test_while_it_has_members_there_it_is_refused_and_they_are_named_once() -> None:
    pair = paired()
    member = member_at_broker(pair)
    for _ in range(3):
        assert joined(pair).error_code is ErrorCode.NON_EMPTY_GROUP
    ((cause, detail),) = notes(pair)
    assert cause == "members elsewhere"
    assert "own at front" in detail
    assert len(pair.complaints) == 1
    pair.ask_broker(LeaveGroup("g", (LeavingMember(member),)), 3)
    pair.wait(1_000)
    assert joined(pair).error_code is ErrorCode.NONE
    assert offsets(pair) == [-1, 42]


def test_who_is_refused_because_of_members_and_comes_again_at_once_does_not_have_the_cluster_asked_again() -> None:
    pair = paired()
    member_at_broker(pair)
    joined(pair)
    asked = len(pair.asked)
    for _ in range(9):
        pair.wait(100)
        assert joined(pair).error_code is ErrorCode.NON_EMPTY_GROUP
    assert len(pair.asked) == asked
    pair.wait(100)
    joined(pair)
    assert len(pair.asked) > asked


def test_nor_does_who_is_refused_because_nobody_could_say() -> None:
    pair = paired(upstream_ask_timeout_ms=2_000)
    pair.holds_questions = True
    pair.send(1, JOIN, 3)
    pair.wait(2_000)
    pair.heard[1].clear()
    waiting = len(pair.questions)
    assert joined(pair).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(pair.questions) == waiting
    pair.holds_questions = False
    pair.wait(1_000)
    assert joined(pair).error_code is ErrorCode.NONE
    assert offsets(pair) == [-1, 42]


def test_a_group_the_cluster_knows_nothing_of_begins_here() -> None:
    pair = paired(has_offsets=False)
    assert joined(pair).error_code is ErrorCode.NONE
    assert offsets(pair) == [-1, -1]


def test_a_group_that_was_deleted_here_is_met_anew() -> None:
    pair = paired()
    member = joined(pair).member_id
    pair.ask(1, LeaveGroup("g", (LeavingMember(member),)), 3)
    pair.ask(1, OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(1, 60),)),)), 8)
    pair.ask_broker(OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(1, 50),)),)), 8)
    pair.ask(1, DeleteGroups(("g",)), 1)
    assert joined(pair).error_code is ErrorCode.NONE
    assert offsets(pair) == [-1, 50]


def test_what_is_adopted_is_there_after_a_restart_and_not_adopted_again() -> None:
    pair = paired()
    joined(pair)
    pair.front.restart()
    pair.find()
    pair.connect(2)
    assert offsets(pair, 2) == [-1, 42]


def test_while_nobody_can_be_asked_groups_not_met_wait_and_others_continue_lookup() -> None:
    pair = paired()
    joined(pair)
    pair.is_cut = True
    pair.away()
    other = JoinGroup("h", 6_000, rebalance_timeout_ms=6_000, protocol_type="consumer", protocols=JOIN.protocols)
    reply = pair.ask(1, other, 3)
    assert isinstance(reply, JoinGroupReply)
    assert reply.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert offsets(pair) == [-1, 42]


def test_that_groups_not_met_wait_is_said_once_a_minute_whoever_they_are() -> None:
    pair = paired()
    pair.is_cut = True
    pair.away()
    for _ in range(70):
        joined(pair)
        pair.wait(1_000)
    assert len(pair.complaints) == 2
    assert pair.complaints[0].startswith("group g waits to be migrated, and others may wait too: the offsets of g")


def test_who_asks_for_offsets_that_nobody_can_say_is_told_what_no_client_dies_of() -> None:
    """librdkafka's AdminClient, 2.16, crashes at COORDINATOR_NOT_AVAILABLE there."""
    pair = paired(upstream_ask_timeout_ms=1_000)
    pair.holds_questions = True
    pair.send(1, FETCH, 8)
    pair.wait(1_000)
    unclear = pair.heard[1].pop()
    pair.is_cut = True
    pair.away()
    for reply in (unclear, pair.ask(1, FETCH, 8)):
        assert isinstance(reply, OffsetFetchReply)
        assert reply.groups[0].error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_cluster_that_does_not_answer_is_no_reason_to_begin_anew() -> None:
    pair = paired(upstream_ask_timeout_ms=2_000)
    pair.holds_questions = True
    pair.send(1, JOIN, 3)
    pair.wait(3_000)
    (reply,) = pair.heard[1]
    assert isinstance(reply, JoinGroupReply)
    assert reply.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_who_comes_meanwhile_waits_for_the_same_answers() -> None:
    pair = paired()
    pair.connect(2)
    pair.holds_questions = True
    pair.send(1, JOIN, 3)
    pair.send(2, FETCH, 8)
    assert len(pair.questions) == 1
    pair.holds_questions = False
    pair.run()
    (reply,) = pair.heard[2]
    assert isinstance(reply, OffsetFetchReply)
    assert reply.groups[0].topics[0].partitions[1].committed_offset == 42


@pytest.mark.parametrize("message", MEETING, ids=lambda message: type(message).__name__)
def test_whatever_names_a_group_first_has_it_looked_up(message: GroupRequest) -> None:
    pair = paired()
    asked = len(pair.asked)
    pair.ask(1, message, 8 if message is not JOIN else 3)
    assert len(pair.asked) > asked + 3


def test_offsets_may_be_left_where_they_are() -> None:
    pair = paired(upstream_offsets=UpstreamOffsets.IGNORE)
    joined(pair)
    assert offsets(pair) == [-1, -1]


# -------------------------------------------------------------------------------------------------- what answers mean

TOPIC = MetadataReply(topics=(MetadataTopicReply("__consumer_offsets"),))
COORDINATOR = FindCoordinatorReply((FoundCoordinator("g", 2, "b", 1),))
KEPT = OffsetFetchGroupReply("g", (OffsetFetchTopicReply("orders", (OffsetFetchPartitionReply(0, 5),)),))


def described(state: str, error: ErrorCode = ErrorCode.NONE) -> DescribeGroupsReply:
    return DescribeGroupsReply((DescribedGroup("g", error, group_state=state),))


def test_a_cluster_that_never_had_a_group_is_not_asked_for_a_coordinator() -> None:
    first = start_lookup("g")
    assert isinstance(first.requests[0][0], Metadata)
    absent = MetadataReply(topics=(MetadataTopicReply("x", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),))
    assert continue_lookup(first.lookup, [absent]) == NoOffsets()


def test_that_there_are_no_offsets_is_believed_when_every_broker_says_so() -> None:
    first = start_lookup("g", (1, 2))
    assert [broker for _, broker in first.requests] == [1, 2]
    absent = MetadataReply(topics=(MetadataTopicReply("x", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),))
    assert continue_lookup(first.lookup, [absent, absent]) == NoOffsets()
    assert isinstance(continue_lookup(first.lookup, [absent, TOPIC]), NextRequests)
    assert isinstance(continue_lookup(first.lookup, [None, TOPIC]), NextRequests)
    assert isinstance(continue_lookup(first.lookup, [absent, None]), LookupFailed)


def test_of_a_cluster_that_is_known_to_have_offsets_nobody_is_asked_whether() -> None:
    assert start_lookup("g", (1, 2), has_offsets=True).requests == ((FindCoordinator(("g",), 0), None),)


def test_the_coordinator_is_found_and_asked() -> None:
    second = continue_lookup(start_lookup("g").lookup, [TOPIC])
    assert isinstance(second, NextRequests)
    assert second.requests == ((FindCoordinator(("g",), 0), None),)
    third = continue_lookup(second.lookup, [COORDINATOR])
    assert isinstance(third, NextRequests)
    stable = OffsetFetch((OffsetFetchGroup("g"),), require_stable=True)
    assert third.requests == ((DescribeGroups(("g",)), 2), (stable, 2))
    fetched = OffsetFetchReply((KEPT,))
    assert continue_lookup(third.lookup, [described("Empty"), fetched]) == ClusterOffsets(KEPT)
    old = OffsetFetchReply((OffsetFetchGroupReply("", KEPT.topics),))
    assert continue_lookup(third.lookup, [described("Empty"), old]) == ClusterOffsets(KEPT)


def test_a_group_of_a_newer_kind_is_found_in_the_list() -> None:
    lookup = MigrationLookup("g", LookupStage.GROUP, 2)
    listed = continue_lookup(lookup, [described("Dead", ErrorCode.GROUP_ID_NOT_FOUND), OffsetFetchReply((KEPT,))])
    assert isinstance(listed, NextRequests)
    stable = ListGroupsReply(groups=(ListedGroup("g", "consumer", "Stable", "consumer"),))
    assert continue_lookup(listed.lookup, [stable]) == ActiveMembers(())
    assert continue_lookup(listed.lookup, [ListGroupsReply()]) == ClusterOffsets(KEPT)


def test_an_answer_that_is_empty_is_no_verdict() -> None:
    lookup = MigrationLookup("g", LookupStage.GROUP, 2)
    assert isinstance(continue_lookup(lookup, [DescribeGroupsReply(), OffsetFetchReply()]), LookupFailed)
    assert isinstance(continue_lookup(MigrationLookup("g"), [MetadataReply()]), LookupFailed)
    assert isinstance(
        continue_lookup(MigrationLookup("g", LookupStage.COORDINATOR), [FindCoordinatorReply()]), LookupFailed
    )


@pytest.mark.parametrize("stage", list(LookupStage))
def test_no_answer_is_no_verdict(stage: LookupStage) -> None:
    answers: list[Message | None] = [None, None] if stage is LookupStage.GROUP else [None]
    assert isinstance(continue_lookup(MigrationLookup("g", stage, 2, KEPT), answers), LookupFailed)


@pytest.mark.parametrize(
    "answers",
    [
        [described("", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), OffsetFetchReply((KEPT,))],
        [described("Empty"), OffsetFetchReply((OffsetFetchGroupReply("g", (), ErrorCode.NOT_COORDINATOR),))],
        [
            described("Empty"),
            OffsetFetchReply(
                (
                    OffsetFetchGroupReply(
                        "g",
                        (
                            OffsetFetchTopicReply(
                                "orders",
                                (OffsetFetchPartitionReply(0, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT),),
                            ),
                        ),
                    ),
                )
            ),
        ],
    ],
    ids=["loading", "moved", "a transaction is open"],
)
def test_what_may_be_otherwise_in_a_moment_is_no_verdict(answers: list[Message]) -> None:
    assert isinstance(continue_lookup(MigrationLookup("g", LookupStage.GROUP, 2), answers), LookupFailed)


def test_many_members_are_not_all_named() -> None:
    sentence = ActiveMembers(tuple(f"c-{number}" for number in range(30))).reason
    assert "c-9 and 20 more" in sentence
