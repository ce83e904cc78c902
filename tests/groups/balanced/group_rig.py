"""A node on a simulated disk, and members of client-balanced groups that send it typed requests, each on a connection
of its own."""

from typing import Any, TypeVar

from coordinator.node.events import Stopping
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import (
    BalancedGroupView,
    ConfirmConsumed,
    ConfirmedPartition,
    ConfirmItem,
    DescribeBalanced,
    DescribeBalancedReply,
    FetchedPartition,
    FetchItem,
    FetchRegistered,
    HeldKey,
    LeaveMember,
    LeaveMemberReply,
    MemberHeartbeat,
    MemberHeartbeatReply,
    PartitionMeta,
    PartitionMetaReply,
    RegisteredPartition,
    RegisterItem,
    RegisterPartitions,
    ReleasedKey,
    StartMember,
    StartMemberReply,
    UnregisteredPartition,
    UnregisterPartitions,
)
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.offsets import OffsetFetch, OffsetFetchGroup, OffsetFetchTopic
from protocol.native.methods import PUSHES
from protocol.record_batch import decode_batch, encode_batch, extent
from tests.node.node_rig import WALL_MS, NodeRig

M = TypeVar("M", bound=Message)
SESSION_MS = 30_000


class GroupRig:
    """The node, with a topic `demo`."""

    def __init__(self, partitions: int = 4, **settings: Any) -> None:
        self.node_rig = NodeRig(**settings)
        self.node_rig.make_topic("demo", partitions)
        self._connections = 0

    def restart(self) -> None:
        """Restart the node after a power failure."""
        self.node_rig.disk.crash()
        self.node_rig = NodeRig(self.node_rig.disk)
        self._connections = 0

    def stop(self) -> None:
        """Restart the node after a clean stop, with a snapshot."""
        self.node_rig.step(Stopping())
        self.node_rig.store.close(self.node_rig.node.snapshots())
        self.node_rig = NodeRig(self.node_rig.disk)
        self._connections = 0

    def connection(self) -> int:
        self._connections += 1
        return self.node_rig.connect(self._connections)

    def member(self, consumer_id: str, **fields: Any) -> "RigClient":
        return RigClient(self, consumer_id, **fields)

    def started(self, consumer_id: str, **fields: Any) -> "RigClient":
        """Return a member that was admitted."""
        client = self.member(consumer_id, **fields)
        assert client.start().error_code is ErrorCode.NONE
        return client

    def produce(self, partition: int, count: int, topic: str = "demo") -> None:
        """Append a batch; the value of a record is its number, counted from 0 in each partition."""
        at = self.end(partition, topic)
        batch = encode_batch([(None, b"%d" % (at + i)) for i in range(count)], timestamp_ms=WALL_MS)
        message = Produce((ProduceTopic(topic, (ProducePartition(partition, batch),)),))
        self.node_rig.ask_inside(message, call=7)

    def end(self, partition: int, topic: str = "demo") -> int:
        known = self.node_rig.node.core.embedded.log_and_configs(topic, partition)
        assert known is not None
        return known[0].flushed_offset

    def committed(self, partition: int, group: str = "g", topic: str = "demo") -> int:
        """Return the committed offset; -1 if there is none."""
        wanted = OffsetFetch((OffsetFetchGroup(group, (OffsetFetchTopic(topic, (partition,)),)),))
        reply: Any = self.node_rig.ask_inside(wanted, call=8)
        offset: int = reply.groups[0].topics[0].partitions[0].committed_offset
        return offset

    def view(self, group: str = "g") -> BalancedGroupView:
        reply = self.node_rig.ask_inside(DescribeBalanced((group,)), call=9)
        assert isinstance(reply, DescribeBalancedReply)
        return reply.groups[0]

    def owners(self, group: str = "g") -> dict[str, str | None]:
        return {one.key: one.owner for one in self.view(group).partitions}


class RigClient:
    """A member, or a client that wants to become one. `pushed` has its notifications."""

    def __init__(self, rig: GroupRig, consumer_id: str, **fields: Any) -> None:
        self.rig = rig
        self.consumer_id = consumer_id
        self.fields: dict[str, Any] = {"group_id": "g", "topics": ("demo",), "session_timeout_ms": SESSION_MS, **fields}
        self.group_id: str = self.fields["group_id"]
        self.epoch = -1
        self.grants: dict[str, int] = {}
        self.meta_version = -1
        self.pushed: list[Message] = []
        self.connection = rig.connection()

    def ask(self, message: Message, kind: type[M]) -> M:
        found: list[M] = []
        for said in self.rig.node_rig.ask(self.connection, message):
            if type(said).__name__ in PUSHES:
                self.pushed.append(said)
            else:
                assert isinstance(said, kind)
                found.append(said)
        (reply,) = found
        return reply

    def told(self) -> list[Message]:
        """Return the notifications since the last access."""
        some = self.pushed + self.rig.node_rig.heard(self.connection)
        self.pushed = []
        return some

    def start(self, **fields: Any) -> StartMemberReply:
        request = StartMember(consumer_id=self.consumer_id, **{**self.fields, **fields})
        reply = self.ask(request, StartMemberReply)
        if not reply.error_code:
            self.epoch, self.meta_version = reply.member_epoch, reply.meta_version
            self.grants = {one.key: one.reg_epoch for one in reply.granted}
        return reply

    def held(self, **positions: int) -> tuple[HeldKey, ...]:
        return tuple(HeldKey(key, epoch) for key, epoch in self.grants.items())

    def beat(self, **fields: Any) -> MemberHeartbeatReply:
        request = MemberHeartbeat(
            self.group_id, self.consumer_id, self.epoch, **{"meta_version": self.meta_version, **fields}
        )
        reply = self.ask(request, MemberHeartbeatReply)
        if reply.meta is not None:
            self.meta_version = reply.meta_version
        return reply

    def meta(self, version: int = -1) -> PartitionMetaReply:
        return self.ask(PartitionMeta(self.group_id, self.consumer_id, self.epoch, version), PartitionMetaReply)

    def register(self, partition: int | str, offset: int = -1, **fields: Any) -> RegisteredPartition:
        key = partition if isinstance(partition, str) else f"1:demo:{partition}"
        request = RegisterPartitions(
            self.group_id, self.consumer_id, self.epoch, (RegisterItem(key, offset, **fields),)
        )
        reply: Any = self.ask(request, Message)
        if reply.error_code:
            return RegisteredPartition(key, reply.error_code)
        (item,) = reply.items
        assert isinstance(item, RegisteredPartition)
        if not item.error_code:
            self.grants[key] = item.reg_epoch
        return item

    def unregister(self, partition: int, *, consumed: bool = False) -> UnregisteredPartition:
        key = f"1:demo:{partition}"
        released = ReleasedKey(key, self.grants.get(key, 1), consumed)
        reply: Any = self.ask(UnregisterPartitions(self.group_id, self.consumer_id, self.epoch, (released,)), Message)
        (item,) = reply.items
        assert isinstance(item, UnregisteredPartition)
        return item

    def fetch(self, partition: int, **fields: Any) -> FetchedPartition:
        key = f"1:demo:{partition}"
        item = FetchItem(key, self.grants.get(key, 1), **fields)
        reply: Any = self.ask(FetchRegistered(self.group_id, self.consumer_id, self.epoch, (item,)), Message)
        (got,) = reply.items
        assert isinstance(got, FetchedPartition)
        return got

    def read(self, partition: int, **fields: Any) -> list[int]:
        """Return the numbers of the records in a fetch."""
        got = self.fetch(partition, **fields)
        assert got.error_code in (ErrorCode.NONE, ErrorCode.NOT_FOUND), got.error_code
        return numbers(got)

    def confirm(
        self, partition: int, offset: int | None = None, *, consumed: bool = True, epoch: int | None = None
    ) -> ConfirmedPartition:
        key = f"1:demo:{partition}"
        item = ConfirmItem(key, self.grants.get(key, 1) if epoch is None else epoch, consumed, offset)
        reply: Any = self.ask(ConfirmConsumed(self.group_id, self.consumer_id, self.epoch, (item,)), Message)
        (got,) = reply.items
        assert isinstance(got, ConfirmedPartition)
        return got

    def leave(self, *released: ReleasedKey) -> LeaveMemberReply:
        request = LeaveMember(self.group_id, self.consumer_id, self.epoch, released)
        return self.ask(request, LeaveMemberReply)


def numbers(got: FetchedPartition) -> list[int]:
    """Return the numbers of the records from its position on."""
    found: list[int] = []
    at = 0
    while at < len(got.records):
        base, _next, size, _timestamp = extent(got.records, at)
        for offset, record in enumerate(decode_batch(got.records, at), base):
            assert record.value == b"%d" % offset
            if offset >= got.position:
                found.append(offset)
        at += size
    return found
