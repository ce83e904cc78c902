"""Connections that speak Kafka: order within each, none between them, and what is not read for a while."""

from struct import pack
from typing import Any

from coordinator.node.effects import Effect, Pause, Resume, Send
from coordinator.node.events import Call, Opened, Received, Woke
from protocol.errors import ErrorCode
from protocol.kafka.client import KafkaClient, encode_request
from protocol.kafka.session import MAX_WAITING_BYTES
from protocol.messages import Message
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchReply,
    FetchTopic,
    Produce,
    ProducePartition,
    ProduceReply,
    ProduceTopic,
)
from protocol.messages.groups import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListGroups,
    ListGroupsReply,
    SyncGroup,
    SyncGroupReply,
)
from protocol.messages.node import ApiVersions, ApiVersionsReply, FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.record_batch import encode_batch
from tests.node.node_rig import NodeRig

NEW = JoinGroup(
    "g",
    6_000,
    rebalance_timeout_ms=6_000,
    protocol_type="consumer",
    protocols=(JoinProtocol("range", b"x"),),
)


class KafkaNodeRig(NodeRig):
    """A node to which clients speak Kafka; each may send many requests at once."""

    def __init__(self, **settings: Any) -> None:
        self.peers: dict[int, Peer] = {}
        super().__init__(**settings)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Send) and effect.connection in self.peers:
            self.peers[effect.connection].receive_data(effect.data)
        else:
            super()._carry_out(effect)


class Peer:
    """One client, and what it has been told. Its own session minds the order of answers."""

    def __init__(self, rig: KafkaNodeRig, number: int, host: str = "10.0.0.1") -> None:
        self._client = KafkaClient("tester", 1 << 24)
        self._rig, self.number = rig, number
        self._heard: list[Message] = []
        rig.peers[number] = self
        rig.step(Opened(number, "kafka", host))

    def receive_data(self, data: bytes) -> None:
        self._heard += [answer.reply for answer in self._client.receive_data(data)]

    def data(self, *requests: tuple[Message, int]) -> bytes:
        return b"".join(self._client.encode_request(message, version)[1] for message, version in requests)

    def send(self, *requests: tuple[Message, int]) -> list[Effect]:
        return self._rig.step(Received(self.number, self.data(*requests)))

    def ask(self, *requests: tuple[Message, int]) -> list[Message]:
        self.send(*requests)
        return self.heard()

    def heard(self) -> list[Message]:
        said, self._heard = self._heard, []
        return said


def member_of(peer: Peer) -> tuple[str, int]:
    """Join as the only member, and be stable."""
    (told,) = peer.ask((NEW, 5))
    assert isinstance(told, JoinGroupReply) and told.error_code is ErrorCode.MEMBER_ID_REQUIRED
    (joined,) = peer.ask((_again(told.member_id), 5))
    assert isinstance(joined, JoinGroupReply) and joined.error_code is ErrorCode.NONE
    (synced,) = peer.ask((SyncGroup("g", joined.generation_id, joined.member_id), 3))
    assert isinstance(synced, SyncGroupReply) and synced.error_code is ErrorCode.NONE
    return joined.member_id, joined.generation_id


def _again(member_id: str) -> JoinGroup:
    return JoinGroup("g", 6_000, member_id, "consumer", NEW.protocols, 6_000)


def test_a_client_says_hello_finds_its_coordinator_and_becomes_a_member() -> None:
    rig = KafkaNodeRig()
    peer = Peer(rig, 1)
    (versions,) = peer.ask((ApiVersions("tester", "1.0"), 4))
    assert isinstance(versions, ApiVersionsReply) and versions.api_keys
    (found,) = peer.ask((FindCoordinator(("g",)), 3))
    assert isinstance(found, FindCoordinatorReply)
    assert found.coordinators[0].error_code is ErrorCode.NONE
    member_id, generation_id = member_of(peer)
    assert peer.ask((Heartbeat("g", generation_id, member_id), 4)) == [HeartbeatReply()]


def test_many_heartbeats_in_one_piece_are_answered_in_one_step_and_one_send() -> None:
    rig = KafkaNodeRig()
    peer = Peer(rig, 1)
    member_id, generation_id = member_of(peer)
    beats = [(Heartbeat("g", generation_id, member_id), version) for version in (4, 3, 0, 4)] * 50
    effects = peer.send(*beats, (Heartbeat("g", generation_id, "nobody"), 4))
    assert sum(isinstance(effect, Send) for effect in effects) == 1
    heard = peer.heard()
    assert heard == [HeartbeatReply()] * 200 + [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]


def test_a_join_that_waits_keeps_its_own_connection_waiting_and_no_other() -> None:
    rig = KafkaNodeRig(group_initial_rebalance_delay_ms=3_000)
    waiting, other = Peer(rig, 1), Peer(rig, 2)
    (told,) = waiting.ask((NEW, 5))
    assert isinstance(told, JoinGroupReply)
    assert waiting.ask((_again(told.member_id), 5), (FindCoordinator(("g",)), 3), (Heartbeat("g", 0, "x"), 4)) == []
    (found,) = other.ask((FindCoordinator(("g",)), 3))
    assert isinstance(found, FindCoordinatorReply)
    assert other.ask((Heartbeat("none", 1, "m"), 4)) == [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]
    assert waiting.heard() == []
    rig.wait(3_000)
    joined, found, refused = waiting.heard()
    assert isinstance(joined, JoinGroupReply) and joined.error_code is ErrorCode.NONE
    assert isinstance(found, FindCoordinatorReply)
    assert refused == HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_member_whose_heartbeats_wait_behind_its_commit_for_the_disk_is_not_evicted() -> None:
    rig = KafkaNodeRig()
    rig.make_topic()
    peer = Peer(rig, 1)
    member_id, generation_id = member_of(peer)
    commit = OffsetCommit(
        "g",
        (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 1),)),),
        generation_id=generation_id,
        member_id=member_id,
    )
    peer.send((Heartbeat("g", generation_id, member_id), 4))
    peer.heard()
    rig.holds_disk = True
    peer.send((commit, 8))
    for _ in range(9):  # 18 s, three times the session timeout
        rig.wait(2_000)
        assert peer.ask((Heartbeat("g", generation_id, member_id), 4)) == []
    rig.holds_disk = False
    rig.flush()
    committed, *beats = peer.heard()
    assert isinstance(committed, OffsetCommitReply)
    assert beats == [HeartbeatReply()] * 9
    rig.wait(5_900)
    assert peer.ask((Heartbeat("g", generation_id, member_id), 4)) == [HeartbeatReply()]
    rig.wait(6_100)  # silent, with nothing held up by the disk
    assert peer.ask((Heartbeat("g", generation_id, member_id), 4)) == [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]


def test_a_connection_with_a_mebibyte_waiting_is_not_read_until_it_is_answered() -> None:
    rig = KafkaNodeRig(group_initial_rebalance_delay_ms=3_000)
    peer = Peer(rig, 1)
    (told,) = peer.ask((NEW, 5))
    assert isinstance(told, JoinGroupReply)
    beat = (Heartbeat("g", 0, "x"), 4)
    count = MAX_WAITING_BYTES // len(encode_request(*beat, 0, "tester")) + 1
    effects = peer.send((_again(told.member_id), 5), *[beat] * (count // 2))
    assert not {Pause, Resume} & set(map(type, effects))
    effects = peer.send(*[beat] * (count - count // 2))
    assert [effect for effect in effects if isinstance(effect, Pause | Resume)] == [Pause(1)]
    seen: list[Effect] = []
    rig.now_ms += 3_000
    while (deadline_ms := rig.node.next_deadline_ms) is not None and deadline_ms <= rig.now_ms:
        seen += rig.step(Woke())
    assert [effect for effect in seen if isinstance(effect, Pause | Resume)] == [Resume(1)]
    heard = peer.heard()
    assert isinstance(heard[0], JoinGroupReply) and len(heard) == 1 + count


def test_a_fetch_that_waits_is_answered_in_its_turn() -> None:
    rig = KafkaNodeRig()
    rig.make_topic("orders", 1)
    reader, producer = Peer(rig, 1), Peer(rig, 2)
    fetch = Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),), max_wait_ms=10_000)
    assert reader.ask((fetch, 11), (FindCoordinator(("g",)), 3)) == []
    batch = encode_batch([(b"k", b"v")], timestamp_ms=1)
    (produced,) = producer.ask((Produce((ProduceTopic("orders", (ProducePartition(0, batch),)),)), 9))
    assert isinstance(produced, ProduceReply)
    assert produced.responses[0].partition_responses[0].error_code is ErrorCode.NONE
    fetched, found = reader.heard()
    assert isinstance(fetched, FetchReply) and isinstance(found, FindCoordinatorReply)
    assert fetched.responses[0].partitions[0].records[61:] == batch[61:]


def test_records_that_want_no_answer_are_stored_and_what_follows_is_answered() -> None:
    rig = KafkaNodeRig()
    rig.make_topic("orders", 1)
    peer = Peer(rig, 1)
    batch = encode_batch([(b"k", b"v")], timestamp_ms=1)
    produce = Produce((ProduceTopic("orders", (ProducePartition(0, batch),)),), acks=0)
    nowhere = Produce((ProduceTopic("nowhere", (ProducePartition(0, batch),)),), acks=0)
    broken = Produce((ProduceTopic("orders", (ProducePartition(0, b"broken"),)),), acks=0)
    (found,) = peer.ask((produce, 9), (nowhere, 9), (broken, 9), (produce, 7), (FindCoordinator(("g",)), 3))
    assert isinstance(found, FindCoordinatorReply)
    (fetched,) = peer.ask((Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),)), 11))
    assert isinstance(fetched, FetchReply)
    assert fetched.responses[0].partitions[0].high_watermark == 2


def test_a_violation_closes_its_connection_after_what_came_before_it_was_answered() -> None:
    rig = KafkaNodeRig()
    peer = Peer(rig, 1)
    nonsense = pack(">ihhih", 10, 999, 0, 1, -1)
    rig.step(Received(1, peer.data((Heartbeat("g", 1, "m"), 4)) + nonsense))
    assert peer.heard() == [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]
    assert rig.closed == {1: "API 999 in version 0 is not served"}
    other = Peer(rig, 2)
    assert other.ask((Heartbeat("g", 1, "m"), 4)) == [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]


def test_what_the_session_says_itself_is_sent_without_a_reply_to_carry_it() -> None:
    rig = KafkaNodeRig()
    Peer(rig, 1)
    effects = rig.node.step(Received(1, pack(">ihhih", 10, 18, 99, 7, -1)), rig._moment())
    (sent,) = [effect for effect in effects if isinstance(effect, Send)]
    assert sent.data[4:10] == pack(">ih", 7, 35)


def test_a_list_of_very_many_groups_is_encoded_over_many_steps_and_in_its_turn() -> None:
    rig = KafkaNodeRig()
    rig.make_topic("orders", 1)
    rig.holds_disk = True
    for number in range(6_000):
        topic = OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),))
        rig.step(Call(9, OffsetCommit(f"g{number:05}", (topic,))))
        if number % 200 == 199:
            while rig.flushes:
                rig.flush()
    rig.holds_disk = False
    peer = Peer(rig, 1)
    assert peer.ask((ListGroups(), 4), (FindCoordinator(("g",)), 3)) == []
    steps = 0
    while not (heard := peer.heard()):
        rig.step(Woke())
        steps += 1
    assert steps >= 2
    listed, found = heard
    assert isinstance(listed, ListGroupsReply) and isinstance(found, FindCoordinatorReply)
    assert [group.group_id for group in listed.groups] == [f"g{number:05}" for number in range(6_000)]
