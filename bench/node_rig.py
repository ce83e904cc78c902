"""A node by itself, without sockets and a disk, and what an edge does around it: steps of what was read in one turn,
flushes and jobs."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.core.budget import READS_A_STEP
from coordinator.io.ids import RandomIds
from coordinator.node.effects import Flush, Return, RunJob, Send
from coordinator.node.events import Call, Event, Flushed, JobDone, Opened, Received, Woke
from coordinator.node.node import Node
from partition_log.disk.disk import OsDisk
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.messages import Message
from protocol.messages.groups import (
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply

CONNECTIONS = 50
TOPIC, _PARTITIONS = "orders", 16
SESSION_MS = 1_800_000
_NUMBER_AT = slice(8, 12)
"""Place of the correlation id in a frame."""

M = TypeVar("M", bound=Message)


class Rig:
    """A node with a group, its only member and a connection of Kafka's protocol for each number."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self._disk = OsDisk()
        store = LogStore(self._disk, str(folder / "data"), StoreLimits())
        store.open()
        self._now_ms = self._call = self._answered = 0
        self._replied: dict[int, Message] = {}
        config = Config(group_initial_rebalance_delay_ms=0, **settings)
        self.node = Node(config, store, RandomIds(), {}, self._moment())
        while not self.node.is_loaded:
            self._step(Woke())
        self.make_topic(TOPIC, _PARTITIONS)
        for number in range(CONNECTIONS):
            self.open(number)
        self.members = [self.join(number) for number in range(CONNECTIONS)]

    def _moment(self) -> Moment:
        return Moment(self._now_ms, 1_700_000_000_000 + self._now_ms)

    @property
    def _is_due(self) -> bool:
        deadline_ms = self.node.next_deadline_ms
        return deadline_ms is not None and deadline_ms <= self._now_ms

    def _step(self, event: Event) -> None:
        for effect in self.node.step(event, self._moment()):
            if isinstance(effect, Send):
                self._answered += 1
            elif isinstance(effect, Return):
                self._replied[effect.call_id] = effect.reply
            elif isinstance(effect, Flush):
                self._step(Flushed(effect.job.up_to))
            elif isinstance(effect, RunJob):
                effect.job.run(self._disk)
                self._step(JobDone(effect.call_id, effect.job))

    def _ask(self, message: Message, kind: type[M]) -> M:
        self._call += 1
        self._step(Call(self._call, message))
        while self._call not in self._replied:
            self._now_ms += 1
            self._step(Woke())
        reply = self._replied.pop(self._call)
        assert isinstance(reply, kind), reply
        return reply

    def ask_of(self, number: int, message: Message, kind: type[M]) -> M:
        """Ask for the member of that number: from inside the process."""
        return self._ask(message, kind)

    def make_topic(self, name: str, partitions: int) -> None:
        """Make a topic."""
        self._ask(CreateTopics((CreatableTopic(name, partitions),)), CreateTopicsReply)

    def open(self, number: int) -> None:
        """Open a connection of Kafka's protocol."""
        self._step(Opened(number, "kafka", f"127.0.{number >> 8 & 255}.{number & 255}", peer_port=40_000 + number))

    def send(self, number: int, frame: bytes) -> None:
        """Send a request on the connection, to be answered at once or by a flush."""
        answered = self._answered
        self._step(Received(number, frame))
        assert self._answered == answered + 1, "no reply"

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        self._now_ms += milliseconds

    def settle(self) -> None:
        """Write to files what the logs have in memory; the second checkpoint ends what the first has begun."""
        store = self.node.core.store
        for _ in range(2):
            if (job := store.begin_checkpoint(force=True)) is not None:
                job.run(self._disk)
                store.finish_checkpoint(job)

    def join(self, number: int) -> tuple[str, JoinGroupReply]:
        """Make a group with one member."""
        group_id, offer = f"group-{number:04}", JoinProtocol("range", b"")
        join = JoinGroup(group_id, SESSION_MS, "", "consumer", (offer,), SESSION_MS, wants_member_id_first=False)
        joined = self.ask_of(number, join, JoinGroupReply)
        given = (SyncGroupAssignment(joined.member_id, b"all"),)
        sync = SyncGroup(group_id, joined.generation_id, joined.member_id, None, "consumer", "range", given)
        assert not self.ask_of(number, sync, SyncGroupReply).error_code
        return group_id, joined

    def round(self, frames: Sequence[bytearray]) -> float:
        """Serve one frame of each connection. Return the microseconds of a request; jobs of the disk are not in it."""
        self._now_ms += 1
        for frame in frames:
            frame[_NUMBER_AT] = self._now_ms.to_bytes(4, "big")
        took_us, sent = self.serve({number: bytes(frame) for number, frame in enumerate(frames)})
        assert len(sent) == len(frames), f"{len(sent)} replies to {len(frames)} requests"
        return took_us / len(frames)

    def serve(self, frames: Mapping[int, bytes]) -> tuple[float, dict[int, bytes]]:
        """Serve the frames, by connection, in the steps that the edge would make of them, each with its flush. Return
        the microseconds of the processor without jobs of the disk, and the replies."""
        events, took_ns = deque([Received(number, frame) for number, frame in frames.items()]), 0
        replies: dict[int, bytes] = {}
        moment = self._moment()
        due: list[Event] = []
        while events or due or self._is_due:
            if not due:
                due = [events.popleft() for _ in range(min(READS_A_STEP, len(events)))]
            began = time.thread_time_ns()
            effects = self.node.step_many(due or (Woke(),), moment)
            took_ns += time.thread_time_ns() - began
            due = []
            for effect in effects:
                if isinstance(effect, Send):
                    replies[effect.connection] = effect.data
                elif isinstance(effect, Flush):
                    due.append(Flushed(effect.job.up_to))
                elif isinstance(effect, RunJob):
                    effect.job.run(self._disk)
                    due.append(JobDone(effect.call_id, effect.job))
        return took_ns / 1_000, replies
