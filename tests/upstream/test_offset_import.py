"""Import of a group's offsets from the cluster: all of them, however many, or none; and offsets that are not
believed."""

from typing import Any

import pytest

from coordinator.gateway.effects import UpstreamRequest
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopicReply,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataReply, MetadataTopicReply
from tests.upstream.pair import Pair
from tests.upstream.test_migration import inside, joined, notes, offsets, paired

_OFFSETS_TOPIC = "__consumer_offsets"


class OffsetsPair(Pair):
    """A pair whose broker returns the offsets that the test gives, and which has no offsets topic as broker
    `behind`."""

    def __init__(self, *parts: OffsetFetchPartitionReply, name: str = "orders", **settings: Any) -> None:
        self.parts, self.name = parts, name
        self.behind = 0
        super().__init__(**settings)
        self.find()
        self.connect(1)

    def _answer(self, question: UpstreamRequest) -> Message | None:
        match question.message:
            case OffsetFetch() if self.parts:
                topics = (OffsetFetchTopicReply(self.name, self.parts),)
                return OffsetFetchReply((OffsetFetchGroupReply("g", topics),))
            case Metadata(topics=(topic,)) if topic.name == _OFFSETS_TOPIC and question.broker in (self.behind, None):
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                return MetadataReply(topics=(MetadataTopicReply(_OFFSETS_TOPIC, error_code=error),))
        return super()._answer(UpstreamRequest(question.call_id, question.message, 1))


def stored(pair: Pair) -> list[tuple[int, int, int]]:
    """Partition, offset and how long the metadata is, in bytes."""
    reply = pair.ask_inside(OffsetFetch((OffsetFetchGroup("g"),)))
    assert isinstance(reply, OffsetFetchReply)
    parts = [part for topic in reply.groups[0].topics for part in topic.partitions]
    return sorted((part.partition_index, part.committed_offset, len((part.metadata or "").encode())) for part in parts)


def test_metadata_that_is_longer_than_a_client_may_send_here_comes_along() -> None:
    pair = OffsetsPair(OffsetFetchPartitionReply(0, 5), OffsetFetchPartitionReply(1, 7, metadata="x" * 5_000))
    assert joined(pair).error_code is ErrorCode.NONE
    assert stored(pair) == [(0, 5, 0), (1, 7, 5_000)]
    assert notes(pair)[0] == ("offsets adopted", "2 offsets of 1 topic")
    pair.front.restart()
    assert stored(pair) == [(0, 5, 0), (1, 7, 5_000)]


def test_metadata_that_no_version_of_a_request_has_a_length_for_is_cut_and_that_is_said() -> None:
    pair = OffsetsPair(OffsetFetchPartitionReply(0, 5, metadata="\u00e9" * 20_000))
    assert offsets(pair) == [5, -1]
    joined(pair)
    assert stored(pair) == [(0, 5, 32_766)]
    assert notes(pair)[0] == ("offsets adopted", "1 offset of 1 topic, metadata of 1 cut")


def test_more_than_a_batch_of_clients_may_have_comes_over_in_one() -> None:
    pair = OffsetsPair(*(OffsetFetchPartitionReply(number, number, metadata="x" * 4_000) for number in range(50)))
    appended = pair.node.core.shard_of("g").log.next_offset
    assert joined(pair).error_code is ErrorCode.NONE
    assert stored(pair) == [(number, number, 4_000) for number in range(50)]
    (batch,) = (data for _header, data in pair.node.core.shard_of("g").log.batches_from(appended))
    assert len(batch) > 50 * 4_000
    pair.front.restart()
    assert stored(pair) == [(number, number, 4_000) for number in range(50)]


def test_metadata_that_is_too_long_together_stays_behind_and_that_is_said() -> None:
    pair = OffsetsPair(*(OffsetFetchPartitionReply(number, number, metadata="x" * 4_000) for number in range(100)))
    assert joined(pair).error_code is ErrorCode.NONE
    assert stored(pair) == [(number, number, 0) for number in range(100)]
    told = "100 offsets of 1 topic, without their metadata: together it is too long"
    assert notes(pair)[0] == ("offsets adopted", told)


def test_of_offsets_that_are_too_many_none_comes_over_and_nobody_joins() -> None:
    pair = OffsetsPair(*(OffsetFetchPartitionReply(number, number) for number in range(10_000)))
    for _ in range(3):
        assert joined(pair).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stored(pair) == []
    sentence = "10000 offsets at the cluster are too many for wal.segment.bytes: make it larger"
    assert notes(pair) == [("offsets not adopted", sentence)]
    assert pair.complaints == [f"g: {sentence}"]


def test_what_lasts_is_not_looked_up_again_for_a_while_unless_somebody_only_looks() -> None:
    pair = OffsetsPair(*(OffsetFetchPartitionReply(number, number) for number in range(10_000)))
    joined(pair)
    asked = len(pair.asked)
    for _ in range(9):
        pair.wait(1_000)
        assert joined(pair).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not any(isinstance(question.message, OffsetFetch) for question in pair.asked[asked:])
    assert offsets(pair) == [0, 1]
    asked = len(pair.asked)
    pair.wait(1_000)
    joined(pair)
    assert any(isinstance(question.message, OffsetFetch) for question in pair.asked[asked:])


LIES = {
    "partition -1 of orders": (OffsetFetchPartitionReply(-1, 5),),
    "offset -2 of orders-0": (OffsetFetchPartitionReply(0, -2), OffsetFetchPartitionReply(1, 5)),
    "two offsets of orders-0": (OffsetFetchPartitionReply(0, 5), OffsetFetchPartitionReply(0, 6)),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_coordinator_that_says_what_cannot_be_is_not_believed(lie: str) -> None:
    pair = OffsetsPair(*LIES[lie])
    for _ in range(2):
        assert joined(pair).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stored(pair) == []
    ((cause, detail),) = notes(pair)
    assert (cause, detail) == (
        "offsets not adopted",
        f"the cluster's coordinator sent an invalid offset of the group: {lie}",
    )
    assert len(pair.complaints) == 1


@pytest.mark.parametrize("name", ["", "t" * 250, "t" * 70_000])
def test_a_name_that_no_topic_has_is_not_believed(name: str) -> None:
    pair = OffsetsPair(OffsetFetchPartitionReply(0, 5), name=name)
    assert joined(pair).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "a topic with a name of" in notes(pair)[0][1]


# ------------------------------------------------------------------------------------- what is not there, and not yet


def test_who_joins_asks_anew_though_there_was_nothing_just_now() -> None:
    pair = paired(has_offsets=False)
    assert offsets(pair) == [-1, -1]
    at_cluster(pair, 500)
    pair.wait(3_000)
    assert offsets(pair) == [-1, -1]
    assert joined(pair).error_code is ErrorCode.NONE
    assert offsets(pair) == [-1, 500]


def test_who_commits_asks_anew_too() -> None:
    pair = paired(has_offsets=False)
    assert offsets(pair) == [-1, -1]
    at_cluster(pair, 500)
    pair.wait(3_000)
    pair.ask(1, OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),)),)), 8)
    assert inside(pair) == [7, 500]


def test_who_only_asks_again_and_again_does_not_have_the_cluster_asked_each_time() -> None:
    pair = paired(has_offsets=False)
    offsets(pair)
    asked = len(pair.asked)
    for _ in range(9):
        pair.wait(1_000)
        offsets(pair)
    assert not any(isinstance(question.message, OffsetFetch) for question in pair.asked[asked:])
    pair.wait(2_000)
    offsets(pair)
    assert any(isinstance(question.message, OffsetFetch) for question in pair.asked[asked:])


def at_cluster(pair: Pair, offset: int) -> None:
    commit = OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(1, offset),)),))
    pair.ask_broker(commit, 8)


def test_one_broker_that_has_not_heard_of_offsets_is_not_believed() -> None:
    pair = OffsetsPair(OffsetFetchPartitionReply(0, 500))
    pair.find(2)
    pair.behind = 1
    assert joined(pair).error_code is ErrorCode.NONE
    assert stored(pair) == [(0, 500, 0)]


def test_nor_are_all_of_them_when_the_node_knows_better() -> None:
    pair = OffsetsPair(OffsetFetchPartitionReply(0, 500))
    pair.behind = 1
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 2, 1),)), 5)
    at_cluster(pair, 1)
    all_topics = pair.ask_broker(Metadata(None), 12)
    assert isinstance(all_topics, MetadataReply)
    pair.node.topics.learn(all_topics, pair.now_ms)
    assert pair.node.topics.id_of(_OFFSETS_TOPIC) is not None
    assert joined(pair).error_code is ErrorCode.NONE
    assert stored(pair) == [(0, 500, 0)]
