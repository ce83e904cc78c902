"""Heartbeats of server-driven groups that are answered at once: nodes that do so and nodes that do not give the same
replies, keep the same members and write the same records."""

from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from coordinator.accounts.records import AclRecord
from coordinator.groups.consumer import heartbeats
from coordinator.node.events import Lost
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclPermission
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigs,
    ResourceType,
)
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, TopicIdPartitions
from protocol.messages.groups import ListNotes
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreateTopics,
    DeletableTopic,
    DeleteTopics,
    GrowingTopic,
)
from tests.accounts.rig import NOW
from tests.enumerations import some
from tests.node.test_access_rules import GROUP, OP, TOPIC, rule
from tests.node.test_audit_log import ROOT, AuditRig
from tests.node.test_kafka import KafkaNodeRig, Peer
from tests.node.test_logins import log_in

_SESSION_MS = 45_000
_VERSION = 1


class Pair:
    """The same requests to two nodes: `quick`, and `slow`, which takes every heartbeat for one that may change
    something."""

    def __init__(self, **settings: Any) -> None:
        settings = {"group_consumer_assignment_interval_ms": 0, "offsets_topic_num_partitions": 1, **settings}
        self.quick, self.slow = KafkaNodeRig(**settings), KafkaNodeRig(**settings)
        self.peers: dict[int, tuple[Peer, Peer]] = {}
        self._last, self.partitions = 0, 4
        self.inside(CreateTopics((CreatableTopic("T", self.partitions), CreatableTopic("U", 3))))

    def open(self) -> int:
        number = self._last = self._last + 1
        self.peers[number] = Peer(self.quick, number), Peer(self.slow, number)
        self.slow.node.core.connections[number].is_guarded = True
        return number

    def lose(self, number: int) -> None:
        for rig in (self.quick, self.slow):
            rig.step(Lost(number))

    def ask(self, number: int, message: Message, version: int = _VERSION) -> list[Message]:
        quick, slow = self.peers[number]
        said = [quick.ask((message, version))]
        with patch.object(heartbeats, "answer_idle", return_value=None):
            said.append(slow.ask((message, version)))
        self.wait(0)
        said = [[*one, *peer.heard()] for one, peer in zip(said, self.peers[number], strict=True)]
        assert said[0] == said[1], message
        return said[0]

    def inside(self, message: Message) -> Any:
        said = [rig.ask_inside(message, 7) for rig in (self.quick, self.slow)]
        self.wait(0)
        assert said[0] == said[1], message
        return said[0]

    def wait(self, ms: int) -> None:
        for rig in (self.quick, self.slow):
            rig.wait(ms)

    def compare(self) -> None:
        assert _image(self.quick) == _image(self.slow)
        notes = [rig.ask_inside(ListNotes("g", limit=1_000), 8) for rig in (self.quick, self.slow)]
        assert notes[0] == notes[1]

    @property
    def at_once(self) -> int:
        """Number of heartbeats that were answered at once."""
        counted = (rig.node.core.timings.requests.get(ConsumerGroupHeartbeat) for rig in (self.slow, self.quick))
        slow, quick = (0 if one is None else sum(one.counts) for one in counted)
        return slow - quick


def _image(rig: KafkaNodeRig) -> dict[str, Any]:
    (shard,) = rig.node.core.shards
    log = shard.log.files
    assert log is not None
    groups = [one.consumer for one in shard.groups.values() if one.consumer is not None]
    for one in groups:
        one.check()
    return {
        "log": [bytes(batch) for _, batch in log.batches_from(log.start_offset)],
        "groups": [(one.epoch, one.target_epoch, one.state, one.settings) for one in groups],
        "members": {
            member.member_id: (member.current, member.subscription, member.deadline_ms, member.connection)
            for one in groups
            for member in one.members.values()
        },
    }


class Member:
    """A member of `g` with a connection; it may be slow to give up partitions, and to report what it owns."""

    def __init__(self, pair: Pair, random: Random, name: str) -> None:
        self.pair, self.random, self.name = pair, random, name
        self.number, self.epoch = pair.open(), 0
        self.instance = f"i-{name}" if random.random() < 0.3 else None
        self.owned: tuple[TopicIdPartitions, ...] = ()
        self.reported: tuple[TopicIdPartitions, ...] | None = None

    def beat(self, **fields: Any) -> ErrorCode:
        owned = None if self.owned == self.reported else self.owned
        if owned is not None and self.random.random() < 0.3:
            owned = None
        else:
            self.reported = self.owned
        given = {"topic_partitions": owned, "instance_id": self.instance, **fields}
        return self._ask(ConsumerGroupHeartbeat("g", self.name, self.epoch, **given))

    def join(self) -> ErrorCode:
        self.epoch, self.owned, self.reported = 0, (), ()
        names = self.random.choice((("T",), ("T", "U"), ("U",), ("T", "absent")))
        fields: dict[str, Any] = {"subscribed_topic_names": names}
        if self.random.random() < 0.1:
            fields = {"subscribed_topic_regex": "T|U"}
        return self.beat(rebalance_timeout_ms=60_000, **{"topic_partitions": (), **fields})

    def leave(self) -> None:
        self._ask(ConsumerGroupHeartbeat("g", self.name, -2 if self.instance else -1, self.instance))
        self.epoch = 0

    def move(self) -> None:
        """Go on from another connection."""
        if self.random.random() < 0.5:
            self.pair.lose(self.number)
        self.number = self.pair.open()

    def _ask(self, request: ConsumerGroupHeartbeat) -> ErrorCode:
        (reply,) = self.pair.ask(self.number, request)
        assert isinstance(reply, ConsumerGroupHeartbeatReply)
        if reply.error_code:
            self.epoch = 0
        else:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.owned = reply.assignment.topic_partitions
        return reply.error_code


def _take_turn(random: Random, member: Member, members: list[Member]) -> None:
    what = random.random()
    if member.epoch <= 0:
        member.join()
    elif what < 0.8:
        for one in members:
            if one.epoch > 0:
                one.beat()
    elif what < 0.84:
        member.leave()
    elif what < 0.88:
        member.move()
    elif what < 0.98:
        member.epoch += random.choice((-1, 1))
        member.beat()
    else:
        member.beat(instance_id="somebody-elses")


def _administer(random: Random, pair: Pair) -> None:
    what = random.random()
    if what < 0.2:
        pair.partitions += 1
        pair.inside(CreatePartitions((GrowingTopic("T", pair.partitions),)))
    elif what < 0.4:
        pair.inside(_setting("consumer.session.timeout.ms", str(random.choice((45_000, 50_000, 60_000)))))
    elif what < 0.5:
        pair.inside(_setting("consumer.heartbeat.interval.ms", str(random.choice((5_000, 6_000)))))
    elif what < 0.6:
        pair.inside(DeleteTopics((DeletableTopic("U"),)))
        pair.inside(CreateTopics((CreatableTopic("U", 3),)))
    else:
        pair.wait(random.choice((500, 3_000, 20_000)))


def _setting(name: str, value: str) -> IncrementalAlterConfigs:
    change = (AlterableConfig(name, ConfigOperation.SET, value),)
    return IncrementalAlterConfigs((AlterConfigsResource(ResourceType.GROUP, "g", change),))


@pytest.mark.long
def test_nodes_that_answer_at_once_and_nodes_that_do_not_do_the_same() -> None:
    seeds = some(range(60))
    assert sum(map(_play, seeds)) > 10 * len(seeds), "hardly any heartbeat was answered at once"


def _play(seed: int) -> int:
    """Return the number of heartbeats that were answered at once."""
    random = Random(seed)
    pair = Pair(group_consumer_assignment_interval_ms=random.choice((0, 2_000)))
    members = [Member(pair, random, name) for name in "ABC"]
    for _ in range(120):
        if random.random() < 0.88:
            _take_turn(random, random.choice(members), members)
        else:
            _administer(random, pair)
    pair.compare()
    return pair.at_once


def _stable(**settings: Any) -> tuple[Pair, Member]:
    """Return a member whose heartbeats change nothing."""
    pair = Pair(**settings)
    member = Member(pair, Random(3), "A")
    member.instance = None
    given = {"subscribed_topic_names": ("T",), "topic_partitions": (), "rebalance_timeout_ms": 60_000}
    member.beat(**given)
    member.beat(topic_partitions=member.owned)
    member.reported = member.owned
    before = pair.at_once
    assert member.beat() is ErrorCode.NONE and pair.at_once == before + 1
    return pair, member


def test_a_heartbeat_answered_at_once_extends_the_session() -> None:
    pair, member = _stable()
    for _ in range(3):
        pair.wait(_SESSION_MS - 1)
        assert member.beat() is ErrorCode.NONE
    assert pair.at_once == 4
    pair.wait(_SESSION_MS)
    assert member.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_that_has_become_shorter_ends_sooner() -> None:
    pair, member = _stable()
    pair.inside(_setting("consumer.session.timeout.ms", "60000"))
    member.beat()
    pair.wait(46_000)
    member.beat()
    pair.wait(14_000)  # the timer now stands where the longer session ends
    pair.inside(_setting("consumer.session.timeout.ms", "45000"))
    assert member.beat() is ErrorCode.NONE
    pair.wait(_SESSION_MS)
    assert member.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_reply_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, member = _stable()
    member.beat()
    codecs = [codec for codec in _codecs(pair.quick) if codec.api.message is ConsumerGroupHeartbeat]
    assert codecs
    for codec in codecs:
        monkeypatch.setattr(codec, "_write", None)
    peer = pair.peers[member.number][0]
    (reply,) = peer.ask((ConsumerGroupHeartbeat("g", "A", member.epoch), _VERSION))
    assert isinstance(reply, ConsumerGroupHeartbeatReply) and reply.member_epoch == member.epoch


def _codecs(rig: KafkaNodeRig) -> list[Any]:
    (connection,) = list(rig.node.core.connections.values())[:1]
    session: Any = connection.session
    return list(session._dialect._codecs.values())


def test_a_heartbeat_waits_for_records_of_its_group() -> None:
    pair, member = _stable()
    rig, other = pair.quick, Peer(pair.quick, 99)
    rig.holds_disk = True
    topics = (OffsetCommitTopic("T", (OffsetCommitPartition(0, 5),)),)
    other.send((OffsetCommit("g", topics, member.epoch, "A"), 9))
    peer = pair.peers[member.number][0]
    assert peer.ask((ConsumerGroupHeartbeat("g", "A", member.epoch), _VERSION)) == []
    assert rig.node.core.outbox.held_replies == 2


def test_a_member_whose_heartbeats_wait_behind_its_commit_for_the_disk_is_not_fenced() -> None:
    pair, member = _stable()
    rig, peer = pair.quick, pair.peers[member.number][0]
    beat = (ConsumerGroupHeartbeat("g", "A", member.epoch), _VERSION)
    peer.ask(beat)
    rig.holds_disk = True
    topics = (OffsetCommitTopic("T", (OffsetCommitPartition(0, 5),)),)
    peer.send((OffsetCommit("g", topics, member.epoch, "A"), 9))
    for _ in range(5):  # 100 s, twice the session timeout
        rig.wait(20_000)
        assert peer.ask(beat) == []
    rig.holds_disk = False
    rig.flush()
    committed, *beats = peer.heard()
    assert isinstance(committed, OffsetCommitReply)
    assert [_code(one) for one in beats] == [ErrorCode.NONE] * 5
    rig.wait(44_900)
    assert [_code(one) for one in peer.ask(beat)] == [ErrorCode.NONE]
    rig.wait(45_100)  # silent, with nothing held up by the disk
    assert [_code(one) for one in peer.ask(beat)] == [ErrorCode.UNKNOWN_MEMBER_ID]


def _code(reply: Message) -> ErrorCode:
    assert isinstance(reply, ConsumerGroupHeartbeatReply)
    return reply.error_code


def test_a_permission_that_is_taken_away_counts_at_once() -> None:
    rig = AuditRig(group_consumer_assignment_interval_ms=0)
    rig.ask_as(ROOT, CreateTopics((CreatableTopic("T", 2),)))
    rules = [one._replace(principal="User:bob") for one in (rule(GROUP, OP.READ, "g"), rule(TOPIC, OP.READ, "T"))]
    rig.node.core.accounts.write([AclRecord(one, is_there=True) for one in rules], NOW)
    peer = Peer(rig, 1)
    log_in(rig, peer, user="bob")
    rig.wait(0)
    peer.ask((ConsumerGroupHeartbeat("g", "A", 0, None, None, 60_000, ("T",), None, None, ()), _VERSION))

    def beat() -> ErrorCode:
        (reply,) = peer.ask((ConsumerGroupHeartbeat("g", "A", 2), _VERSION))
        assert isinstance(reply, ConsumerGroupHeartbeatReply)
        return reply.error_code

    assert {beat() for _ in range(4)} == {ErrorCode.NONE}
    answered = rig.node.core.timings.requests[ConsumerGroupHeartbeat].counts
    assert sum(answered) == 2, "the join, and the first heartbeat; the others were answered at once"
    denied = AclRecord(rules[0]._replace(permission=AclPermission.DENY), is_there=True)
    rig.node.core.accounts.write([denied], NOW)
    assert beat() is ErrorCode.GROUP_AUTHORIZATION_FAILED
