"""Runs a node on a disk that copies itself before every operation, and at every place inside every write: the disk that
a machine would find after a crash there, and the data that must not be lost.
"""

import copy
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from coordinator.core.core import Core
from coordinator.node.effects import Effect, Send
from coordinator.node.events import Stopping
from partition_log.store.log_store import StoreLimits
from partition_log.wal.layout import BLOCK_HEAD, BLOCK_MAGIC
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import (
    ConfirmConsumed,
    ConfirmConsumedReply,
    ConfirmItem,
    HeldKey,
    LeaveMember,
    RegisterItem,
    RegisterPartitions,
    RegisterPartitionsReply,
    ReleasedKey,
    StartMember,
    StartMemberReply,
    UnregisterPartitions,
)
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import (
    DeleteGroups,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.messages.ownership import (
    ClaimItem,
    ClaimPartitions,
    ClaimPartitionsReply,
    ReleaseItem,
    ReleasePartitions,
)
from protocol.messages.topics import DeletableTopic, DeleteTopics
from protocol.record_batch import CorruptBatch, encode_batch, extent
from protocol.streams_protocol import encode_streams_assignment
from tests.groups.checks import balanced_groups
from tests.node.node_rig import NodeRig
from tests.simulation.disk import SECTOR, SimDisk
from tests.simulation.files import Folder

LIMITS = StoreLimits(wal_segment_bytes=8192, checkpoint_bytes=12_000, max_batch_bytes=4096, spill_bytes=1500)
SETTINGS: dict[str, Any] = {
    "offsets_topic_num_partitions": 2,
    "offsets_topic_segment_bytes": 2_500,
    "offsets_topic_max_message_bytes": 4_096,
    "log_cleaner_min_cleanable_ratio": 0.1,
    "log_cleaner_backoff_ms": 50,
}
_SESSION_MS = 600_000
State = dict[str, Any]


class Found(NamedTuple):
    """Disk of a machine that stopped at `place`, and the state that it must recover: one that was live between two
    positions of `CrashStory.history`, with everything acknowledged."""

    place: str
    root: Folder
    first: int
    last: int
    acknowledged: dict[tuple[str, ...], int | str]


class CopyingDisk(SimDisk):
    """`copied` is called before every operation, and with a copy that has a part of it at every place inside a write:
    sectors, and the frames or batches that are written."""

    def __init__(self) -> None:
        super().__init__(0)
        self.copied: Callable[[str, Callable[[], Folder]], None] | None = None

    def _operation(self, name: str, what: str | int) -> None:
        super()._operation(name, what)
        if self.copied is not None:
            self.copied(f"before {self.operations} ({name} {what})", lambda: copy.deepcopy(self._root))

    def write_at(self, handle: int, position: int, data: bytes) -> None:
        if self.copied is not None:
            for cut in cuts(position, data):
                self.copied(
                    f"within {self.operations + 1}, {cut} of {len(data)} bytes",
                    lambda cut=cut: self._torn(handle, position, data[:cut]),  # type: ignore[misc]
                )
        super().write_at(handle, position, data)

    def _torn(self, handle: int, position: int, data: bytes) -> Folder:
        root, file = copy.deepcopy((self._root, self._handles[handle].file))
        file.sync()
        file.change((position, data))
        file.sync()
        return root


def cuts(position: int, data: bytes) -> list[int]:
    """Bytes after which a write may stop: where a sector of the file ends, and where a frame or batch does."""
    found = set(range(SECTOR - position % SECTOR, len(data), SECTOR))
    if data[:4] == BLOCK_MAGIC:
        at = BLOCK_HEAD.size
        while at + 4 < len(data) and (length := int.from_bytes(data[at : at + 4], "big")):
            at += 4 + length
            found.add(at)
    else:
        at = 0
        while at + 61 < len(data):
            try:
                size = extent(data, at)[2]
            except CorruptBatch:
                break
            at += size
            found.add(at)
    return sorted(cut for cut in found if 0 < cut < len(data))


def state_of(core: Core) -> State:
    """Return the durable state. A topic whose deletion has begun is left out: a start continues the deletion."""
    topics = {topic.record.name: topic.record for topic in core.embedded._topics}
    groups = {
        one.group_id: one.stored
        for shard in core.shards
        for group in shard.groups.values()
        if (one := group.classic).stored
    }
    offsets: dict[tuple[str, str, int], Any] = {
        (group_id, topic, partition): committed.recorded()
        for shard in core.shards
        for group_id in shard.offsets.groups()
        for topic, partitions in shard.offsets.topics(group_id).items()
        if topic in topics
        for partition, committed in partitions.items()
    }
    ends = {name: core.store.log(name).next_offset for name in ("orders-0", "orders-1")}
    grants = {
        (one.group_id, one.topic, one.partition): one
        for shard in core.shards
        for group in shard.groups.values()
        for one in (group.classic.owners.entries if group.classic.owners is not None else ())
    }
    balanced = {group_id: one.stored for shard in core.shards for group_id, one in balanced_groups(shard).items()}
    return {
        "topics": topics,
        "groups": groups,
        "offsets": offsets,
        "ends": ends,
        "grants": grants,
        "balanced": balanced,
    }


class ObservedRig(NodeRig):
    """Records which requests were sent and which acknowledged."""

    story: "CrashStory | None" = None

    def _carry_out(self, effect: Effect) -> None:
        super()._carry_out(effect)
        if self.story is not None and isinstance(effect, Send):
            self.story.heard(effect.connection)


class CrashStory:
    """The story, once through. `found` is called at every place."""

    def __init__(self, found: Callable[[Found], None], wants: Callable[[int], bool]) -> None:
        self._found = found
        self._wants = wants
        self._places = count()
        self.disk = CopyingDisk()
        self.history: list[tuple[int, State]] = []
        self.acknowledged: dict[tuple[str, ...], int | str] = {}
        self._asked: dict[int, tuple[tuple[str, ...], int | str]] = {}
        self._generations: dict[int, int] = {}
        self._member_ids: dict[int, str] = {}
        self.node_rig: ObservedRig
        self.clean_stops = 0
        self._number = 0
        self._member_epoch = -1
        self._at_static = 0
        self._offers: tuple[str, ...] = ()

    # ------------------------------------------------------------------------------------------------- being looked at

    def _copied(self, place: str, root: Callable[[], Folder]) -> None:
        self._note()
        if not self._wants(next(self._places)):
            return
        flushed = self.node_rig.store.flushed
        first = max(index for index, (position, _state) in enumerate(self.history) if position <= flushed)
        self._found(Found(place, root(), first, len(self.history), dict(self.acknowledged)))

    def _note(self) -> None:
        """Record the state as of now, if something was appended since the last."""
        position = self.node_rig.store.position
        if not self.history or self.history[-1][0] != position:
            self.history.append((position, state_of(self.node_rig.node.core)))

    def heard(self, connection: int) -> None:
        """Note an answer: from now on what it acknowledges must not be lost."""
        for reply in self.node_rig.received[connection]:
            match reply:
                case OffsetCommitReply():
                    if reply.topics[0].partitions[0].error_code is ErrorCode.NONE and connection in self._asked:
                        key, value = self._asked.pop(connection)
                        self.acknowledged[key] = value
                case JoinGroupReply(error_code=ErrorCode.NONE):
                    self._generations[connection] = reply.generation_id
                    self._member_ids[connection] = reply.member_id
                case SyncGroupReply(error_code=ErrorCode.NONE) if connection != 8:
                    self.acknowledged["generation", "team"] = self._generations[connection]
                case ClaimPartitionsReply():
                    for item in reply.items:
                        assert item.error_code is ErrorCode.NONE
                        self.acknowledged["epoch", "threads", item.topic, str(item.partition)] = item.epoch
                case _:
                    self._heard_of_balancers(reply)

    def _heard_of_balancers(self, reply: Message) -> None:
        match reply:
            case StartMemberReply(error_code=ErrorCode.NONE):
                self._member_epoch = reply.member_epoch
            case RegisterPartitionsReply():
                for one in reply.items:
                    self.acknowledged["epoch", "balancers", "orders", one.key[-1]] = one.reg_epoch
            case ConfirmConsumedReply():
                for done in reply.items:
                    self.acknowledged["offset", "balancers", "orders", done.key[-1]] = done.committed_offset
            case _:
                pass

    # -------------------------------------------------------------------------------------------------------- the story

    def run(self) -> None:
        """From an empty disk to the second clean stop."""
        self._start()
        self.node_rig.make_topic("orders", 2)
        self.node_rig.make_topic("gone", 2)
        for connection in range(1, 10):
            self.node_rig.connect(connection)
        self._rebalance(1)
        self._rebalance(2, 1)
        self._commits(12)
        self._static(3, "range", "roundrobin")
        self._rebalance(1, 2)
        self._own()
        self._balance()
        self._commits(25)
        self._static(4, "range", "roundrobin")  # the same process again: nobody moves
        self._commits(5)
        self._static(5, "roundrobin")  # with another protocol: all begin anew
        self._rebalance(1, 2)
        parts = ProducePartition(0, records(3)), ProducePartition(1, records(1))
        self._ask(6, Produce((ProduceTopic("orders", parts),)))
        self._commits(30)
        self._ask(6, DeleteTopics((DeletableTopic("gone"),)))
        self._ask(6, DeleteGroups(("simple-3",)))
        self._clean()
        self._stop()
        self._start()
        for connection in range(1, 10):
            self.node_rig.connect(connection)
        self._commits(20)
        self._own()
        self._balance()
        self._ask(9, LeaveMember("balancers", "app-1", self._member_epoch))
        self._ask(2, LeaveGroup("team", (LeavingMember(self._member_ids[2]),)))
        self._rebalance(1)
        self._commits(25)
        self._clean()
        self._stop()

    def _start(self) -> None:
        self.disk.copied = None
        self.node_rig = ObservedRig(self.disk, LIMITS, **SETTINGS)
        self.node_rig.story = self
        append = self.node_rig.store._wal_append

        def noted(name: bytes, batch: bytes) -> int:
            self._note()
            return append(name, batch)

        self.node_rig.store._wal_append = noted
        self.disk.copied = self._copied

    def _stop(self) -> None:
        self.node_rig.step(Stopping())
        self.node_rig.wake_until_idle()
        assert self.node_rig.store.close(self.node_rig.node.snapshots())
        self.clean_stops += 1

    def _clean(self) -> None:
        for _ in range(40):
            self.node_rig.wait(60)
        done = self.node_rig.node.core.cleaner.done
        assert done.bytes_written < done.bytes_read, "nothing was cleaned away"

    def _ask(self, connection: int, *messages: Message) -> list[Message]:
        return self.node_rig.ask(connection, *messages)

    def _commits(self, times: int) -> None:
        for _ in range(times):
            self._number += 1
            group_id, topic = f"simple-{self._number % 5}", "gone" if self._number % 7 == 0 else "orders"
            partition = OffsetCommitPartition(self._number % 2, self._number, committed_metadata="m" * 150)
            if topic == "orders" and group_id != "simple-3":
                self._asked[7] = ("offset", group_id, topic, str(self._number % 2)), self._number
            else:
                self._asked.pop(7, None)
            self._ask(7, OffsetCommit(group_id, (OffsetCommitTopic(topic, (partition,)),)))
            self.node_rig.wait(5)

    def _rebalance(self, *members: int) -> None:
        """These members join and sync, beside the static members."""
        joining = [*members, *self._static_place()]
        for connection in joining:
            self._ask(connection, self._join(connection))
        self.node_rig.wait(1)
        for connection in reversed(joining):
            shares = tuple(SyncGroupAssignment(self._member_ids[one], b"share" * 20) for one in joining)
            self._ask(connection, self._sync(connection, shares))
        self.node_rig.wait(1)

    def _own(self) -> None:
        """One member of another group claims its assignment, releases some of it, and claims it again."""
        offers = (JoinProtocol("range-threads", b"threads"),)
        member_id = self._member_ids.get(8, "")
        join = JoinGroup("threads", _SESSION_MS, member_id, "streams", offers, wants_member_id_first=False)
        self._ask(8, join)
        self.node_rig.wait(1)
        generation, member_id = self._generations[8], self._member_ids[8]
        shares = (SyncGroupAssignment(member_id, encode_streams_assignment({"orders": {0: 0, 1: 1}})),)
        self._ask(8, SyncGroup("threads", generation, member_id, assignments=shares))
        claim = ClaimPartitions(
            "threads", member_id, generation, (ClaimItem("orders", 0, 0), ClaimItem("orders", 1, 1))
        )
        for _ in range(2):
            self._ask(8, claim)
            epoch = self.acknowledged["epoch", "threads", "orders", "1"]
            assert isinstance(epoch, int)
            self._ask(8, ReleasePartitions("threads", member_id, generation, (ReleaseItem("orders", 1, epoch),)))

    def _balance(self) -> None:
        """A member of a client-balanced group starts, or restarts with what it holds; it registers, confirms and
        releases."""
        epochs = {key[3]: epoch for key, epoch in self.acknowledged.items() if key[:2] == ("epoch", "balancers")}
        held = tuple(HeldKey(f"1:orders:{number}", int(epoch)) for number, epoch in epochs.items())
        self._ask(9, StartMember("balancers", "app-1", ("orders",), session_timeout_ms=_SESSION_MS, held=held))
        both = tuple(RegisterItem(f"1:orders:{number}", position_policy="first") for number in (0, 1))
        self._ask(9, RegisterPartitions("balancers", "app-1", self._member_epoch, both))
        for _ in range(2):
            epoch = self.acknowledged["epoch", "balancers", "orders", "1"]
            assert isinstance(epoch, int)
            done = (ConfirmItem("1:orders:1", epoch, offset=0),)
            self._ask(9, ConfirmConsumed("balancers", "app-1", self._member_epoch, done))
            free = (ReleasedKey("1:orders:1", epoch),)
            self._ask(9, UnregisterPartitions("balancers", "app-1", self._member_epoch, free))
            self._ask(9, RegisterPartitions("balancers", "app-1", self._member_epoch, both[1:]))

    def _static_place(self) -> list[int]:
        return [self._at_static] if self._at_static else []

    def _static(self, connection: int, *offers: str) -> None:
        """A process joins with the instance id of the static member, on a connection of its own."""
        self._at_static, self._offers = connection, offers
        self._ask(connection, self._join(connection))
        self.node_rig.wait(1)

    def _join(self, connection: int) -> JoinGroup:
        is_static = connection == self._at_static
        return JoinGroup(
            "team",
            _SESSION_MS,
            self._member_ids.get(connection, ""),
            "consumer",
            tuple(JoinProtocol(name, b"topics") for name in (self._offers if is_static else ("range", "roundrobin"))),
            group_instance_id="place" if is_static else None,
            wants_member_id_first=False,
        )

    def _sync(self, connection: int, shares: tuple[SyncGroupAssignment, ...]) -> SyncGroup:
        instance = "place" if connection == self._at_static else None
        generation = self._generations.get(connection, -1)
        return SyncGroup("team", generation, self._member_ids[connection], instance, assignments=shares)


def records(number: int) -> bytes:
    return encode_batch([(None, b"record" * 20)] * number, timestamp_ms=1_000)
