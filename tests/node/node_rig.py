"""A node on a simulated disk, and clients that send it bytes: for tests of the node as a whole."""

import errno
from typing import Any

from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.node.effects import Close, Effect, Flush, LogError, Return, RunJob, Send
from coordinator.node.events import Call, Event, Flushed, JobDone, Opened, Received, Woke
from coordinator.node.node import Node
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.messages import Message
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.native.client import NativeAnswer, NativeClient
from tests.groups.checks import CountingIds
from tests.simulation.disk import SimDisk

WALL_MS = 1_700_000_000_000
NO_ROOM = 0
"""Position that a write-ahead log returns if it has no room for a frame."""
LIMITS = StoreLimits(wal_segment_bytes=1 << 18, checkpoint_bytes=1 << 17, max_batch_bytes=1 << 16)


class NodeRig:
    """`step` carries out flushes and jobs at once unless `holds_disk`, or `holds_jobs`; records data sent and
    connections closed."""

    def __init__(
        self,
        disk: SimDisk | None = None,
        limits: StoreLimits = LIMITS,
        ids: CountingIds | None = None,
        **settings: Any,
    ) -> None:
        self.ids = ids or CountingIds()
        settings = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 3, **settings}
        self.disk = disk or SimDisk(1)
        self.store = LogStore(self.disk, "data", limits, cluster_id="node")
        self.store.open()
        self.now_ms = 0
        self.holds_disk = self.holds_jobs = False
        self.jobs: list[RunJob] = []
        self.closed: dict[int, str] = {}
        self.complaints: list[str] = []
        self.replied: dict[int, Message] = {}
        self.received: dict[int, list[Message]] = {}
        self.flushes: list[Flush] = []
        self._clients: dict[int, NativeClient] = {}
        self.node = Node(Config(**settings), self.store, self.ids, {"native": ("node", 9)}, self._moment())
        self.wake_until_idle()

    def _moment(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.now_ms)

    def connect(self, number: int) -> int:
        return self.connect_from(number, "10.0.0.1")

    def connect_from(self, number: int, host: str, port: int = -1, **certificate: Any) -> int:
        self._clients[number] = NativeClient(1 << 20)
        self.received[number] = []
        self.step(Opened(number, "native", host, None, port, **certificate))
        return number

    def ask(self, number: int, *messages: Message) -> list[Message]:
        """Send the requests as one piece; return all replies since the last call."""
        data = b"".join(self._clients[number].encode_request(message)[1] for message in messages)
        self.step(Received(number, data))
        return self.heard(number)

    def heard(self, number: int) -> list[Message]:
        messages, self.received[number] = self.received[number], []
        return messages

    def ask_inside(self, message: Message, call: int = 1) -> Message | None:
        self.step(Call(call, message))
        return self.replied.get(call)

    def make_topic(self, name: str = "orders", partitions: int = 4) -> None:
        assert self.ask_inside(CreateTopics((CreatableTopic(name, partitions),)), call=99) is not None

    def step(self, event: Event) -> list[Effect]:
        effects = self.node.step(event, self._moment())
        for effect in effects:
            self._carry_out(effect)
        return effects

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.wake_until_idle()

    def wake_until_idle(self) -> None:
        """Wake the node as the edge does, until its next deadline is in the future."""
        for _ in range(10_000):
            deadline_ms = self.node.next_deadline_ms
            if deadline_ms is None or deadline_ms > self.now_ms:
                return
            self.step(Woke())
        raise AssertionError("the node never rests")

    def flush(self) -> None:
        """Complete the flush in progress."""
        effect = self.flushes.pop()
        effect.job.run(self.disk)
        self.step(Flushed(effect.job.up_to))

    def end_job(self) -> None:
        """Complete the checkpoint job in progress."""
        effect = self.jobs.pop()
        effect.job.run(self.disk)
        self.step(JobDone(effect.call_id, effect.job))

    def fill_disk(self) -> None:
        self.disk.fail_next(errno.ENOSPC, "write_at", times=1_000)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                for said in self._clients[effect.connection].receive_data(effect.data):
                    self.received[effect.connection].append(
                        said.reply if isinstance(said, NativeAnswer) else said.message
                    )
            case Close():
                self.closed[effect.connection] = effect.reason
            case LogError():
                self.complaints.append(effect.sentence)
            case Return():
                self.replied[effect.call_id] = effect.reply
            case Flush():
                self.flushes.append(effect)
                if not self.holds_disk:
                    self.flush()
            case RunJob():
                self.jobs.append(effect)
                if not self.holds_jobs:
                    self.end_job()
