"""Random histories of clients, the gateway and a broker: no request is answered twice or out of order (the client's
codec checks that), every request is answered or its connection closed, and acknowledged records are there."""

import random
from collections import Counter

import pytest

from coordinator.config.keys import UpstreamOffsets
from coordinator.gateway.session import session
from coordinator.node.events import Lost, Received
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartition, FetchTopic, Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import Heartbeat, JoinGroup, JoinProtocol, ListGroups
from protocol.messages.node import ApiVersions, DescribeNode, DescribeNodeReply, FindCoordinator, SaslHandshake
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataTopic
from protocol.record_batch import encode_batch
from tests.enumerations import share_of
from tests.upstream.pair import Pair

BATCH = encode_batch([(b"k", b"v" * 50)], timestamp_ms=1)
SEEDS, SHARES = max(20, share_of(60)), 1  # 20 meet all that is to be met
MARKS = (
    *("acknowledged", "cut", "lost upstreams", "garbage", "nonsense", "left", "passed"),
    *("Fetch", "Produce", "JoinGroup"),
)
"""Marks that each share of the histories must contain."""


class History:
    """A pair, and what is done to it, by one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seen = Counter[str]()
        adopts = self.random.choice(list(UpstreamOffsets))
        self.pair = Pair(upstream_offsets=adopts, upstream_ask_timeout_ms=2_000, upstream_request_timeout_ms=5_000)
        self.pair.find()
        self.pair.ask_broker(CreateTopics((CreatableTopic("orders", 3, 1),)), 5)
        self.next_number = 0
        self.next_offset = 0
        self.owed: dict[int, list[Message]] = {}
        self.acknowledged: set[str] = set()
        self.sent: dict[str, set[int]] = {}

    def live(self) -> list[int]:
        return [number for number in self.owed if number not in self.pair.closed]

    def request(self) -> tuple[Message, int]:
        pick = self.random.choice
        group = pick(("g", "h"))
        self.next_offset += 1
        part = OffsetCommitPartition(self.random.randrange(3), self.next_offset)
        topic = pick(("orders", "ghosts"))
        self.sent.setdefault(f"{group} {topic} {part.partition_index}", set()).add(self.next_offset)
        choices: list[tuple[Message, int]] = [
            (ApiVersions("c", "1"), 3),
            (Metadata((MetadataTopic(pick(("orders", "ghosts"))),)), pick((4, 9, 12))),
            (FindCoordinator((group,), 0), pick((0, 3, 4))),
            (Heartbeat(group, 1, "nobody"), 3),
            (ListGroups(), 3),
            (JoinGroup(group, 6_000, "", "consumer", (JoinProtocol("range", b"x"),), 6_000), 3),
            (OffsetCommit(group, (OffsetCommitTopic(topic, (part,)),)), 8),
            (OffsetFetch((OffsetFetchGroup(group),)), 8),
            (Produce((ProduceTopic("orders", (ProducePartition(0, BATCH),)),), pick((-1, 1))), 9),
            (Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),), max_wait_ms=pick((0, 400)), min_bytes=1), 12),
        ]
        return pick(choices)

    def connects(self) -> None:
        self.next_number += 1
        self.pair.connect(self.next_number, self.random.choice((1, 1, 1, 2)) if 2 in self.known else 1)
        self.owed[self.next_number] = []

    @property
    def known(self) -> dict[int, object]:
        return dict(self.pair.node.brokers.known)

    def asks(self) -> None:
        if not self.live():
            return
        number = self.random.choice(self.live())
        data = b""
        for _ in range(self.random.choice((1, 1, 2, 5))):
            message, version = self.request()
            self.owed[number].append(message)
            data += self.pair.encode(number, message, version)
        while data:
            size = self.random.choice((1, 7, 60, 10_000))
            self.pair.front.step(Received(number, data[:size]))
            data = data[size:]

    def asks_nonsense(self) -> None:
        if self.live() and self.random.random() < 0.3:
            number = self.random.choice(self.live())
            message = SaslHandshake("PLAIN")
            nonsense = (self.random.randbytes(30), self.pair.encode(number, message, 0))
            self.pair.front.step(Received(number, self.random.choice(nonsense)))
            self.owed[number].append(message)
            self.seen["nonsense"] += 1

    def leaves(self) -> None:
        if self.live():
            number = self.random.choice(self.live())
            self.pair.front.step(Lost(number))
            self.pair.closed[number] = "left"
            self.seen["left"] += 1

    def carries(self) -> None:
        self.pair.carry_some(self.random)

    def rests(self) -> None:
        self.pair.run()

    def waits(self) -> None:
        self.pair.wait(self.random.choice((50, 500, 1_500)))

    def cut(self) -> None:
        self.pair.is_cut = not self.pair.is_cut
        if self.pair.is_cut:
            self.seen["cut"] += 1
            self.pair.lose_upstreams("cut")
            if self.random.random() < 0.5:
                self.pair.away()
        else:
            self.pair.find(*self.random.choice(((), (2,))))

    def falls_silent(self) -> None:
        self.pair.is_silent = self.pair.holds_questions = not self.pair.is_silent
        self.seen["silent"] += 1

    def breaks(self) -> None:
        self.seen["lost upstreams"] += len(self.pair._upstreams)
        self.pair.lose_upstreams("reset")

    def garbage(self) -> None:
        if self.live() and self.random.random() < 0.3:
            self.pair.arrive(self.random.choice(self.live()), self.random.randbytes(12), can_splice=False)
            self.seen["garbage"] += 1

    def look(self) -> None:
        """At what has been answered."""
        for number, owed in self.owed.items():
            heard, self.pair.heard[number] = self.pair.heard[number], []
            for reply in heard:
                message = owed.pop(0)
                self.seen[type(message).__name__] += 1
                if isinstance(reply, OffsetCommitReply) and isinstance(message, OffsetCommit):
                    self.note(message, reply)

    def note(self, message: OffsetCommit, reply: OffsetCommitReply) -> None:
        part = reply.topics[0].partitions[0]
        if part.error_code is ErrorCode.NONE:
            key = f"{message.group_id} {message.topics[0].name} {part.partition_index}"
            self.acknowledged.add(key)
            self.seen["acknowledged"] += 1

    def heal(self) -> None:
        self.pair.is_cut = self.pair.is_silent = self.pair.holds_questions = False
        self.pair.find()
        for _ in range(120):  # each join may wait for members that are gone
            self.pair.wait(1_000)
        self.look()


@pytest.fixture(autouse=True)
def _short_answers_pass_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SPLICE_MIN_BYTES", 20)


@pytest.mark.parametrize("share", range(SHARES))
def test_every_request_is_answered_in_order_or_its_connection_is_closed(share: int) -> None:
    total = Counter[str]()
    for seed in range(share, SEEDS, SHARES):
        total.update(told(seed))
    assert [mark for mark in MARKS if not total[mark]] == []


def told(seed: int) -> Counter[str]:
    """Play one history, check what came of it, and return what was in it."""
    history = History(seed)
    steps = [
        *[history.asks] * 10,
        *[history.carries] * 8,
        *[history.connects] * 3,
        *[history.waits] * 3,
        history.rests,
        history.leaves,
        history.cut,
        history.breaks,
        history.falls_silent,
        history.garbage,
        history.asks_nonsense,
    ]
    for _ in range(120):
        history.random.choice(steps)()
        history.pair.front.rest()
        history.look()
    history.heal()
    history.seen["passed"] += history.pair.spliced_bytes
    for number in history.live():
        assert history.owed[number] == [], f"connection {number} waits for ever"
    for key in history.acknowledged:
        group, topic, partition = key.split()
        # Which one came last is for those to say who were not held up behind a broker.
        assert committed(history.pair, group, topic, int(partition)) in history.sent[key]
    assert isinstance(history.pair.ask_inside(DescribeNode()), DescribeNodeReply)
    assert set(history.pair.node.proxied.timeouts.watched) <= set(history.live())
    return history.seen


def committed(pair: Pair, group: str, topic: str, partition: int) -> int:
    reply = pair.ask_inside(OffsetFetch((OffsetFetchGroup(group),)))
    assert isinstance(reply, OffsetFetchReply)
    offsets = {
        (one.name, part.partition_index): part.committed_offset
        for one in reply.groups[0].topics
        for part in one.partitions
    }
    return offsets[topic, partition]
