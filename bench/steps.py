"""Longest step of a node with very large requests: `python -m bench steps`. Heartbeats of all clients wait behind a
step. There is no process and no socket; disk jobs are left out, since they run outside the loop. Times are processor
times, without other work of the machine.
"""

import gc
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.processes import scratch
from bench.report import Options, Sheet, Value, median
from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.io.ids import RandomIds
from coordinator.node.effects import Flush, Return, RunJob, Send
from coordinator.node.events import Call, Event, Flushed, JobDone, Opened, Received, Woke
from coordinator.node.node import Node
from partition_log.disk.disk import OsDisk
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from protocol.messages.groups import (
    DeleteGroups,
    DeleteGroupsReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListGroups,
    ListGroupsReply,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.offsets import (
    DescribeExpiry,
    DescribeExpiryReply,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetDeleteTopic,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply

GROUPS, DELETED = 100_000, 10_000
MEMBERS, TOPICS = 5_000, 50
OFFSETS, OFFSETS_A_TOPIC = 200_000, 5_000
STATIC_MEMBERS, RESTARTS = 10_000, 20
CONVERTED = (100, 1_000, 5_000)
"""Members of groups that change their protocol."""
GOAL_MS = 20.0
_QUICK = 10
"""A quick run has so many times less of everything."""
_TEN_MINUTES_MS = 600_000
_SESSION_MS = 1_800_000
_BATCH_BYTES = 1 << 23
"""Size that a batch may have: a group that changes its protocol is one."""

M = TypeVar("M", bound=Message)


class Took(NamedTuple):
    """One request, or one pass."""

    longest_ms: float
    steps: int
    all_ms: float


class Rig:
    """A node, and the moments and jobs that an edge would give it."""

    def __init__(self, folder: Path) -> None:
        self._disk = OsDisk()
        self.store = LogStore(self._disk, str(folder / "data"), StoreLimits(max_batch_bytes=_BATCH_BYTES))
        self.store.open()
        self._now_ms = 0
        self._replied: dict[int, Message] = {}
        self._call = self._sent_bytes = 0
        config = Config(
            offsets_topic_num_partitions=50,
            group_initial_rebalance_delay_ms=1_000,
            group_max_metadata_bytes=1 << 28,
            offsets_topic_max_message_bytes=_BATCH_BYTES,
        )
        self.node = Node(config, self.store, RandomIds(), {}, self._moment())
        self.rest()

    def _moment(self) -> Moment:
        return Moment(self._now_ms, 1_700_000_000_000 + self._now_ms)

    def _step(self, event: Event) -> float:
        """Milliseconds of the step; what it wants done is done, and told in steps of its own."""
        began = time.thread_time()
        effects = self.node.step(event, self._moment())
        took = time.thread_time() - began
        for effect in effects:
            if isinstance(effect, Return):
                self._replied[effect.call_id] = effect.reply
            elif isinstance(effect, Flush):
                effect.job.run(self._disk)
                self._step(Flushed(effect.job.up_to))
            elif isinstance(effect, Send):
                self._sent_bytes += len(effect.data)
            elif isinstance(effect, RunJob):
                effect.job.run(self._disk)
                self._step(JobDone(effect.call_id, effect.job))
        return took * 1_000

    def rest(self, until_ms: int = 0) -> Took:
        """Wake the node whenever it wants, until nothing is left to do before then."""
        took: list[float] = []
        while True:
            deadline_ms = self.node.next_deadline_ms
            if deadline_ms is None or deadline_ms > max(until_ms, self._now_ms):
                break
            self._now_ms = max(self._now_ms, deadline_ms)
            took.append(self._step(Woke()))
        self._now_ms = max(self._now_ms, until_ms)
        return _all(took)

    def wait(self, ms: int) -> Took:
        return self.rest(self._now_ms + ms)

    def begin(self, message: Message) -> int:
        """Ask, and do not wait for the answer."""
        self._call += 1
        self._step(Call(self._call, message))
        return self._call

    def answer(self, call: int, kind: type[M]) -> M:
        reply = self._replied.pop(call)
        assert isinstance(reply, kind), reply
        return reply

    def ask(self, message: Message, kind: type[M]) -> tuple[M, Took]:
        """Ask, and wake the node until it has answered."""
        self._call += 1
        took = [self._step(Call(self._call, message))]
        while self._call not in self._replied:
            self._now_ms += 1
            took.append(self._step(Woke()))
        return self.answer(self._call, kind), _all(took)

    def ask_as_kafka(self, message: Message, version: int) -> tuple[int, Took]:
        """The same over a connection of Kafka's protocol. Bytes of the answer, which are made in steps too."""
        self._sent_bytes = 0
        self._step(Opened(1, "kafka", "127.0.0.1"))
        data = KafkaClient("bench", 1 << 30).encode_request(message, version)[1]
        took = [self._step(Received(1, data))]
        while not self._sent_bytes:
            self._now_ms += 1
            took.append(self._step(Woke()))
        return self._sent_bytes, _all(took)


def _all(took: Sequence[float]) -> Took:
    return Took(max(took, default=0.0), len(took), sum(took))


def measure(options: Options) -> list[Sheet]:
    by = _QUICK if options.quick else 1
    rows: list[tuple[Value, ...]] = []
    for part in (_many_groups, _alike, _different, _many_offsets, _static_restarts, _conversions):
        rounds = [_run(part, by) for _ in range(options.rounds)]
        for name in rounds[0]:
            columns = [median(column) for column in zip(*(one[name] for one in rounds), strict=True)]
            rows.append((name, columns[0], GOAL_MS, int(columns[1]), columns[2]))
    return [
        Sheet(
            "The longest step",
            ("operation", "longest step ms", "goal ms", "steps", "all steps ms"),
            rows,
            ("Processor time of the node; the disk's work, which is done beside it, is left out.",),
        )
    ]


Part = Callable[[Rig, int], dict[str, Took]]


def _run(part: Part, by: int) -> dict[str, Took]:
    with scratch(in_memory=True) as folder:
        rig = Rig(folder)
        gc.collect()
        gc.disable()  # the daemon has it look rarely, and never through what stays
        try:
            return part(rig, by)
        finally:
            gc.enable()


def _many_groups(rig: Rig, by: int) -> dict[str, Took]:
    count, deleted = GROUPS // by, DELETED // by
    _make_topic(rig, "orders", 4)
    for number in range(count):
        _commit(rig, OffsetCommit(_name(number), (_parts("orders", range(4)),)))
    node, probing = rig.ask(DescribeNode(), DescribeNodeReply)
    assert node.gauges["groups"] == count
    listed, listing = rig.ask(ListGroups(), ListGroupsReply)
    assert len(listed.groups) == count
    size, listing_to_kafka = rig.ask_as_kafka(ListGroups(), 4)
    assert size > count * len(_name(0))
    page, paging = rig.ask(ListGroups(after=_name(count // 2), limit=1_000), ListGroupsReply)
    assert len(page.groups) == 1_000
    gone, deleting = rig.ask(DeleteGroups(tuple(map(_name, range(deleted)))), DeleteGroupsReply)
    assert not any(one.error_code for one in gone.results)
    return {
        f"DescribeNode (/readyz), {count:,} groups": probing,
        f"ListGroups, {count:,} groups": listing,
        f"ListGroups, {count:,} groups, and its bytes for a Kafka client": listing_to_kafka,
        f"a page of 1,000 of {count:,} groups": paging,
        f"DeleteGroups, {deleted:,} groups": deleting,
    }


def _name(number: int) -> str:
    return f"group-{number:07}"


def _alike(rig: Rig, by: int) -> dict[str, Took]:
    return _subscribed(rig, by, lambda _number: 0, "all the same")


def _different(rig: Rig, by: int) -> dict[str, Took]:
    return _subscribed(rig, by, lambda number: number, "all different")


def _subscribed(rig: Rig, by: int, first: Callable[[int], int], words: str) -> dict[str, Took]:
    """Three groups, since what was asked once is known."""
    members = MEMBERS // by
    _make_topic(rig, "orders", 4)
    for group_id in ("a", "b", "c"):
        topics = (tuple(f"topic-{first(number)}-{topic:04}" for topic in range(TOPICS)) for number in range(members))
        offers = (encode_subscription(Subscription(names)) for names in topics)
        leader = _gather(rig, group_id, [JoinProtocol("range", offer) for offer in offers])
        commit = OffsetCommit(group_id, (_parts("orders", range(4)),), leader.generation_id, leader.member_id)
        _commit(rig, commit)
    deleted, deleting = rig.ask(OffsetDelete("a", (OffsetDeleteTopic("orders", (0,)),)), OffsetDeleteReply)
    assert not deleted.topics[0].partitions[0].error_code
    told, describing = rig.ask(DescribeExpiry("b", 10), DescribeExpiryReply)
    assert len(told.offsets) == 4
    expiring = rig.wait(_TEN_MINUTES_MS)
    what = f"{members:,} members x {TOPICS} topics, {words}"
    return {
        f"OffsetDelete, {what}": deleting,
        f"DescribeExpiry, {what}": describing,
        f"expiry pass, {what}": expiring,
    }


def _many_offsets(rig: Rig, by: int) -> dict[str, Took]:
    count = OFFSETS // by
    for first in range(0, count, OFFSETS_A_TOPIC):
        _make_topic(rig, f"t{first}", OFFSETS_A_TOPIC)
        for start in range(0, OFFSETS_A_TOPIC, 1_000):
            _commit(rig, OffsetCommit("g", (_parts(f"t{first}", range(start, start + 1_000)),)))
    told, describing = rig.ask(DescribeExpiry("g", 1), DescribeExpiryReply)
    assert told.has_more
    deleted, deleting = rig.ask(OffsetDelete("g", (OffsetDeleteTopic("t0", (0,)),)), OffsetDeleteReply)
    assert not deleted.topics[0].partitions[0].error_code
    gone, going = rig.ask(DeleteGroups(("g",)), DeleteGroupsReply)
    assert not gone.results[0].error_code
    return {
        f"DescribeExpiry, a group of {count:,} offsets": describing,
        f"OffsetDelete of one of {count:,} offsets": deleting,
        f"DeleteGroups, one group of {count:,} offsets": going,
    }


def _static_restarts(rig: Rig, by: int) -> dict[str, Took]:
    count = STATIC_MEMBERS // by
    offers = [JoinProtocol("range", bytes(60))] * count
    _gather(rig, "g", offers, is_static=True)
    before, took = rig.store.position, []
    for number in range(RESTARTS):
        joined, one = rig.ask(_joining("g", offers[number], f"instance-{number}"), JoinGroupReply)
        assert not joined.error_code
        took.append(one)
    log_bytes = (rig.store.position - before) // RESTARTS
    name = f"a static member's restart, group of {count:,} ({log_bytes:,} bytes of log)"
    return {name: Took(max(one.longest_ms for one in took), 1, median([one.all_ms for one in took]))}


def _conversions(rig: Rig, by: int) -> dict[str, Took]:
    """A member of the other protocol joins a classic group, and leaves it again. Each member has a partition."""
    found = {}
    for members in [count // by for count in CONVERTED]:
        group_id, topic = f"g-{members}", f"t-{members}"
        _make_topic(rig, topic, members)
        offer = JoinProtocol("range", encode_subscription(Subscription((topic,))))
        shares = [encode_assignment(Assignment((TopicPartitions(topic, (number,)),))) for number in range(members)]
        _gather(rig, group_id, [offer] * members, shares)
        before = rig.store.position
        joining = ConsumerGroupHeartbeat(group_id, "new", 0, None, None, _SESSION_MS, (topic,), topic_partitions=())
        joined, upgrading = rig.ask(joining, ConsumerGroupHeartbeatReply)
        assert not joined.error_code, joined
        log_bytes = rig.store.position - before
        rig.wait(1)  # a target in slices
        left, downgrading = rig.ask(ConsumerGroupHeartbeat(group_id, "new", -1), ConsumerGroupHeartbeatReply)
        assert not left.error_code, left
        (listed,) = [one for one in rig.ask(ListGroups(), ListGroupsReply)[0].groups if one.group_id == group_id]
        assert listed.group_type == "classic", listed
        found[f"upgrade, {members:,} classic members ({log_bytes:,} bytes of log)"] = upgrading
        found[f"downgrade, {members:,} classic members"] = downgrading
    return found


# --- what is there before ---


def _make_topic(rig: Rig, name: str, partitions: int) -> None:
    reply, _ = rig.ask(CreateTopics((CreatableTopic(name, partitions),)), CreateTopicsReply)
    assert not reply.topics[0].error_code, reply


def _parts(topic: str, partitions: range) -> OffsetCommitTopic:
    return OffsetCommitTopic(topic, tuple([OffsetCommitPartition(partition, 7) for partition in partitions]))


def _commit(rig: Rig, message: OffsetCommit) -> None:
    reply, _ = rig.ask(message, OffsetCommitReply)
    assert not reply.topics[0].partitions[0].error_code, reply


def _joining(group_id: str, offer: JoinProtocol, instance_id: str | None = None) -> JoinGroup:
    return JoinGroup(
        group_id, _SESSION_MS, "", "consumer", (offer,), _SESSION_MS, instance_id, wants_member_id_first=False
    )


def _gather(
    rig: Rig,
    group_id: str,
    offers: Sequence[JoinProtocol],
    shares: Sequence[bytes] = (),
    *,
    is_static: bool = False,
) -> JoinGroupReply:
    """Let a group become Stable, with these assignments or some. What its leader was told."""
    calls = [
        rig.begin(_joining(group_id, offer, f"instance-{number}" if is_static else None))
        for number, offer in enumerate(offers)
    ]
    rig.wait(3_000)
    joined = [rig.answer(call, JoinGroupReply) for call in calls]
    leader = next(one for one in joined if one.member_id == one.leader)
    shares = shares or [bytes(200)] * len(joined)
    given = tuple([SyncGroupAssignment(one.member_id, share) for one, share in zip(joined, shares, strict=True)])
    message = SyncGroup(group_id, leader.generation_id, leader.member_id, None, "consumer", "range", given)
    synced, _ = rig.ask(message, SyncGroupReply)
    assert not synced.error_code, synced
    for one in joined:
        rig.ask(SyncGroup(group_id, one.generation_id, one.member_id), SyncGroupReply)
    return leader


if __name__ == "__main__":
    from bench.__main__ import main

    main(["steps", *sys.argv[1:]])
