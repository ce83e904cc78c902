"""A small model of a coordinator: the behaviour on which client-balanced members rely, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass, field

from muster.core.producing.batch import Pending, _payload
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages import balanced as b
from protocol.messages.node import FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.record_batch import seal_batch, stamp

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass
class Log:
    """A partition: `batches` by first offset."""

    subscribable: bool = True
    begin: int = 0
    end: int = 0
    batches: list[tuple[int, bytes]] = field(default_factory=list)

    def append(self, values: list[bytes], headers: list[Headers] | None = None) -> None:
        given = headers or [()] * len(values)
        records = [Pending(None, value, of_it, 1, None) for value, of_it in zip(values, given, strict=True)]
        self.batches.append((self.end, stamp(seal_batch(_payload(records, 1), len(values), 1), self.end)))
        self.end += len(values)

    def read(self, position: int) -> tuple[bytes, int]:
        """Return the first batch that ends after the position, and its end."""
        ends = [first for first, _ in self.batches[1:]] + [self.end]
        for (_first, data), end in zip(self.batches, ends, strict=False):
            if end > position:
                return data, end
        return b"", position


@dataclass
class Owner:
    consumer_id: str
    epoch: int
    position: int
    in_flight: int | None = None


@dataclass
class Joined:
    epoch: int
    node_id: int
    source_count: int
    position: str
    deadline_ms: int
    timeout_ms: int
    attempt: int = 0
    acked: int = 0
    reports: list[tuple[b.OwnedKey, ...]] = field(default_factory=list)


class Model:
    """The model. `configured` has the partitions; `replies` may replace replies, by the request's type."""

    def __init__(self) -> None:
        self.configured: dict[str, Log] = {}
        self.version = 1
        self.members: dict[str, Joined] = {}
        self.owners: dict[str, Owner] = {}
        self.epochs: dict[str, int] = {}
        self.stored: dict[str, int] = {}
        self.from_max_id = 0
        self.instead: Callable[[Message], Message | None] = lambda _message: None
        self.start_refused: tuple[ErrorCode, str] | None = None
        self.epochs_given = 0
        self.now_ms = 0

    def answer(self, message: Message, now_ms: int) -> Message:
        self.now_ms = now_ms
        for consumer_id, member in tuple(self.members.items()):
            if member.deadline_ms <= now_ms:
                self.remove(consumer_id)
        instead = self.instead(message)
        if instead is not None:
            return instead
        if isinstance(message, FindCoordinator):
            found = tuple(FoundCoordinator(key, 1, "node", 9) for key in message.coordinator_keys)
            return FindCoordinatorReply(found)
        handler = getattr(self, f"on_{type(message).__name__}")
        if not isinstance(message, b.StartMember | b.DescribeBalanced | b.ConsumeFromMax):
            joined = self.members.get(message.consumer_id)  # type: ignore[attr-defined]
            kind = getattr(b, f"{type(message).__name__}Reply")
            if joined is None or joined.epoch != message.member_epoch:  # type: ignore[attr-defined]
                return kind(error_code=ErrorCode.NO_NODE)  # type: ignore[no-any-return]
        return handler(message)  # type: ignore[no-any-return]

    def remove(self, consumer_id: str) -> None:
        """Remove a member, as the end of its lease does."""
        self.members.pop(consumer_id, None)
        for key, owner in tuple(self.owners.items()):
            if owner.consumer_id == consumer_id:
                del self.owners[key]

    def configure(self, key: str, *, subscribable: bool = True) -> Log:
        log = self.configured.setdefault(key, Log())
        log.subscribable = subscribable
        self.version += 1
        return log

    def unconfigure(self, key: str) -> None:
        del self.configured[key]
        self.owners.pop(key, None)
        self.version += 1

    # -- the calls

    def on_StartMember(self, message: b.StartMember) -> b.StartMemberReply:  # noqa: N802
        if self.start_refused is not None:
            return b.StartMemberReply(*self.start_refused)
        known = self.members.get(message.consumer_id)
        if known is not None and 0 < message.attempt <= known.attempt:
            return b.StartMemberReply(ErrorCode.BAD_REQUEST, "it comes late")
        for other, joined in self.members.items():
            if other == message.consumer_id or (joined.source_count < 0 and message.source_count < 0):
                continue
            if joined.source_count != message.source_count:
                wanted = f"source_count is {joined.source_count}"
                return b.StartMemberReply(ErrorCode.INCONSISTENT_SOURCE_COUNT, wanted)
            if joined.node_id == message.node_id:
                return b.StartMemberReply(ErrorCode.DUPLICATE_NODE_ID, f"{other} is node {message.node_id}")
        self.epochs_given += 1
        timeout_ms = message.session_timeout_ms
        self.members[message.consumer_id] = Joined(
            self.epochs_given,
            message.node_id,
            message.source_count,
            message.consume_position,
            self.now_ms + timeout_ms,
            timeout_ms,
            message.attempt,
        )
        granted, lost = [], []
        for held in message.held:
            owner = self.owners.get(held.key)
            if owner is None and self.epochs.get(held.key) == held.reg_epoch:
                position = held.position if held.position >= 0 else self.stored.get(held.key, 0)
                granted.append(self._grant(message.consumer_id, held.key, position))
            elif owner is not None and owner.consumer_id == message.consumer_id and owner.epoch == held.reg_epoch:
                granted.append(self._grant(message.consumer_id, held.key, owner.position))
            else:
                lost.append(b.LostKey(held.key, ErrorCode.DUPLICATE_PARTITION))
        for key in [key for key, owner in self.owners.items() if owner.consumer_id == message.consumer_id]:
            if key not in {one.key for one in message.held}:
                del self.owners[key]
        return b.StartMemberReply(
            member_epoch=self.epochs_given,
            session_timeout_ms=timeout_ms,
            heartbeat_ms=min(10_000, timeout_ms // 3),
            granted=tuple(granted),
            lost=tuple(lost),
            meta_version=self.version,
        )

    def on_MemberHeartbeat(self, message: b.MemberHeartbeat) -> b.MemberHeartbeatReply:  # noqa: N802
        joined = self.members[message.consumer_id]
        joined.deadline_ms = self.now_ms + joined.timeout_ms
        joined.acked = max(joined.acked, message.ops_ack)
        if message.owned is not None:
            joined.reports.append(message.owned)
        for item in message.released:
            self._release(message.consumer_id, item)
        lost = tuple(
            b.LostKey(one.key, ErrorCode.DUPLICATE_PARTITION)
            for one in message.owned or ()
            if not self._owns(message.consumer_id, one.key, one.reg_epoch)
        )
        wanted = self.from_max_id if joined.acked < self.from_max_id else 0
        return b.MemberHeartbeatReply(
            lost=lost, meta_version=self.version, meta=self._meta(message.meta_version), from_max_id=wanted
        )

    def on_PartitionMeta(self, message: b.PartitionMeta) -> b.PartitionMetaReply:  # noqa: N802
        joined = self.members[message.consumer_id]
        joined.deadline_ms = self.now_ms + joined.timeout_ms
        return b.PartitionMetaReply(meta_version=self.version, meta=self._meta(message.meta_version))

    def on_RegisterPartitions(self, message: b.RegisterPartitions) -> b.RegisterPartitionsReply:  # noqa: N802
        return b.RegisterPartitionsReply(items=tuple(self._register(message.consumer_id, one) for one in message.items))

    def _register(self, consumer_id: str, item: b.RegisterItem) -> b.RegisteredPartition:
        owner, log = self.owners.get(item.key), self.configured.get(item.key)
        if log is None:
            return b.RegisteredPartition(item.key, ErrorCode.NOT_FOUND)
        if owner is not None and owner.consumer_id != consumer_id:
            said = f"{item.key} is {owner.consumer_id}'s"
            return b.RegisteredPartition(item.key, ErrorCode.PARTITION_OCCUPIED, said, owner.consumer_id)
        policy = self.members[consumer_id].position
        if item.offset >= 0:
            position = self.stored[item.key] = min(max(item.offset, log.begin), log.end)
        elif policy == "always_max" and item.is_first:
            position = log.end
        else:
            at_first = log.begin if policy == "first" or not item.is_first else log.end
            position = self.stored.get(item.key, at_first)
        granted = self._grant(consumer_id, item.key, position)
        return b.RegisteredPartition(
            item.key, reg_epoch=granted.reg_epoch, position=position, begin=log.begin, end=log.end
        )

    def on_UnregisterPartitions(self, message: b.UnregisterPartitions) -> b.UnregisterPartitionsReply:  # noqa: N802
        items = (
            b.UnregisteredPartition(one.key, self._release(message.consumer_id, one), self.stored.get(one.key, -1))
            for one in message.items
        )
        return b.UnregisterPartitionsReply(items=tuple(items))

    def on_FetchRegistered(self, message: b.FetchRegistered) -> b.FetchRegisteredReply:  # noqa: N802
        return b.FetchRegisteredReply(items=tuple(self._fetch(message.consumer_id, one) for one in message.items))

    def _fetch(self, consumer_id: str, item: b.FetchItem) -> b.FetchedPartition:
        if not self._owns(consumer_id, item.key, item.reg_epoch):
            is_free = item.key not in self.owners
            return b.FetchedPartition(item.key, ErrorCode.NO_NODE if is_free else ErrorCode.DUPLICATE_PARTITION)
        owner, log = self.owners[item.key], self.configured[item.key]
        self._settle(item.key, owner, item.last_consumed, item.consumed_to)
        data, end = log.read(owner.position)
        if not data:
            return b.FetchedPartition(item.key, ErrorCode.NOT_FOUND, position=owner.position, end=log.end)
        owner.in_flight = end
        return b.FetchedPartition(item.key, position=owner.position, end=log.end, records=data)

    def on_ConfirmConsumed(self, message: b.ConfirmConsumed) -> b.ConfirmConsumedReply:  # noqa: N802
        return b.ConfirmConsumedReply(items=tuple(self._confirm(message.consumer_id, one) for one in message.items))

    def _confirm(self, consumer_id: str, item: b.ConfirmItem) -> b.ConfirmedPartition:
        if not self._owns(consumer_id, item.key, item.reg_epoch):
            return b.ConfirmedPartition(item.key, ErrorCode.NOT_OWNER_COMMIT)
        owner = self.owners[item.key]
        self._settle(item.key, owner, item.consumed, -1 if item.offset is None else item.offset)
        return b.ConfirmedPartition(
            item.key, committed_offset=self.stored.get(item.key, owner.position), end=self.configured[item.key].end
        )

    def on_LeaveMember(self, message: b.LeaveMember) -> b.LeaveMemberReply:  # noqa: N802
        for item in message.released:
            self._release(message.consumer_id, item)
        self.remove(message.consumer_id)
        return b.LeaveMemberReply()

    def on_DescribeBalanced(self, message: b.DescribeBalanced) -> b.DescribeBalancedReply:  # noqa: N802
        partitions = tuple(
            b.BalancedPartition(
                key,
                log.subscribable,
                owner=self.owners[key].consumer_id if key in self.owners else None,
                reg_epoch=self.owners[key].epoch if key in self.owners else -1,
                committed=self.stored.get(key, -1),
                end=log.end,
                lag=log.end - self.stored[key] if key in self.stored else None,
            )
            for key, log in self.configured.items()
        )
        members = tuple(
            b.BalancedMemberView(
                one,
                None,
                "",
                joined.node_id if joined.source_count > 0 else None,
                joined.source_count if joined.source_count > 0 else None,
                joined.epoch,
                joined.timeout_ms,
                0,
                tuple(key for key, owner in self.owners.items() if owner.consumer_id == one),
            )
            for one, joined in self.members.items()
        )
        return b.DescribeBalancedReply(
            tuple(b.BalancedGroupView(one, members=members, partitions=partitions) for one in message.groups or ())
        )

    # -- ownership

    def _grant(self, consumer_id: str, key: str, position: int) -> b.GrantedKey:
        known = self.owners.get(key)
        if known is None or known.consumer_id != consumer_id:
            self.epochs[key] = self.epochs.get(key, 0) + 1
        self.owners[key] = Owner(consumer_id, self.epochs[key], position)
        log = self.configured[key]
        return b.GrantedKey(key, self.epochs[key], position, log.begin, log.end)

    def _owns(self, consumer_id: str, key: str, epoch: int) -> bool:
        owner = self.owners.get(key)
        return owner is not None and (owner.consumer_id, owner.epoch) == (consumer_id, epoch)

    def _settle(self, key: str, owner: Owner, consumed: bool, up_to: int) -> None:
        """Settle the batch of a late request: no member has it, and one that has consumed it names the offset."""
        if up_to < 0:
            up_to = -1 if owner.in_flight is None else owner.in_flight
        if consumed and up_to > owner.position:
            owner.position = self.stored[key] = up_to
        owner.in_flight = None

    def _release(self, consumer_id: str, item: b.ReleasedKey) -> ErrorCode:
        if not self._owns(consumer_id, item.key, item.reg_epoch):
            return ErrorCode.NO_NODE if item.key not in self.owners else ErrorCode.DUPLICATE_PARTITION
        self._settle(item.key, self.owners.pop(item.key), item.consumed, -1 if item.offset is None else item.offset)
        return ErrorCode.NONE

    def _meta(self, version: int) -> tuple[b.PartitionState, ...] | None:
        if version == self.version:
            return None
        return tuple(b.PartitionState(key, log.subscribable) for key, log in self.configured.items())
