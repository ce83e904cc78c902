"""A node by itself, without sockets and a disk: `python -m bench alone`. Microseconds of the processor a request, the
least and the median of many rounds. A round is one request of each connection, read in one turn of the loop and served
in one step, and one flush; a commit's sync is left out. Bytes go in as Kafka's clients send them, and each request must
be answered once.

To compare two builds, run it in each by turns.
"""

import gc
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

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
from protocol.kafka.client import encode_request
from protocol.messages import Message
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply

CONNECTIONS, ROUNDS = 50, 400
_QUICK = 10
_TOPIC, _PARTITIONS = "orders", 16
_SESSION_MS = 1_800_000
_NUMBER_AT = slice(8, 12)
"""Place of the correlation id in a frame."""

M = TypeVar("M", bound=Message)


class Rig:
    """A node with a group, its only member and a connection of Kafka's protocol for each number."""

    def __init__(self, folder: Path) -> None:
        self._disk = OsDisk()
        store = LogStore(self._disk, str(folder / "data"), StoreLimits())
        store.open()
        self._now_ms = self._call = self._answered = 0
        self._replied: dict[int, Message] = {}
        self.node = Node(Config(group_initial_rebalance_delay_ms=0), store, RandomIds(), {}, self._moment())
        while not self.node.is_loaded:
            self._step(Woke())
        self._ask(CreateTopics((CreatableTopic(_TOPIC, _PARTITIONS),)), CreateTopicsReply)
        self.members = [self.join(number) for number in range(CONNECTIONS)]
        for number in range(CONNECTIONS):
            self.open(number)

    def _moment(self) -> Moment:
        return Moment(self._now_ms, 1_700_000_000_000 + self._now_ms)

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

    def open(self, number: int) -> None:
        """Open a connection of Kafka's protocol."""
        self._step(Opened(number, "kafka", f"127.0.{number >> 8 & 255}.{number & 255}", peer_port=40_000 + number))

    def send(self, number: int, frame: bytes) -> None:
        """Send a request on the connection, to be answered at once or by a flush."""
        answered = self._answered
        self._step(Received(number, frame))
        assert self._answered == answered + 1, "no reply"

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
        join = JoinGroup(group_id, _SESSION_MS, "", "consumer", (offer,), _SESSION_MS, wants_member_id_first=False)
        joined = self._ask(join, JoinGroupReply)
        given = (SyncGroupAssignment(joined.member_id, b"all"),)
        sync = SyncGroup(group_id, joined.generation_id, joined.member_id, None, "consumer", "range", given)
        assert not self._ask(sync, SyncGroupReply).error_code
        return group_id, joined

    def round(self, frames: Sequence[bytearray]) -> float:
        """Serve one frame of each connection. Return the microseconds of a request; jobs of the disk are not in it."""
        self._now_ms += 1
        for frame in frames:
            frame[_NUMBER_AT] = self._now_ms.to_bytes(4, "big")
        events = [Received(number, bytes(frame)) for number, frame in enumerate(frames)]
        moment, step = self._moment(), self.node.step
        began = time.thread_time_ns()
        effects = self.node.step_many(events, moment)
        took_ns = time.thread_time_ns() - began
        sent = sum(isinstance(one, Send) for one in effects)
        while (flush := next((one for one in effects if isinstance(one, Flush)), None)) is not None:
            jobs = [one for one in effects if isinstance(one, RunJob)]
            began = time.thread_time_ns()
            effects = step(Flushed(flush.job.up_to), moment)
            took_ns += time.thread_time_ns() - began
            sent += sum(isinstance(one, Send) for one in effects)
            effects += jobs
        for one in effects:
            if isinstance(one, RunJob):
                one.job.run(self._disk)
                self._step(JobDone(one.call_id, one.job))
        assert sent == len(frames), f"{sent} replies to {len(frames)} requests"
        return took_ns / 1_000 / len(frames)


def measure(options: Options) -> list[Sheet]:
    rounds = ROUNDS // (_QUICK if options.quick else 1)
    rows: list[tuple[Value, ...]] = []
    with scratch(in_memory=True) as folder:
        rig = Rig(folder)
        gc.collect()
        gc.disable()  # the daemon has it look rarely, and never through what stays
        try:
            for name, frames in requests_of(rig.members).items():
                took = [rig.round(frames) for _ in range(rounds)]
                rows.append((name, min(took), median(took)))
        finally:
            gc.enable()
    return [Sheet("The node alone", ("request", "least us", "median us"), rows)]


def requests_of(members: Sequence[tuple[str, JoinGroupReply]]) -> dict[str, list[bytearray]]:
    """Frames of each kind of request, one for each member."""

    def frames(version: int, messages: Sequence[Message]) -> list[bytearray]:
        return [bytearray(encode_request(one, version, 0, "bench")) for one in messages]

    def commits(count: int) -> list[bytearray]:
        topic = OffsetCommitTopic(_TOPIC, tuple([OffsetCommitPartition(index, 10_000) for index in range(count)]))
        return frames(7, [OffsetCommit(group, (topic,), one.generation_id, one.member_id) for group, one in members])

    topics = (OffsetFetchTopic(_TOPIC, (0,)),)
    fetches = [OffsetFetch((OffsetFetchGroup(group, topics),)) for group, _ in members]
    return {
        "Heartbeat": frames(3, [Heartbeat(group, one.generation_id, one.member_id) for group, one in members]),
        "OffsetCommit, 1 partition": commits(1),
        "OffsetCommit, 10 partitions": commits(10),
        "OffsetFetch, 1 partition": frames(5, fetches),
    }


if __name__ == "__main__":
    from bench.__main__ import main

    main(["alone", *sys.argv[1:]])
