"""A node with topics, and one group `g` of either kind."""

from typing import Any

import pytest

from coordinator.groups.classic.group_states import GroupState
from coordinator.node.events import Stopping
from coordinator.records.codec import decode
from coordinator.records.consumer_records import ConsumerKey, ConsumerTombstone
from coordinator.records.records import CommittedOffset, GroupMetadata, GroupTombstone, OffsetTombstone
from coordinator.runtime.group import Group
from protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    DescribedConsumerGroup,
    TopicIdPartitions,
)
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    ListGroupsReply,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
)
from protocol.record_batch import decode_batch
from tests.groups.checks import check_counts, check_kinds
from tests.node.node_rig import NodeRig
from tests.simulation.disk import SimDisk
from tests.simulation.replay import compare_with_replay

_NUMBERS = {"ConsumerGroupRecord": 3, "ConsumerMemberRecord": 5, "TargetRecord": 6, "MemberTargetRecord": 7}


class Rig:
    """A node with the topics T, of four partitions, and U, of three."""

    def __init__(self, disk: SimDisk | None = None, **settings: Any) -> None:
        self.settings = {
            "group_consumer_assignment_interval_ms": 0,
            "group_initial_rebalance_delay_ms": 10,
            **settings,
        }
        self.node_rig = NodeRig(disk, **self.settings)
        self.ids: dict[str, str] = {}
        self.checks = True
        if disk is None:
            self.node_rig.make_topic("T", 4)
            self.node_rig.make_topic("U", 3)

    def restart(self, *, is_clean: bool = False) -> None:
        if is_clean:
            self.node_rig.step(Stopping())
            self.node_rig.store.close(self.node_rig.node.snapshots())
        else:
            self.node_rig.disk.crash()
        self.node_rig = NodeRig(self.node_rig.disk, ids=self.node_rig.ids, **self.settings)

    def ask(self, message: Message) -> Any:
        self.node_rig.replied.pop(1, None)
        self.node_rig.ask_inside(message)
        self.node_rig.wake_until_idle()  # work that the request began
        if not self.checks:
            return self.node_rig.replied.get(1)
        for group in self.node_rig.node.core.directory.values():
            check_kinds(group, self.node_rig.node.core.purgatory)
        for shard in self.node_rig.node.core.shards:
            check_counts(shard)
        compare_with_replay(self.node_rig.node)
        return self.node_rig.replied.get(1)

    def id_of(self, topic: str) -> bytes:
        found = self.node_rig.node.core.topics.id_of(topic)
        assert found is not None
        return found

    def beat(self, member_id: str, epoch: int, owned: dict[str, tuple[int, ...]] | None = None, **fields: Any) -> Any:
        if owned is not None:
            fields["topic_partitions"] = tuple(TopicIdPartitions(self.id_of(t), ps) for t, ps in owned.items())
        return self.ask(ConsumerGroupHeartbeat("g", member_id, epoch, **fields))

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatReply:
        given = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": topics, **fields}
        reply = self.beat(member_id, 0, {}, **given)
        assert isinstance(reply, ConsumerGroupHeartbeatReply)
        return reply

    def commit(self, topic: str, member_id: str = "", epoch: int = -1, **fields: Any) -> ErrorCode:
        topics = (OffsetCommitTopic(topic, (OffsetCommitPartition(0, 7),)),)
        reply = self.ask(OffsetCommit("g", topics, epoch, member_id, **fields))
        assert isinstance(reply, OffsetCommitReply)
        return reply.topics[0].partitions[0].error_code

    def committed(self, **fields: Any) -> dict[str, int]:
        reply = self.ask(OffsetFetch((OffsetFetchGroup("g", **fields),)))
        assert isinstance(reply, OffsetFetchReply)
        (group,) = reply.groups
        return {"error": int(group.error_code)} | {t.name: t.partitions[0].committed_offset for t in group.topics}

    def describe(self) -> DescribedConsumerGroup:
        reply = self.ask(ConsumerGroupDescribe(("g",)))
        assert isinstance(reply, ConsumerGroupDescribeReply)
        return reply.groups[0]

    def listed(self, **filters: Any) -> list[tuple[str, str, str]]:
        reply = self.ask(ListGroups(**filters))
        assert isinstance(reply, ListGroupsReply)
        return [(one.protocol_type, one.group_state, one.group_type) for one in reply.groups]

    def stall_disk(self) -> None:
        """Let the disk stand still until `max.held.replies` replies of other clients wait for it."""
        self.node_rig.holds_disk, self.checks = True, False
        core = self.node_rig.node.core
        topics = (OffsetCommitTopic("T", (OffsetCommitPartition(0, 7),)),)
        while len(core.outbox.held) < core.config.max_held_replies:
            self.node_rig.ask_inside(OffsetCommit("other", topics), 1_000)

    def free_disk(self) -> None:
        self.node_rig.holds_disk, self.checks = False, True
        while self.node_rig.flushes:
            self.node_rig.flush()

    # --- classic members ---

    def classic_join(self, member_id: str = "", topics: tuple[str, ...] = ("T",), **fields: Any) -> JoinGroupReply:
        reply = self.ask(self.join_group(member_id, topics, **fields))
        assert isinstance(reply, JoinGroupReply)
        return reply

    def join_group(
        self,
        member_id: str = "",
        topics: tuple[str, ...] = ("T",),
        owned: dict[str, tuple[int, ...]] | None = None,
        version: int = 3,
        names: tuple[str, ...] = ("range",),
        **fields: Any,
    ) -> JoinGroup:
        partitions = tuple(TopicPartitions(topic, numbers) for topic, numbers in (owned or {}).items())
        metadata = encode_subscription(Subscription(topics, owned_partitions=partitions), version)
        given = {"protocol_type": "consumer", "wants_member_id_first": False, "rebalance_timeout_ms": 20_000}
        protocols = tuple(JoinProtocol(name, metadata) for name in names)
        return JoinGroup("g", 10_000, member_id, **{"protocols": protocols, **given, **fields})

    def ask_aside(self, message: Message, call: int) -> Any:
        """Return the reply to a request that may be parked; None if it is parked."""
        self.node_rig.ask_inside(message, call)
        self.node_rig.wake_until_idle()
        return self.node_rig.replied.get(call)

    def sync(self, member_id: str, generation_id: int, **fields: Any) -> tuple[int, dict[str, tuple[int, ...]]]:
        reply = self.ask(SyncGroup("g", generation_id, member_id, **fields))
        return int(reply.error_code), decoded(reply.assignment)

    def heartbeat(self, member_id: str, generation_id: int, **fields: Any) -> int:
        return int(self.ask(Heartbeat("g", generation_id, member_id, **fields)).error_code)

    def leave(self, *entries: LeavingMember) -> list[int]:
        return [int(one.error_code) for one in self.ask(LeaveGroup("g", entries)).members]

    def form_classic(self, assigned: dict[str, dict[str, tuple[int, ...]]], **fields: Any) -> int:
        """Make a Stable classic group of these members, `#i` for one with the instance id i; return its generation.
        `ids` are their member ids."""
        calls = {name: 100 + number for number, name in enumerate(assigned)}
        for name, call in calls.items():
            instance = name[1:] if name.startswith("#") else None
            self.ask_aside(self.join_group(group_instance_id=instance, **fields), call)
        while not all(call in self.node_rig.replied for call in calls.values()):
            self.node_rig.wait(10)
        replies: Any = {name: self.node_rig.replied[call] for name, call in calls.items()}
        self.ids = {name: reply.member_id for name, reply in replies.items()}
        given = tuple(SyncGroupAssignment(self.ids[name], encoded(held)) for name, held in assigned.items())
        for name, call in calls.items():
            self.ask_aside(SyncGroup("g", replies[name].generation_id, self.ids[name], assignments=given), call)
        assert self.group.classic.state is GroupState.STABLE
        return self.group.classic.generation_id

    @property
    def group(self) -> Group:
        return self.node_rig.node.core.directory["g"]

    @property
    def epochs(self) -> str:
        """Return state, group epoch and target epoch."""
        described = self.describe()
        return f"{described.group_state} {described.group_epoch}/{described.assignment_epoch}"

    @property
    def causes(self) -> list[str]:
        return [note.cause for note in self.node_rig.node.core.journal.notes()]


def encoded(held: dict[str, tuple[int, ...]], user_data: bytes | None = None) -> bytes:
    return encode_assignment(Assignment(tuple(TopicPartitions(*one) for one in held.items()), user_data))


def decoded(assignment: bytes) -> dict[str, tuple[int, ...]]:
    return dict(decode_assignment(assignment).partitions)


def told(rig: Rig, reply: ConsumerGroupHeartbeatReply) -> dict[bytes, tuple[int, ...]] | None:
    if reply.assignment is None:
        return None
    return {one.topic_id: one.partitions for one in reply.assignment.topic_partitions}


class Batches:
    """Records about the group that its shard wrote, by batch: `k5 k3`, and `-k5` for a tombstone."""

    def __init__(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written: list[str] = []
        shard, _group = rig.node_rig.node.core.find("g")
        append = shard.log.append

        def appended(batch: bytes, **options: Any) -> Any:
            records = [decode(one.key, one.value) for one in decode_batch(batch)]
            if not isinstance(records[0], CommittedOffset):
                self.written.append(" ".join(map(_number, records)))
            return append(batch, **options)

        monkeypatch.setattr(shard.log, "append", appended)

    def take(self) -> list[str]:
        written, self.written = self.written, []
        return written


def _number(record: Any) -> str:
    if isinstance(record, ConsumerTombstone):
        return f"-k{record.key.value}"
    if isinstance(record, GroupTombstone | GroupMetadata):
        return "-k2" if isinstance(record, GroupTombstone) else "k2"
    if isinstance(record, OffsetTombstone):
        return "-k1"
    return f"k{_NUMBERS.get(type(record).__name__, ConsumerKey.ASSIGNMENT.value)}"
