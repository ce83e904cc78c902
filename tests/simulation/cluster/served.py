"""The same node as a whole: a `Node` whose shards are in the cluster's log, with a disk of its own that nobody needs. A
number is the committed offset of a group; writes and reads are requests, and requests go through the world."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from coordinator.clock import Moment
from coordinator.cluster_log.entries import ClaimedEpoch
from coordinator.cluster_log.events import ShardEvent
from coordinator.cluster_log.settings import ClusterLogSettings
from coordinator.cluster_node.cluster_shards import ClusterShards
from coordinator.cluster_node.effects import HandedOver, ShardRequest
from coordinator.cluster_node.events import LeaseEnded, LeaseRenewed, ShardChanged
from coordinator.cluster_node.shard_service import ShardService
from coordinator.config.config import Config
from coordinator.node.effects import Flush, Return, RunJob
from coordinator.node.events import Call, Event, Flushed, JobDone, Woke
from coordinator.node.node import Node
from coordinator.placement import java_string_hash
from coordinator.records.codec import decode
from coordinator.records.records import CommittedOffset
from coordinator.runtime.shard import ShardState
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
)
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.groups.checks import CountingIds
from tests.simulation.cluster.node import Answer, MakeShard, SimNode
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.disk import SimDisk

TOPIC = "t"
_LIMITS = StoreLimits(wal_segment_bytes=1 << 17, checkpoint_bytes=1 << 17, max_batch_bytes=1 << 16)
_STEPS_AT_ONCE = 10_000
_BROKERS_ANSWER_WITHIN_MS = 5_000
"""Time for requests of which a node asks brokers, which may not answer."""


def group_of(key: str, shards: int) -> str:
    """Return the id of a group for the key of a world, which names its shard first."""
    wanted = int(key.partition("/")[0])
    return next(name for n in count() if abs(java_string_hash(name := f"{key}-{n}")) % shards == wanted)


def _key_of(group_id: str) -> str:
    return group_id.partition("-")[0]


class ServedShard:
    """A shard as the world's checks see it: it counts as claimed while its groups are served."""

    def __init__(self, service: ShardService, shards: int) -> None:
        self._service = service
        self._shards = shards
        self.tag = -1

    @property
    def core(self) -> "ServedShard":
        return self

    @property
    def index(self) -> int:
        return self._service.shard.index

    @property
    def claim(self) -> ClaimedEpoch | None:
        return self._service.log.protocol.claim if self._service.shard.state is ShardState.ACTIVE else None

    @property
    def is_serving(self) -> bool:
        return self.claim is not None and self._service.log.protocol.is_serving

    @property
    def problem(self) -> str:
        return self._service.log.protocol.problem

    @property
    def numbers(self) -> dict[str, int]:
        offsets = self._service.shard.offsets
        found = {}
        for group_id in offsets.groups():
            kept = offsets.get(group_id, TOPIC, 0)
            if kept is not None:
                found[_key_of(group_id)] = kept.offset
        return found


class ServedNode(SimNode):
    """A process with a real node in it."""

    @staticmethod
    def number_in(key: bytes, value: bytes | None) -> dict[str, int]:
        record = decode(key, value)
        return {_key_of(record.group_id): record.offset} if isinstance(record, CommittedOffset) else {}

    def _make_shards(
        self,
        shards: int,
        settings: ClusterLogSettings,
        make: MakeShard,
    ) -> Sequence[Any]:
        store = LogStore(SimDisk(1), "data", _LIMITS, cluster_id="world")
        store.open()
        self._calls, self._served = count(1), [False] * shards
        self._answers: dict[int, Callable[[Message], None]] = {}
        self._asked_ms: dict[int, int] = {}
        self._side = ClusterShards(settings, self._moment, 1 << 20)
        self._side.protocol = make  # type: ignore[assignment]
        config = Config(offsets_topic_num_partitions=shards, log_retention_check_interval_ms=2**31 - 1)
        self.node = Node(config, store, CountingIds(), {"native": ("n", 9)}, self._moment, None, self._side.make)
        self._side.take_part(self.node)
        self._call(CreateTopics((CreatableTopic(TOPIC, 1),)), lambda reply: None)
        return [ServedShard(service, shards) for service in self._side.services]

    @property
    def _moment(self) -> Moment:
        now = self.clock
        return Moment(now.boot_ms, now.wall_ms, now.boot_ms)

    def _step(self, event: Event) -> None:
        requests = []
        for effect in self._side.step(event, self._moment):
            match effect:
                case ShardRequest(request=request):
                    requests.append(request)
                case HandedOver(shard=shard):
                    self._handed_over(shard)
                case Return(call_id=call, reply=reply):
                    del self._asked_ms[call]
                    self._answers.pop(call)(reply)
                case Flush(job=job):
                    job.run(self.node.core.store._disk)
                    self._step(Flushed(job.up_to))
                case RunJob(call_id=call, job=job):
                    job.run(self.node.core.store._disk)
                    self._step(JobDone(call, job))
        self._send(requests)

    def _look(self) -> None:
        """Wake the node as an edge does, until its next deadline is in the future."""
        for _ in range(_STEPS_AT_ONCE):
            deadline_ms = self.node.next_deadline_ms
            if deadline_ms is None or deadline_ms > self._moment.monotonic_ms:
                break
            self._step(Woke())
        else:
            raise AssertionError("the node never rests")
        for index, shard in enumerate(self.shards):
            claim = shard.claim
            if claim is not None and claim.offset != shard.tag:
                is_new = shard.tag < 0 or not self._served[index]
                shard.tag = claim.offset
                if is_new:
                    self._world.owned(self, index)
            self._served[index] = claim is not None

    def _awaited(self) -> int:
        return sum(asked_ms < self._world.now_ms - _BROKERS_ANSWER_WITHIN_MS for asked_ms in self._asked_ms.values())

    def _call(self, message: Message, answer: Callable[[Message], None]) -> None:
        number = next(self._calls)
        self._answers[number] = answer
        self._asked_ms[number] = self._world.now_ms
        self._step(Call(number, message))

    def _happen(self, shard: int, event: ShardEvent) -> None:
        self._step(ShardChanged(shard, event))
        self._look()

    def _renew_lease(self, sent_boot_ms: int) -> None:
        self._step(LeaseRenewed(sent_boot_ms))

    def _end_lease(self) -> None:
        self._step(LeaseEnded())

    def write(self, shard: int, key: str, value: int, answer: Answer) -> None:
        if value <= self.shards[shard].numbers.get(key, 0):
            # A late request, or one sent again. What is there already may still be on its way to the log.
            self.read(shard, key, answer)
            return

        def answered(reply: Message) -> None:
            assert isinstance(reply, OffsetCommitReply)
            error = reply.topics[0].partitions[0].error_code
            assert error in _MOVED, error
            if not error:
                self._world.written(self, shard, key, value)
            answer(None if error else value)

        topics = (OffsetCommitTopic(TOPIC, (OffsetCommitPartition(0, value),)),)
        self._call(OffsetCommit(group_of(key, len(self.shards)), topics), answered)
        self._look()

    def read(self, shard: int, key: str, answer: Answer) -> None:
        def answered(reply: Message) -> None:
            assert isinstance(reply, OffsetFetchReply)
            (group,) = reply.groups
            assert group.error_code in _MOVED, group
            answer(None if group.error_code else max(group.topics[0].partitions[0].committed_offset, 0))

        wanted = OffsetFetchGroup(group_of(key, len(self.shards)), (OffsetFetchTopic(TOPIC, (0,)),))
        self._call(OffsetFetch((wanted,)), answered)
        self._look()


_MOVED = (
    *(ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class ServedWorld(ClusterWorld):
    """A world of such nodes."""

    make_node = ServedNode
