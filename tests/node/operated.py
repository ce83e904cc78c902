"""A node with members that join, sync and send heartbeats as clients do, and `doctor`, which examines it by the HTTP
queries."""

from typing import Any

from coordinator.http.queries import Queries
from coordinator.http.watch import examine
from coordinator.node.events import Lost
from diagnosis.problem import GroupProblem
from protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.node import Hello
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.record_batch import encode_batch
from tests.node.node_rig import NodeRig

SESSION_MS, POLL_MS, BEAT_MS = 45_000, 300_000, 3_000
ASSIGNOR = "range"
_ASKING = 1


class DiagnosisRig(NodeRig):
    """A node, its members, and the doctor."""

    def __init__(self, partitions: int = 4, **settings: Any) -> None:
        super().__init__(**settings)
        self.make_topic("orders", partitions)
        self.partitions = partitions
        self.members: list[SimMember] = []
        self._next = 10
        self._calls = 1_000

    def member(self, group_id: str, name: str, host: str, **more: Any) -> "SimMember":
        self._next += 1
        member = SimMember(self, self._next, group_id, name, host, **more)
        self.members.append(member)
        return member

    def run(self, ms: int, step_ms: int = 500) -> None:
        """Let time pass; members act whenever something is due."""
        for _ in range(ms // step_ms):
            self.wait(step_ms)
            for member in list(self.members):
                member.act()

    async def ask_doctor(self, message: Message) -> Message:
        self._calls += 1
        self.ask_inside(message, self._calls)
        while self._calls not in self.replied:
            self.wait(0)
        return self.replied.pop(self._calls)

    def produce(self, partition: int, age_ms: int = 0) -> None:
        """Write a record now, with a timestamp `age_ms` ago."""
        batch = encode_batch([(None, b"record")], timestamp_ms=self._moment().wall_ms - age_ms)
        data = (ProduceTopic("orders", (ProducePartition(partition, batch),)),)
        self.ask_inside(Produce(data, acks=-1, timeout_ms=1_000), call=5)

    async def problems(self, *group_ids: str) -> list[GroupProblem]:
        return await examine(Queries(self.ask_doctor), _no_rest, group_ids or None)


async def _no_rest() -> None:
    pass


class SimMember:
    """A consumer: `act` is called often, and sends what is due. `slow_ms`: time for which its application is busy when
    a rebalance begins; `assignor`: those that it offers, with commas."""

    def __init__(
        self,
        rig: DiagnosisRig,
        number: int,
        group_id: str,
        name: str,
        host: str,
        instance_id: str | None = None,
        assignor: str = ASSIGNOR,
        slow_ms: int = 0,
        session_ms: int = SESSION_MS,
        poll_ms: int = POLL_MS,
        topics: tuple[str, ...] = ("orders",),
    ) -> None:
        self.rig, self.number, self.group_id, self.name = rig, number, group_id, name
        self.host, self.port, self.instance_id = host, 40_000 + number, instance_id
        self.assignor, self.slow_ms, self.topics = assignor, slow_ms, topics
        self.session_ms, self.poll_ms, self.beat_ms = session_ms, poll_ms, BEAT_MS
        self.member_id, self.generation, self.is_hung = "", -1, False
        self.never_syncs = False
        self.user_data: bytes | None = None
        """User data that it adds to each assignment if it is the leader."""
        self.error = ErrorCode.NONE
        self._beat_at = self._join_at = 0
        self._is_waiting = False
        rig.connect_from(number, host, self.port)
        self._send(Hello(name, "1.0"))

    def act(self) -> None:
        now_ms = self.rig.now_ms
        for reply in self.rig.heard(self.number):
            self._hear(reply)
        if self.is_hung or self.error or self._is_waiting:
            return
        if self.generation < 0:
            if now_ms >= self._join_at:
                self.join()
        elif now_ms >= self._beat_at:
            self._beat_at = now_ms + self.beat_ms
            self._send(Heartbeat(self.group_id, self.generation, self.member_id, self.instance_id))

    def join(self) -> None:
        self._is_waiting = True
        metadata = encode_subscription(Subscription(self.topics))
        self._send(
            JoinGroup(
                self.group_id,
                self.session_ms,
                self.member_id,
                "consumer",
                tuple(JoinProtocol(one, metadata) for one in self.assignor.split(",")),
                self.poll_ms,
                self.instance_id,
                wants_member_id_first=False,
            )
        )

    def commit(self, offset: int, partition: int) -> None:
        topics = (OffsetCommitTopic("orders", (OffsetCommitPartition(partition, offset),)),)
        self._send(OffsetCommit(self.group_id, topics, self.generation, self.member_id, self.instance_id))

    def close(self) -> None:
        """End as a client does: a dynamic member leaves, a static one only closes its connection."""
        if self.instance_id is None:
            self._send(LeaveGroup(self.group_id, (LeavingMember(self.member_id, None, "shutting down"),)))
        self.kill()

    def poll_too_late(self) -> None:
        """Leave as Kafka's clients do when their application does not poll."""
        self._send(LeaveGroup(self.group_id, (LeavingMember(self.member_id),)))
        self.member_id, self.generation = "", -1

    def kill(self) -> None:
        self.rig.step(Lost(self.number))
        self.rig.members.remove(self)

    def _send(self, message: Message) -> None:
        for reply in self.rig.ask(self.number, message):
            self._hear(reply)

    def _hear(self, reply: Message) -> None:
        if isinstance(reply, JoinGroupReply):
            self._joined(reply)
        elif isinstance(reply, SyncGroupReply):
            self._is_waiting = False
            if reply.error_code:
                self.generation = -1
        elif getattr(reply, "error_code", 0) is ErrorCode.REBALANCE_IN_PROGRESS:
            self.generation, self._join_at = -1, self.rig.now_ms + self.slow_ms
        elif getattr(reply, "error_code", 0) is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.generation = "", -1
        elif getattr(reply, "error_code", 0) is ErrorCode.FENCED_INSTANCE_ID:
            self.error = ErrorCode.FENCED_INSTANCE_ID

    def _joined(self, reply: JoinGroupReply) -> None:
        self._is_waiting = False
        if reply.error_code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
            return
        if reply.error_code:
            self.error = reply.error_code
            return
        self.member_id, self.generation = reply.member_id, reply.generation_id
        self._is_waiting = True
        if self.never_syncs:
            return
        ids = [one.member_id for one in reply.members]
        shares = tuple(SyncGroupAssignment(one, self._share(number, len(ids))) for number, one in enumerate(ids))
        self._send(SyncGroup(self.group_id, self.generation, self.member_id, self.instance_id, assignments=shares))

    def _share(self, number: int, members: int) -> bytes:
        own = tuple(range(number, self.rig.partitions, members))
        return encode_assignment(Assignment((TopicPartitions("orders", own),) if own else (), self.user_data))
