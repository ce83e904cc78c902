"""Commits for topics that the node has not heard of, by name and by id, while nobody says anything about them."""

from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from tests.upstream.pair import Pair


def _commit(pair: Pair, topic: OffsetCommitTopic, version: int) -> ErrorCode:
    reply = pair.ask(1, OffsetCommit("g", (topic,)), version)
    assert isinstance(reply, OffsetCommitReply)
    return reply.topics[0].partitions[0].error_code


def _away(pair: Pair) -> bytes:
    """The id of a topic that the node has not heard of, and cannot ask for any more; the group it has met."""
    pair.find()
    pair.connect(1)
    made = pair.ask_broker(CreateTopics((CreatableTopic("orders", 1, 1), CreatableTopic("parcels", 1, 1))), 7)
    assert isinstance(made, CreateTopicsReply)
    part = OffsetCommitPartition(0, 1)
    assert _commit(pair, OffsetCommitTopic("parcels", (part,)), 8) is ErrorCode.NONE
    pair.is_cut = True
    pair.away()
    return made.topics[0].topic_id


def test_a_commit_for_an_id_that_nobody_can_be_asked_for_is_refused_and_not_stored_without_a_name() -> None:
    pair = Pair()
    topic_id = _away(pair)
    error = _commit(pair, OffsetCommitTopic("", (OffsetCommitPartition(0, 42),), topic_id), 10)
    assert error is ErrorCode.UNKNOWN_TOPIC_ID
    assert set(pair.node.core.shard_of("g").offsets.topics("g")) == {"parcels"}


def test_by_name_it_is_believed() -> None:
    pair = Pair()
    _away(pair)
    assert _commit(pair, OffsetCommitTopic("orders", (OffsetCommitPartition(0, 42),)), 8) is ErrorCode.NONE


def test_by_name_it_is_believed_when_the_cluster_seems_to_be_there_and_does_not_answer() -> None:
    pair = Pair(upstream_ask_timeout_ms=1_000)
    _away(pair)
    pair.is_cut = False
    pair.find()
    pair.holds_questions = True
    topic = OffsetCommitTopic("letters", (OffsetCommitPartition(0, 42),))
    pair.send(1, OffsetCommit("g", (topic,)), 8)
    pair.wait(1_500)
    (reply,) = pair.heard[1]
    assert isinstance(reply, OffsetCommitReply)
    assert reply.topics[0].partitions[0].error_code is ErrorCode.NONE


def test_when_it_has_answered_again_what_is_not_there_is_refused() -> None:
    pair = Pair(upstream_ask_timeout_ms=1_000)
    _away(pair)
    pair.is_cut = False
    pair.find()
    pair.holds_questions = True
    pair.send(1, OffsetCommit("g", (OffsetCommitTopic("ghosts", (OffsetCommitPartition(0, 1),)),)), 8)
    pair.wait(1_500)
    pair.heard[1].clear()
    pair.holds_questions = False
    error = _commit(pair, OffsetCommitTopic("ghosts", (OffsetCommitPartition(0, 2),)), 8)
    assert error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
