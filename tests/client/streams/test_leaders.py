"""Leaders that move under a connector: fetches follow them, and the group is not disturbed
(docs/spec/consumer-client.md#B4, #D2)."""

from functools import partial

import pytest
from msgspec.structs import replace

from membership.events import NodeAddress, SendRequest
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartitionReply, FetchReply, FetchTopicReply, OffsetForLeaderEpoch
from protocol.messages.topics import Metadata, MetadataBroker, MetadataReply
from tests.client.consumer_rig import LATENCY_MS, P, SimDriver
from tests.client.streams.rig import ConnectorRig

OTHER = MetadataBroker(7, "other", 9)


class MovingLeaders(ConnectorRig):
    """Partitions in `moved` are led by another broker: this one refuses to serve them, or is gone for fetches."""

    moved: frozenset[int] = frozenset()
    is_gone = False

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.fetched_at: list[tuple[NodeAddress | None, Fetch]] = []
        super().__init__(patch)

    def send(self, hand: SimDriver, which: int, call: SendRequest) -> None:
        message = call.message
        if isinstance(message, Metadata):
            reply = self.node.ask_inside(message, call=93)
            assert isinstance(reply, MetadataReply)
            self._answer(hand, which, call, self._metadata(reply))
        elif isinstance(message, Fetch) and not self._is_served(call, message):
            self._answer(hand, which, call, None if self.is_gone else self._refused(message))
        else:
            super().send(hand, which, replace(call, message=_of_any_epoch(message)))

    def _metadata(self, reply: MetadataReply) -> MetadataReply:
        topics = tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(one, leader_id=OTHER.node_id, leader_epoch=one.leader_epoch + 1)
                    if one.partition_index in self.moved
                    else one
                    for one in topic.partitions
                ),
            )
            for topic in reply.topics
        )
        return replace(reply, brokers=(*reply.brokers, OTHER), topics=topics)

    def _is_served(self, call: SendRequest, message: Fetch) -> bool:
        self.fetched_at.append((call.node, message))
        is_other = call.node is not None and call.node.host == OTHER.host
        named = {part.partition for topic in message.topics for part in topic.partitions}
        return is_other or (not self.is_gone and named.isdisjoint(self.moved))

    def _refused(self, message: Fetch) -> FetchReply:
        codes = dict.fromkeys(self.moved, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return FetchReply(
            responses=tuple(
                FetchTopicReply(
                    topic.topic,
                    tuple(
                        FetchPartitionReply(one.partition, codes.get(one.partition, ErrorCode.NONE))
                        for one in topic.partitions
                    ),
                )
                for topic in message.topics
            )
        )

    def _answer(self, hand: SimDriver, which: int, call: SendRequest, reply: MetadataReply | FetchReply | None) -> None:
        self.write(hand.who, f"answered {type(call.message).__name__}", call.message)
        self.after(2 * LATENCY_MS, partial(hand.hear, which, call.call, reply))


def _of_any_epoch(message: Message) -> Message:
    """Behind both addresses is the one node, which knows of no newer leader."""
    if isinstance(message, Fetch | OffsetForLeaderEpoch):
        return replace(
            message,
            topics=tuple(
                replace(topic, partitions=tuple(replace(one, current_leader_epoch=-1) for one in topic.partitions))
                for topic in message.topics
            ),
        )
    return message


@pytest.mark.parametrize("is_gone", [False, True], ids=["it refuses", "it is gone"])
def test_a_leader_moves_under_a_connector_without_a_rebalance(monkeypatch: pytest.MonkeyPatch, is_gone: bool) -> None:
    rig = MovingLeaders(monkeypatch).make("t", 4)
    player = rig.player("C1", consumer_timeout_ms=0).reads(t=2).iterates()
    rig.append(*P[:4], count=5)
    rig.until(lambda: len(rig.handed_out()) == 20)
    owned = rig.owners()
    rig.log.clear()
    rig.fetched_at.clear()
    rig.moved, rig.is_gone = frozenset(range(4)) if is_gone else frozenset({1, 3}), is_gone
    rig.append(*P[:4], count=5)
    rig.until(lambda: len(rig.handed_out()) >= 20, for_ms=2_000)
    rig.append(*P[:4], count=5)
    rig.run(2_000)
    for number in range(4):
        assert [offset for _, one, offset in rig.handed_out() if one == number] == list(range(5, 15))
    rebalance = ("stop", "clear", "publish", "before_releasing", "JoinGroup", "ClaimPartitions", "ReleasePartitions")
    assert rig.of(*rebalance) == []
    assert rig.owners() == owned
    assert player.errors == []
    epochs = {one.partition: one.epoch for one in owned}
    moved = {number for node, fetch in rig.fetched_at if node and node.host == OTHER.host for number in _named(fetch)}
    assert moved == rig.moved
    for _, fetch in rig.fetched_at:
        assert {part.partition: part.owner_epoch for topic in fetch.topics for part in topic.partitions}.items() <= (
            epochs.items()
        ), "by the same grants"


def _named(fetch: Fetch) -> set[int]:
    return {part.partition for topic in fetch.topics for part in topic.partitions}
