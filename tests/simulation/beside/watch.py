"""Invariants of a node beside brokers, besides those of any node."""

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from coordinator.gateway.events import Forwarded, UpstreamLost
from coordinator.gateway.session.session import ProxySession
from coordinator.handlers.offset_commit import refused_topics
from coordinator.node.events import Event, Received
from coordinator.node.node import AnyNode
from membership.topic_partition import TopicPartition
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from protocol.messages.groups import DescribeGroupsReply
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitReply
from protocol.messages.topics import MetadataReply
from tests.simulation.beside.edge import FRONT_HOST
from tests.simulation.beside.front import READ_BYTES, Front
from tests.simulation.checkers import Checkers
from tests.simulation.errors import Broken
from tests.simulation.members import SimMember
from tests.simulation.network import Link

if TYPE_CHECKING:
    from tests.simulation.beside.broker import Brokers

MOVED = "moved"
"""The group that was at the brokers before."""
_MOST_FRAME = 1 << 17
"""Longest frame in these worlds, and the most bytes that may wait on the other side of a connection."""
MOST_UNFINISHED = READ_BYTES + _MOST_FRAME


class Watch(Checkers):
    """Checks the requests and answers of the members of the node's groups, and all records read."""

    def __init__(self) -> None:
        super().__init__()
        self.log: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        """Records that a client knows: by an acknowledgement, or by reading them."""
        self.acknowledged_records: Counter[TopicPartition] = Counter()
        self.broker: Brokers | None = None
        self.adopts = False
        self.most_held = 0
        """Bytes that may be held for one connection."""
        self.driven: frozenset[str] = frozenset()
        """Groups that the node balances."""
        self._driven_looks: dict[str, tuple[Any, ...]] = {}
        self._members = 0
        """The group's offsets as the brokers last answered the node."""
        self._has_members_there = False
        self._offsets_then: dict[TopicPartition, int] | None = None
        """The group's offsets at the brokers when it was migrated; None before, or if unknown."""
        self._has_moved = False

    # --- records ---

    def told(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Note that a client learned of this record."""
        known = self.log[partition].setdefault(offset, value)
        if known != value:
            raise Broken(f"{partition} has {known!r} at {offset}, and somebody is told {value!r}")

    def written(self, partition: TopicPartition, first: int, values: list[bytes]) -> None:
        """Note an acknowledged write."""
        for offset, value in enumerate(values, first):
            self.told(partition, offset, value)
        self.acknowledged_records[partition] += len(values)

    def topology(self, reply: MetadataReply) -> None:
        """Check that no client gets the address of a broker."""
        for broker in reply.brokers:
            if broker.host != FRONT_HOST:
                raise Broken(f"a client is told of {broker.host}:{broker.port}")

    def begins(self, member: SimMember, partition: TopicPartition, offset: int) -> None:
        group_id = member.settings.group_id
        there = self._at_broker(group_id, partition)
        if there is not None:
            is_first = self.acknowledged(group_id, partition) < 0 and not self._in_doubt[group_id, partition]
            if offset < there or (is_first and offset != there):
                raise Broken(f"{group_id} begins {partition} at {offset}, and the brokers have {there}")
        super().begins(member, partition, offset)

    def _at_broker(self, group_id: str, partition: TopicPartition) -> int | None:
        """Return the group's offsets at the brokers, where they count."""
        return self._offsets_then.get(partition) if group_id == MOVED and self._offsets_then is not None else None

    def was_read(self, group_id: str, partition: TopicPartition, up_to: int) -> None:
        """Note that a member of the group, at the node or at the brokers, has read this far."""
        key = (group_id, partition)
        self._read_to[key] = max(up_to, self._read_to[key])

    def read_to(self, group_id: str, partition: TopicPartition) -> int:
        return self._read_to[group_id, partition]

    def heard(self, member: SimMember, message: Any, reply: Any) -> None:
        if isinstance(reply, ErrorReply) and isinstance(message, OffsetCommit):
            reply = OffsetCommitReply(refused_topics(message.topics, reply.error_code))
        if isinstance(reply, ConsumerGroupHeartbeatReply):
            self._beat_heard(member, message, reply)
        if not isinstance(reply, ErrorReply):
            super().heard(member, message, reply)

    def _beat_heard(
        self, member: SimMember, message: ConsumerGroupHeartbeat, reply: ConsumerGroupHeartbeatReply
    ) -> None:
        """Check that epochs in a member's answers do not go back."""
        seen = member._seen
        seen.add(f"driven: heartbeat {reply.error_code.name}")
        if reply.error_code:
            return
        if 0 < reply.member_epoch < message.member_epoch:
            raise Broken(f"{member.name} was at epoch {message.member_epoch}, and is told {reply.member_epoch}")
        if reply.assignment is not None and reply.assignment.topic_partitions:
            seen.add("driven: partitions assigned")
            seen.add("driven: partitions found by a pattern", bool(member.traits.regex))

    def answered(self, reply: Any) -> None:
        """Check an answer of the brokers to the node."""
        if isinstance(reply, DescribeGroupsReply):
            for group in reply.groups:
                self._members = len(group.members) if group.group_id == MOVED else self._members

    # --- processes ---

    def after_front_step(self, front: Front, event: Event) -> None:
        node = front.node_beside
        assert node is not None
        if isinstance(event, Received | Forwarded | UpstreamLost):
            connection = node.core.connections.get(event.connection)
            if connection is not None and isinstance(connection.session, ProxySession):
                self._look_at(front, connection.session, event)
        self._look_at_driven(node)
        if self.adopts and not self._has_moved and MOVED in node.core.directory:
            self._has_moved = True
            self._must_have_moved()

    def _look_at_driven(self, node: AnyNode) -> None:
        """Check that groups that the node balances are consistent, and that their epochs do not go back."""
        for group_id in self.driven:
            found = node.core.directory.get(group_id)
            group = None if found is None else found.serving_consumer
            if group is None or not node.is_loaded:
                self._driven_looks.pop(group_id, None)
                continue
            look = group, group.epoch, group.target_epoch, len(group.members), dict(+group.settled)
            before = self._driven_looks.get(group_id)
            if look != before:
                self._driven_looks[group_id] = look
                group.check()
                if before is not None and before[0] is group and group.epoch < before[1]:
                    raise Broken(f"the epoch of {group_id} was {before[1]}, and is {group.epoch}")

    def _look_at(self, front: Front, session: ProxySession, event: Event) -> None:
        if isinstance(event, UpstreamLost) and session.awaits_broker and not _has_upstream(front, event.connection):
            raise Broken("a connection goes on, and the broker that owed it an answer is gone")
        held = session.buffered_bytes + sum(map(len, session._to_forward))
        if held > self.most_held:
            raise Broken(f"{held} bytes are held for one connection")

    def _must_have_moved(self) -> None:
        """Check a migrated group: it had no member at the brokers when that was looked up."""
        if self._members:
            raise Broken(f"{MOVED} is here, and the brokers have just said that it has {self._members} members there")
        node = self.broker.node if self.broker is not None else None
        if node is not None and node.is_loaded and not self._has_members_there:
            topics = node.core.shard_of(MOVED).offsets.topics(MOVED)
            self._offsets_then = {
                TopicPartition(topic, index): kept.offset
                for topic, parts in topics.items()
                for index, kept in parts.items()
            }

    def after_broker_step(self, node: AnyNode) -> None:
        """Check that the brokers get no request for a group except the one they had."""
        if not node.core.directory or not node.is_loaded:
            return
        if strange := node.core.directory.keys() - {MOVED}:
            raise Broken(f"the brokers' own coordinator has heard of {sorted(strange)}")
        group = node.core.find(MOVED)[1]
        self._has_members_there = group is not None and bool(group.classic.members)


class AtBroker:
    """Takes the requests and answers of members that are still at the brokers."""

    def __init__(self, checkers: Checkers, watch: Watch) -> None:
        self._checkers, self._watch = checkers, watch

    def asked(self, member: SimMember, message: Any) -> None:
        self._checkers.asked(member, message)

    def sent(self, message: Any, link: Link, now_ms: int) -> None:
        self._checkers.sent(message, link, now_ms)

    def heard(self, member: SimMember, message: Any, reply: Any) -> None:
        self._checkers.heard(member, message, reply)

    def begins(self, member: SimMember, partition: TopicPartition, offset: int) -> None:
        self._checkers.begins(member, partition, offset)

    def reads(self, member: SimMember, partition: TopicPartition, up_to: int) -> None:
        self._checkers.reads(member, partition, up_to)
        self._watch.was_read(member.settings.group_id, partition, up_to)


def _has_upstream(front: Front, connection: int) -> bool:
    """Return whether the connection has another upstream by now: the one of the lost request is gone."""
    return front.edge is not None and connection in front.edge.upstreams
