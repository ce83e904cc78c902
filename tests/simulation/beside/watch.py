"""What must hold of a node beside brokers, besides what holds of any node."""

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from coordinator.events import Event, Forwarded, Received, UpstreamLost
from coordinator.node import Node
from muster.topic_partition import TopicPartition
from protocol.kafka.front.session import FrontSession
from protocol.kafka.session import MAX_WAITING_BYTES
from protocol.messages.topics import MetadataReply
from tests.simulation.beside.edge import FRONT_HOST
from tests.simulation.beside.front import READ_BYTES, Front
from tests.simulation.checkers import Checkers
from tests.simulation.errors import Broken
from tests.simulation.members import SimMember

if TYPE_CHECKING:
    from tests.simulation.beside.broker import Brokers

MOVED = "moved"
"""The group that was at the brokers before."""
_MOST_FRAME = 1 << 17
"""Of what these worlds send; and so much may wait for its other half."""
_MOST_HELD = MAX_WAITING_BYTES + READ_BYTES + _MOST_FRAME


class Watch(Checkers):
    """Sees what everybody asks and hears, of members of the node's groups; and what is read, whoever reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.log: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        """Records that somebody was told of: by an acknowledgement, or by reading them."""
        self.acknowledged_records: Counter[TopicPartition] = Counter()
        self.broker: Brokers | None = None
        self.adopts = False
        self.most_held = 0

    # --- records ---

    def told(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Somebody was told that this record is there."""
        known = self.log[partition].setdefault(offset, value)
        if known != value:
            raise Broken(f"{partition} has {known!r} at {offset}, and somebody is told {value!r}")

    def written(self, partition: TopicPartition, first: int, values: list[bytes]) -> None:
        """A write was acknowledged."""
        for offset, value in enumerate(values, first):
            self.told(partition, offset, value)
        self.acknowledged_records[partition] += len(values)

    def topology(self, reply: MetadataReply) -> None:
        """No client is told where a broker really is."""
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
        """What the group had committed there, where that is to count."""
        node = self.broker.node if self.broker is not None else None
        if node is None or not node.is_loaded or group_id != MOVED or not self.adopts:
            return None
        kept = node.core.shard_of(group_id).offsets.get(group_id, partition.topic, partition.partition)
        return None if kept is None else kept.offset

    def was_read(self, group_id: str, partition: TopicPartition, up_to: int) -> None:
        """By a member of the group, wherever that is."""
        key = (group_id, partition)
        self._read_to[key] = max(up_to, self._read_to[key])

    def read_to(self, group_id: str, partition: TopicPartition) -> int:
        return self._read_to[group_id, partition]

    # --- processes ---

    def after_front_step(self, front: Front, event: Event) -> None:
        node = front.node_beside
        assert node is not None
        if isinstance(event, Received | Forwarded | UpstreamLost):
            connection = node.core.connections.get(event.connection)
            if connection is not None and isinstance(connection.session, FrontSession):
                self._look_at(connection.session, event)
        if self.adopts and MOVED in node.core.directory:
            self._must_have_moved()

    def _look_at(self, session: FrontSession, event: Event) -> None:
        if isinstance(event, UpstreamLost) and session.awaits_broker:
            raise Broken("a connection goes on, and the broker that owed it an answer is gone")
        held = session.buffered_bytes + sum(map(len, session._to_broker))
        self.most_held = max(self.most_held, held)
        if held > _MOST_HELD:
            raise Broken(f"{held} bytes are held for one connection")

    def _must_have_moved(self) -> None:
        """It is here: then nobody is a member of it there."""
        node = self.broker.node if self.broker is not None else None
        group = None if node is None else node.core.find(MOVED)[1]
        if group is not None and group.members:
            raise Broken(f"{MOVED} is here, and {sorted(group.members)} are members of it at the brokers")

    def after_broker_step(self, node: Node) -> None:
        """The brokers hear of no group but the one they had."""
        if node.core.directory and (strange := node.core.directory.keys() - {MOVED}):
            raise Broken(f"the brokers' own coordinator has heard of {sorted(strange)}")


class AtBroker:
    """Told of what members ask and hear that are at the brokers still."""

    def __init__(self, checkers: Checkers, watch: Watch) -> None:
        self._checkers, self._watch = checkers, watch

    def asked(self, member: SimMember, message: Any) -> None:
        self._checkers.asked(member, message)

    def heard(self, member: SimMember, message: Any, reply: Any) -> None:
        self._checkers.heard(member, message, reply)

    def begins(self, member: SimMember, partition: TopicPartition, offset: int) -> None:
        self._checkers.begins(member, partition, offset)

    def reads(self, member: SimMember, partition: TopicPartition, up_to: int) -> None:
        self._checkers.reads(member, partition, up_to)
        self._watch.was_read(member.settings.group_id, partition, up_to)
