"""Commits that name topics by their ids, while nobody can be asked whose ids those are."""

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
