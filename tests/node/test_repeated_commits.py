"""Commits served by the plan of their connection leave the node exactly as commits that are read and decided anew: two
nodes get the same requests, and one of them takes the long way always."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import asdict

from coordinator.accounts.records import AclRecord
from coordinator.handlers.repeated_commit import plan_of
from coordinator.node.events import Lost
from coordinator.runtime.kinds.commit_plan import CommitPlan
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclPermission
from protocol.messages.configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigs, ResourceType
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import (
    ApplyOffsets,
    DeleteGroups,
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListNotes,
    OffsetChange,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.offsets import (
    EndTransaction,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitTopic,
)
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
from tests.node.test_throttling import ThrottledRig
from tests.simulation.replay import compare_with_replay

TOPICS = {"orders": 4, "returns": 2}
SESSION_MS = 6_000
_OFFER = JoinProtocol("range", encode_subscription(Subscription(tuple(TOPICS))))


class Pair:
    """The same requests to two nodes: `quick`, and `slow`, which serves every commit as the first of its kind."""

    def __init__(self, **settings: Any) -> None:
        self.quick, self.slow = (KafkaNodeRig(offsets_topic_num_partitions=1, **settings) for _ in range(2))
        self.slow.node.serving.repeated.is_off = True
        self._peers: dict[int, tuple[Peer, Peer]] = {}
        self._last = 0
        for name, partitions in TOPICS.items():
            self.inside(CreateTopics((CreatableTopic(name, partitions),)))

    @property
    def rigs(self) -> tuple[KafkaNodeRig, KafkaNodeRig]:
        return self.quick, self.slow

    def open(self) -> int:
        self._last += 1
        self._peers[self._last] = Peer(self.quick, self._last), Peer(self.slow, self._last)
        return self._last

    def lose(self, number: int) -> None:
        for rig in self.rigs:
            rig.step(Lost(number))

    def ask(self, number: int, message: Message, version: int) -> list[Message]:
        """Replies to this request and to those that waited; both nodes must give the same."""
        said = [peer.ask((message, version)) for peer in self._peers[number]]
        assert said[0] == said[1], message
        return said[0]

    def inside(self, message: Message, *, rests: bool = True) -> Any:
        """The reply to a request from inside the process. What it began is ended if both nodes may rest."""
        for rig in self.rigs:
            rig.replied.pop(7, None)
        said = [rig.ask_inside(message, 7) for rig in self.rigs]
        if rests:
            self.wait(0)
        assert said[0] == said[1], message
        return said[0]

    def wait(self, ms: int) -> None:
        for rig in self.rigs:
            rig.wait(ms)

    def compare(self) -> None:
        quick, slow = (image(rig) for rig in self.rigs)
        for name, was in slow.items():
            assert quick[name] == was, name
        notes = [rig.ask_inside(ListNotes("g", limit=1_000), 8) for rig in self.rigs]
        assert notes[0] == notes[1]


def image(rig: KafkaNodeRig) -> dict[str, Any]:
    """All that a commit may change."""
    (shard,) = rig.node.core.shards
    table, groups = shard.offsets, shard.groups
    log = shard.log.files
    assert log is not None
    return {
        "log": [bytes(batch) for _, batch in log.batches_from(log.start_offset)],
        "offsets": {group: {topic: dict(kept) for topic, kept in table.topics(group).items()} for group in groups},
        "origins": {
            (group, *place): (origin[0], asdict(origin[1]))
            for group in groups
            for place in table.partitions(group)
            if (origin := table.origin_of(group, *place)) is not None
        },
        "count": table.count,
        "names": table.topic_names,
        "expiry": {group: shard.expirations.get(group) for group in groups},
        "states": {group: (one.classic.state, one.classic.generation_id) for group, one in groups.items()},
        "members": {
            member_id: (member.deadline_ms, member.committed_ms, member.heard_ms, member.connection)
            for one in groups.values()
            for member_id, member in one.classic.members.items()
        },
        "position": rig.store.position,
        "answered": rig.node.core.timings.requests[OffsetCommit].counts,
    }


class Member:
    """A member of `g` with a connection, and what it commits. Its generation may be an old one."""

    def __init__(self, pair: Pair, random: Random, version: int) -> None:
        self.pair, self.random, self.version = pair, random, version
        self.number = pair.open()
        self.member_id, self.generation_id = "", -1
        self.offsets: Counter[tuple[str, int]] = Counter()
        self.places = self.drawn()

    def drawn(self) -> list[tuple[str, int]]:
        every = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
        return sorted(self.random.sample(every, self.random.randint(1, 4)))

    def ask(self, message: Message, version: int) -> None:
        """Send a request, and take what its reply and earlier ones say. A join may wait for other members."""
        for reply in self.pair.ask(self.number, message, version):
            if not isinstance(reply, JoinGroupReply):
                continue
            if reply.error_code is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = reply.member_id
                self.ask(self._join(), 5)
            elif reply.error_code:
                self.member_id, self.generation_id = "", -1
            else:
                self.member_id, self.generation_id = reply.member_id, reply.generation_id
                given = (SyncGroupAssignment(self.member_id, b"all"),)
                self.ask(SyncGroup("g", self.generation_id, self.member_id, None, "consumer", "range", given), 5)

    def join(self) -> None:
        self.ask(self._join(), 5)

    def _join(self) -> JoinGroup:
        return JoinGroup("g", SESSION_MS, self.member_id, "consumer", (_OFFER,), SESSION_MS)

    def commit(self, *, is_plain: bool = False) -> None:
        for place in self.places:
            self.offsets[place] += self.random.choice((0, 1, 1, 1, 5, 100))
            if not is_plain and self.random.random() < 0.02:
                self.offsets[place] = self.random.randint(0, self.offsets[place])
        text = "text" if not is_plain and self.random.random() < 0.02 else ""
        topics = []
        for name in dict.fromkeys(topic for topic, _ in self.places):
            parts = [
                OffsetCommitPartition(index, self.offsets[topic, index], -1, text)
                for topic, index in self.places
                if topic == name
            ]
            topic_id = self.pair.quick.node.core.topics.id_of(name) or bytes(16) if self.version >= 10 else bytes(16)
            topics.append(OffsetCommitTopic("" if self.version >= 10 else name, tuple(parts), topic_id))
        message = OffsetCommit("g", tuple(topics), self.generation_id, self.member_id)
        self.ask(message, self.version)

    def beat(self) -> None:
        self.ask(Heartbeat("g", self.generation_id, self.member_id), 4)

    def reconnect(self) -> None:
        self.pair.lose(self.number)
        self.number = self.pair.open()

    def leave(self) -> None:
        self.ask(LeaveGroup("g", (LeavingMember(self.member_id),)), 4)


def alter(pair: Pair, key: str, value: str) -> None:
    change = AlterConfigsResource(ResourceType.GROUP, "g", (AlterableConfig(key, 0, value),))
    pair.inside(IncrementalAlterConfigs((change,)))


def pend(pair: Pair, random: Random) -> None:
    part = TxnOffsetCommitPartition(random.randrange(4), random.randrange(1_000))
    pair.inside(TxnOffsetCommit("tx", "g", 7, 0, (TxnOffsetCommitTopic("orders", (part,)),)))


def fill(pair: Pair, is_full: bool) -> None:
    for rig in pair.rigs:
        rig.store.disk_full = is_full


def remake(pair: Pair, member: Member) -> None:
    """Delete a topic, commit before its offsets are deleted too, and make it again."""
    pair.inside(DeleteTopics((DeletableTopic("returns"),)), rests=False)
    member.commit()
    pair.compare()
    pair.wait(1_000)
    pair.inside(CreateTopics((CreatableTopic("returns", 2),)))


def visit(pair: Pair) -> None:
    """Do what a pass of the expiry does with a group that never expires as it is."""
    for rig in pair.rigs:
        rig.node.core.shards[0].expirations.remove("g")


def beat_as_consumer(pair: Pair, epoch: int) -> None:
    """Let a consumer that the coordinator balances join the group, which converts it, or leave."""
    own: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ("orders",),
        "topic_partitions": (),
    }
    pair.inside(ConsumerGroupHeartbeat("g", "balanced", epoch, **(own if epoch == 0 else {})))


def mishaps(pair: Pair, member: Member, random: Random) -> list[Callable[[], object]]:
    """Return what else may happen between two commits."""
    stranger = (OffsetCommitTopic("orders", (OffsetCommitPartition(0, random.randrange(50)),)),)
    return [
        member.reconnect,
        member.leave,
        member.join,
        member.join,
        lambda: setattr(member, "places", member.drawn()),
        lambda: setattr(member, "generation_id", member.generation_id + 1),
        lambda: pair.wait(random.choice((1, 1_000, SESSION_MS - 1, SESSION_MS + 1))),
        lambda: pair.inside(CreatePartitions((GrowingTopic("orders", 4 + random.randrange(3)),))),
        lambda: remake(pair, member),
        lambda: visit(pair),
        lambda: alter(pair, "group.offsets.backward", random.choice(("allowed", "rejected", "flagged"))),
        lambda: pend(pair, random),
        lambda: pair.inside(EndTransaction(7, 0, random.random() < 0.5, 0)),
        lambda: pair.inside(OffsetDelete("g", (OffsetDeleteTopic("returns", (0, 1)),))),
        lambda: pair.inside(OffsetCommit("g", stranger)),
        lambda: pair.inside(DeleteGroups(("g",))),
        lambda: beat_as_consumer(pair, 0),
        lambda: beat_as_consumer(pair, -1),
        lambda: beat_as_consumer(pair, -1),
        lambda: fill(pair, is_full=True),
        lambda: fill(pair, is_full=False),
    ]


@pytest.mark.parametrize("seed", some(range(60)))
def test_both_roads_leave_the_same_node(seed: int) -> None:
    random = Random(seed)
    pair = Pair()
    members = [Member(pair, random, random.choice((2, 5, 7, 8, 9, 10))) for _ in range(random.choice((1, 1, 2)))]
    for member in members:
        member.join()
        member.commit()
    for _ in range(120):
        member = random.choice(members)
        if random.random() < 0.06:
            random.choice(mishaps(pair, member, random))()
        elif random.random() < 0.2:
            member.beat()
        else:
            member.commit()
        pair.wait(random.choice((0, 1, 40)))
        pair.compare()
    fill(pair, is_full=False)
    compare_with_replay(pair.quick.node)
    assert "commits_repeated" not in pair.slow.node.core.counters
    assert pair.inside(ListNotes("g")).notes


@pytest.mark.parametrize("version", [2, 7, 8, 9, 10])
def test_a_member_that_commits_again_and_again_is_served_by_its_plan(version: int) -> None:
    pair = Pair()
    member = Member(pair, Random(version), version)
    member.join()
    for _ in range(40):
        member.commit(is_plain=True)
    assert pair.quick.node.core.counters["commits_repeated"] == 37  # two are read, and one makes the plan
    pair.compare()


def joined(rig: KafkaNodeRig, peer: Peer) -> Callable[[int], OffsetCommitReply]:
    """Make the peer the only member of `g`; what it returns commits an offset."""
    asking = JoinGroup("g", SESSION_MS, "", "consumer", (_OFFER,), SESSION_MS)

    def ask(message: Message, version: int) -> Any:
        said = peer.ask((message, version))
        rig.wait(0)
        (reply,) = said or peer.heard()
        return reply

    member = ask(asking, 3)
    assert not member.error_code
    given = (SyncGroupAssignment(member.member_id, b"all"),)
    assert not ask(SyncGroup("g", member.generation_id, member.member_id, assignments=given), 2).error_code

    def commit(offset: int) -> OffsetCommitReply:
        topics = (OffsetCommitTopic("orders", (OffsetCommitPartition(0, offset),)),)
        reply: OffsetCommitReply = ask(OffsetCommit("g", topics, member.generation_id, member.member_id), 7)
        return reply

    return commit


def code_of(reply: OffsetCommitReply) -> ErrorCode:
    return reply.topics[0].partitions[0].error_code


def test_a_permission_that_is_taken_away_counts_at_once() -> None:
    rig = AuditRig()
    rig.ask_as(ROOT, CreateTopics((CreatableTopic("orders", 2),)))
    read = [rule(GROUP, OP.READ, "g"), rule(TOPIC, OP.READ, "orders")]
    rules = [one._replace(principal="User:bob") for one in read]
    rig.node.core.accounts.write([AclRecord(one, is_there=True) for one in rules], NOW)
    peer = Peer(rig, 1)
    log_in(rig, peer, user="bob")
    rig.wait(0)
    commit = joined(rig, peer)
    assert {code_of(commit(offset)) for offset in range(6)} == {ErrorCode.NONE}
    assert rig.node.core.counters["commits_repeated"] == 3
    denied = [one._replace(permission=AclPermission.DENY) for one in rules]
    codes = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for one, code in zip(denied, codes, strict=True):
        for is_there, expected in ((True, code), (False, ErrorCode.NONE)):
            rig.node.core.accounts.write([AclRecord(one, is_there=is_there)], NOW)
            assert {code_of(commit(7)) for _ in range(4)} == {expected}


def test_a_permission_for_a_topic_without_a_name_is_none_for_topics_named_by_their_ids() -> None:
    rig = AuditRig()
    rig.ask_as(ROOT, CreateTopics((CreatableTopic("orders", 2), CreatableTopic("wages", 2))))
    allowed = [rule(GROUP, OP.READ, "g"), rule(TOPIC, OP.READ, "*")]
    denied = rule(TOPIC, OP.ALL, "wages", AclPermission.DENY)
    rules = [one._replace(principal="User:bob") for one in (*allowed, denied)]
    rig.node.core.accounts.write([AclRecord(one, is_there=True) for one in rules], NOW)
    peer = Peer(rig, 1, "10.9.9.9")
    log_in(rig, peer, user="bob")
    rig.wait(0)
    # Requests that name a topic "", which the rule on all topics permits.
    peer.ask((ConsumerGroupHeartbeat("none", "m", subscribed_topic_names=("",)), 0))
    rig.ask_as("User:bob", ApplyOffsets("g", (OffsetChange("", 0, -1, 5),)))
    topic_id = rig.node.core.topics.id_of("wages") or b""
    topics = (OffsetCommitTopic("", (OffsetCommitPartition(0, 5),), topic_id),)
    (committed,) = peer.ask((OffsetCommit("g", topics), 10))
    assert isinstance(committed, OffsetCommitReply) and code_of(committed) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    asked = OffsetFetchGroup("g", (OffsetFetchTopic("", (0,), topic_id),), wants_topic_ids=True)
    (fetched,) = peer.ask((OffsetFetch((asked,)), 10))
    assert isinstance(fetched, OffsetFetchReply)
    assert fetched.groups[0].topics[0].partitions[0].error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_commits_that_count_against_a_limit_are_counted() -> None:
    rig = ThrottledRig()
    commit = joined(rig, Peer(rig, 1))
    for offset in range(6):
        assert commit(offset).throttle_time_ms == 0
    assert rig.node.core.counters["commits_repeated"] == 3
    rig.limit("commit_rate", 1)
    waits = []
    for offset in range(4):
        waits.append(commit(10 + offset).throttle_time_ms)
        rig.wait(waits[-1])
    assert max(waits) > 0 and rig.node.core.counters["commits_repeated"] == 3


def test_commits_that_need_more_than_offsets_have_no_plan() -> None:
    rig = KafkaNodeRig()
    rig.make_topic("orders", 4)
    joined(rig, Peer(rig, 1))(5)
    (group,) = rig.node.core.directory.values()
    (member_id,) = group.classic.members
    part = OffsetCommitPartition(0, 5)

    def plan(*parts: OffsetCommitPartition, **changes: Any) -> CommitPlan | None:
        topics = (OffsetCommitTopic("orders", parts or (part,)),)
        given = {"group_id": "g", "topics": topics, "generation_id": 1, "member_id": member_id}
        return plan_of(rig.node.core, 1, OffsetCommit(**{**given, **changes}))

    assert plan() is not None
    assert plan(generation_id=-1) is None, "it may be a reset"
    assert plan(retention_time_ms=1_000) is None
    assert plan(group_id="other") is None and plan(topics=()) is None
    assert plan(part, part) is None, "the second would follow the first"
    assert plan(part, OffsetCommitPartition(1, 5)) is None, "nothing is committed there yet"
    assert plan(OffsetCommitPartition(0, 5, -1, "text")) is None
    assert plan(OffsetCommitPartition(0, 5, commit_timestamp_ms=1)) is None
    assert plan(topics=(OffsetCommitTopic("orders", (part,)),) * 2) is None


def test_a_commit_overtakes_what_a_transaction_has_pending() -> None:
    pair = Pair()
    member = Member(pair, Random(1), 7)
    member.places = [("orders", 0)]
    member.join()
    for _ in range(6):
        member.commit(is_plain=True)
    part = TxnOffsetCommitPartition(0, 999)
    pair.inside(TxnOffsetCommit("tx", "g", 7, 0, (TxnOffsetCommitTopic("orders", (part,)),)))
    member.commit(is_plain=True)
    pair.inside(EndTransaction(7, 0, True, 0))
    (shard,) = pair.quick.node.core.shards
    kept = shard.offsets.get("g", "orders", 0)
    assert kept is not None and kept.offset == member.offsets["orders", 0] != 999
    pair.compare()


def test_while_a_transaction_is_pending_commits_keep_their_plan() -> None:
    pair = Pair()
    member = Member(pair, Random(1), 7)
    member.join()
    for _ in range(4):
        member.commit(is_plain=True)
    connection = pair.quick.node.core.connections[member.number]
    plan = connection.commit_plan
    part = TxnOffsetCommitPartition(0, 999)
    pair.inside(TxnOffsetCommit("tx", "another", 7, 0, (TxnOffsetCommitTopic("orders", (part,)),)))
    served = pair.quick.node.core.counters["commits_repeated"]
    for _ in range(3):
        member.commit(is_plain=True)
    assert connection.commit_plan is plan is not None
    pair.inside(EndTransaction(7, 0, True, 0))
    member.commit(is_plain=True)
    assert pair.quick.node.core.counters["commits_repeated"] == served + 1
    pair.compare()
