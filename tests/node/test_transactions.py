"""Transactional commits and markers are asked for from inside the process: whoever sends them from outside is told, in
the way of its dialect, that there is no such thing. Offsets by topic id, on the wire that has them."""

from typing import Any

from coordinator.clock import Moment
from coordinator.node.effects import Send
from coordinator.node.events import Opened, Received
from protocol.errors import ErrorCode
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.node import ApiVersions
from protocol.messages.offsets import (
    EndTransaction,
    EndTransactionReply,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitReply,
    TxnOffsetCommitTopic,
)
from protocol.native import codec
from protocol.native.client import NativeAnswer
from tests.node.node_rig import NodeRig

PENDING = TxnOffsetCommit("tx", "g", 7, 0, (TxnOffsetCommitTopic("orders", (TxnOffsetCommitPartition(0, 9),)),))


def rig_with_topic() -> NodeRig:
    rig = NodeRig()
    rig.make_topic("orders", 4)
    return rig


class Kafka:
    """A connection that speaks Kafka to a node, to which others speak the native protocol."""

    def __init__(self, rig: NodeRig, number: int) -> None:
        self._rig, self._number = rig, number
        self._client = KafkaClient("tester", 1 << 20)
        rig._clients[number] = self  # type: ignore[assignment]
        rig.received[number] = []
        rig.step(Opened(number, "kafka", "10.0.0.1"))

    def receive_data(self, data: bytes) -> list[NativeAnswer]:
        return [NativeAnswer(number, reply) for number, reply in self._client.receive_data(data)]

    def ask(self, message: Message, version: int) -> Any:
        """The reply; None if there is none."""
        self._rig.step(Received(self._number, self._client.encode_request(message, version)[1]))
        return next(iter(self._rig.heard(self._number)), None)


def test_from_inside_a_transaction_goes_its_way() -> None:
    rig = rig_with_topic()
    assert isinstance(rig.ask_inside(PENDING, call=1), TxnOffsetCommitReply)
    shard = rig.node.core.shard_of("g")
    assert shard.offsets.get("g", "orders", 0) is None
    assert rig.ask_inside(EndTransaction(7, 0, True, shard.index), call=2) == EndTransactionReply()
    kept = shard.offsets.get("g", "orders", 0)
    assert kept is not None and kept.offset == 9


def test_a_native_client_is_told_that_there_is_no_such_method() -> None:
    rig = rig_with_topic()
    client = rig.connect(1)
    for number, message in enumerate((PENDING, EndTransaction(7, 0, True, 0))):
        (told,) = rig.node.step(Received(client, codec.encode_request(number, message)), Moment(0, 0))
        assert isinstance(told, Send)
        assert f"{type(message).__name__}' is no method of this server".encode() in told.data
    assert not rig.node.core.shard_of("g").groups


def test_a_kafka_client_is_not_told_of_them_and_hung_up_on() -> None:
    rig = rig_with_topic()
    client = Kafka(rig, 1)
    keys = {api.api_key for api in client.ask(ApiVersions(), 2).api_keys}
    assert 8 in keys and not keys & {24, 25, 26, 27, 28}, "OffsetCommit, and nothing of transactions"
    assert client.ask(PENDING, 3) is None
    assert "28" in rig.closed[1]
    assert not rig.node.core.shard_of("g").groups


def test_topics_by_id_over_the_wire_that_has_them() -> None:
    rig = rig_with_topic()
    client, topic_id = Kafka(rig, 1), rig.node.core.topics.id_of("orders")
    assert topic_id is not None
    stored = client.ask(
        OffsetCommit("g", (OffsetCommitTopic("", (OffsetCommitPartition(1, 9),), topic_id), _unknown())), 10
    )
    assert [(t.topic_id, p.error_code) for t in stored.topics for p in t.partitions] == [
        (topic_id, ErrorCode.NONE),
        (STRANGE, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    named = (OffsetFetchTopic("", (1,), topic_id), OffsetFetchTopic("", (0,), STRANGE))
    for topics in (None, named):
        (group,) = client.ask(OffsetFetch((OffsetFetchGroup("g", topics),)), 10).groups
        found = [(t.topic_id, p.committed_offset, p.error_code) for t in group.topics for p in t.partitions]
        assert found == [
            (topic_id, 9, ErrorCode.NONE),
            *([] if topics is None else [(STRANGE, -1, ErrorCode.UNKNOWN_TOPIC_ID)]),
        ]
    by_name = client.ask(OffsetFetch((OffsetFetchGroup("g"),)), 9).groups[0]
    assert [t.name for t in by_name.topics] == ["orders"]


STRANGE = b"no such topic id"


def _unknown() -> OffsetCommitTopic:
    return OffsetCommitTopic("", (OffsetCommitPartition(0, 9),), STRANGE)
