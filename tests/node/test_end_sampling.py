"""Samples of log ends: what a node with groups writes, how it is read, and what a crash or a full disk leaves."""

import itertools
from typing import Any

import pytest

from coordinator.accounts.acls import Acl
from coordinator.accounts.records import AclRecord
from coordinator.config.accounts import AuthorizerClass, Principals
from coordinator.node.events import Call
from coordinator.tasks.end_sampling import POLICY
from protocol.messages import Message
from protocol.messages.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import DeleteGroups
from protocol.messages.node import DescribeNode
from protocol.messages.offsets import (
    EndSample,
    ListEndSamples,
    ListEndSamplesReply,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
)
from protocol.record_batch import encode_batch
from tests.node.node_rig import WALL_MS, NodeRig
from tests.simulation.disk import SimDisk

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


class OrdersRig(NodeRig):
    """A node with the topic orders of four partitions."""

    def __init__(self, disk: SimDisk | None = None, **settings: Any) -> None:
        super().__init__(disk, **settings)
        if self.node.core.topics.partition_count("orders") is None:
            self.make_topic("orders", 4)
        self._calls = 1_000

    def answer(self, message: Message, principal: str = "") -> Any:
        self._calls += 1
        self.step(Call(self._calls, message, principal, "10.0.0.1"))
        while self._calls not in self.replied:
            self.wait(1)
        return self.replied.pop(self._calls)

    def produce(self, count: int, partition: int = 0) -> None:
        batch = encode_batch([(None, b"record")] * count, timestamp_ms=WALL_MS)
        self.answer(
            Produce((ProduceTopic("orders", (ProducePartition(partition, batch),)),), acks=-1, timeout_ms=1_000)
        )

    def commit(self, group_id: str, *offsets: int, topic: str = "orders") -> None:
        parts = tuple(OffsetCommitPartition(index, offset) for index, offset in enumerate(offsets))
        self.answer(OffsetCommit(group_id, (OffsetCommitTopic(topic, parts),)))

    def samples(self, since_ms: int = 0, principal: str = "") -> list[EndSample]:
        reply = self.answer(ListEndSamples(since_ms=since_ms), principal)
        found = list(reply.samples)
        while reply.has_more:
            reply = self.answer(ListEndSamples(reply.position, since_ms), principal)
            found += reply.samples
        return found

    def lags(self, since_ms: int = 0) -> list[tuple[str, int]]:
        """Groups with the sums of their lag, sample by sample."""
        return [
            (one.group_id, sum(one.ends[index] - offset for index, offset in one.offsets.items()))
            for one in self.samples(since_ms)
        ]


def test_lag_has_a_history() -> None:
    rig = OrdersRig()
    rig.produce(10)
    rig.commit("g", 4, 0)
    rig.wait(MINUTE_MS)
    rig.produce(5)
    rig.wait(MINUTE_MS)
    rig.commit("g", 15)
    rig.wait(MINUTE_MS)
    first, second, third = rig.samples()
    assert (first.group_id, first.topic, first.offsets, first.ends) == ("g", "orders", {0: 4, 1: 0}, {0: 10, 1: 0})
    assert (second.offsets, second.ends) == ({0: 4, 1: 0}, {0: 15, 1: 0})
    assert (third.offsets, third.ends) == ({0: 15, 1: 0}, {0: 15, 1: 0})
    assert [later.wall_ms - one.wall_ms for one, later in ((first, second), (second, third))] == [MINUTE_MS] * 2


def test_what_stands_still_is_written_once_an_hour() -> None:
    rig = OrdersRig()
    rig.commit("g", 0)
    for _ in range(125):
        rig.wait(MINUTE_MS)
    times = [one.wall_ms for one in rig.samples()]
    assert len(times) == 3
    assert {later - one for one, later in itertools.pairwise(times)} == {HOUR_MS}


def test_samples_since_a_time_are_read() -> None:
    rig = OrdersRig()
    for count in (1, 2, 3):
        rig.commit("g", count)
        rig.produce(1)
        rig.wait(MINUTE_MS)
    times = [one.wall_ms for one in rig.samples()]
    for at, time in enumerate(times):
        assert [one.wall_ms for one in rig.samples(time)] == times[at:]
    assert rig.samples(times[-1] + 1) == []


def test_none_are_taken_at_interval_0_and_old_ones_are_read() -> None:
    before = OrdersRig()
    before.commit("g", 0)
    before.wait(MINUTE_MS)
    assert len(before.samples()) == 1
    before.store.close()
    rig = OrdersRig(before.disk, ends_sample_interval_ms=0)
    rig.commit("g", 5)
    rig.wait(2 * HOUR_MS)
    assert [one.offsets for one in rig.samples()] == [{0: 0}]


def test_a_deleted_group_and_a_topic_that_is_not_there_have_no_samples() -> None:
    rig = OrdersRig()
    rig.commit("g", 1)
    rig.commit("h", 1, topic="nowhere")
    rig.answer(DeleteGroups(("g",)))
    rig.wait(MINUTE_MS)
    assert rig.samples() == []


def test_a_pass_over_many_offsets_takes_slices_and_misses_none() -> None:
    rig = OrdersRig()
    rig.make_topic("wide", 900)
    for group in range(9):
        rig.commit(f"g{group}", *range(900), topic="wide")
    rig.wait(MINUTE_MS)
    log = rig.node.core.end_sampling.log.files
    begun = log.next_offset
    assert 0 < begun < 9
    for _ in range(9):
        rig.wait(10)
    found = rig.samples()
    assert {one.wall_ms for one in found} == {found[0].wall_ms}
    assert {(one.group_id, len(one.offsets)) for one in found} == {(f"g{group}", 900) for group in range(9)}


def test_a_slice_reads_few_groups() -> None:
    """Heartbeats wait behind a slice: a hundred groups of ten partitions are more than one."""
    rig = OrdersRig()
    rig.make_topic("narrow", 10)
    for group in range(100):
        rig.commit(f"g{group}", *range(10), topic="narrow")
    log = rig.node.core.end_sampling.log.files
    rig.wait(MINUTE_MS)
    assert 0 < log.next_offset <= 25
    for _ in range(9):
        rig.wait(10)
    assert len(rig.samples()) == 100


def test_pages_hold_each_sample_once() -> None:
    rig = OrdersRig()
    rig.make_topic("wide", 900)
    for minute in range(60):
        rig.commit("g", *[minute] * 900, topic="wide")
        rig.wait(MINUTE_MS - 10)
        rig.wait(10)  # the slice that finds no more groups
    assert rig.answer(ListEndSamples()).has_more
    assert [one.offsets[899] for one in rig.samples()] == list(range(60))


def test_samples_outlive_a_crash_once_anything_was_flushed() -> None:
    rig = OrdersRig()
    rig.commit("g", 1)
    rig.wait(MINUTE_MS)
    rig.commit("other", 1)  # flushes
    rig.disk.crash()
    after = OrdersRig(rig.disk)
    assert [one.group_id for one in after.samples()] == ["g"]
    after.wait(2 * MINUTE_MS)
    assert sorted(one.group_id for one in after.samples()) == ["g", "g", "other"]


def refused(rig: OrdersRig) -> int:
    return rig.answer(DescribeNode()).counters["end_samples_refused"]  # type: ignore[no-any-return]


def test_a_full_disk_costs_samples_and_nothing_else() -> None:
    rig = OrdersRig()
    rig.commit("g", 1)
    append = rig.store._wal_append
    rig.store._wal_append = lambda *_: 0
    rig.wait(MINUTE_MS)
    assert refused(rig) == 1
    assert rig.samples() == []
    rig.wait(MINUTE_MS)
    assert refused(rig) == 2, "what was not written is tried again, though nothing moves"
    rig.store._wal_append = append
    rig.wait(2 * MINUTE_MS)
    assert refused(rig) == 2
    assert [one.offsets for one in rig.samples()] == [{0: 1}]


def test_old_samples_are_deleted() -> None:
    rig = OrdersRig()
    rig.commit("g", 0)
    for _ in range(24 * 9):
        rig.wait(HOUR_MS)
    oldest = rig.samples()[0].wall_ms
    now = WALL_MS + rig.now_ms
    assert POLICY.retention_ms <= now - oldest <= POLICY.retention_ms + POLICY.segment_ms + 2 * HOUR_MS


@pytest.mark.parametrize(
    ("principal", "told"),
    [
        ("User:root", [("g", "bills"), ("g", "orders"), ("h", "orders")]),
        ("User:alice", [("g", "orders")]),
        ("User:carol", []),  # may describe a group, and no topic
        ("User:bob", []),
    ],
)
def test_only_groups_and_topics_that_the_caller_may_describe_are_told(
    principal: str, told: list[tuple[str, str]]
) -> None:
    rig = OrdersRig(
        authorizer_class_name=AuthorizerClass.STANDARD, super_users=Principals.parse("User:root;User:ANONYMOUS")
    )
    rig.make_topic("bills")
    rig.commit("g", 1)
    rig.commit("g", 1, topic="bills")
    rig.commit("h", 1)
    rig.wait(MINUTE_MS)
    rights = (
        ("User:alice", AclResourceType.GROUP, "g"),
        ("User:alice", AclResourceType.TOPIC, "orders"),
        ("User:carol", AclResourceType.GROUP, "g"),
    )
    for user, kind, name in rights:
        acl = Acl(kind, name, AclPatternType.LITERAL, user, "*", AclOperation.DESCRIBE, AclPermission.ALLOW)
        assert not rig.node.core.accounts.write([AclRecord(acl, is_there=True)], rig._moment())
    reply = rig.answer(ListEndSamples(), principal)
    assert isinstance(reply, ListEndSamplesReply)
    assert sorted((one.group_id, one.topic) for one in reply.samples) == told
