"""The cluster's coordinators as nodes see them: of transactional ids, and of the nodes' group."""

from dataclasses import dataclass, field

from protocol.errors import ErrorCode


@dataclass(slots=True)
class TransactionalId:
    producer_id: int
    epoch: int
    asked_ms: int
    previous: tuple[int, int] = (-1, -1)


class ProducerIds:
    """Assigns epochs; the largest one is never assigned, as in Kafka, and an id not used for long is forgotten."""

    def __init__(self, last_epoch: int, expiration_ms: int) -> None:
        self._last_epoch = last_epoch
        self._expiration_ms = expiration_ms
        self._known: dict[int, TransactionalId] = {}
        self._next = 100
        self.rollovers = self.forgotten = 0

    def init(self, shard: int, producer_id: int, epoch: int, now_ms: int) -> tuple[ErrorCode, int, int]:
        known = self._known.get(shard)
        if known is not None and now_ms - known.asked_ms > self._expiration_ms:
            self.forgotten += 1
            known = None
        if known is None:
            if producer_id >= 0:
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1, -1
            return self._give(shard, now_ms)
        if producer_id >= 0:
            if (producer_id, epoch) == known.previous:
                return ErrorCode.NONE, known.producer_id, known.epoch
            if (producer_id, epoch) != (known.producer_id, known.epoch):
                return ErrorCode.PRODUCER_FENCED, -1, -1
        before = known.producer_id, known.epoch
        if known.epoch + 1 >= self._last_epoch:
            self.rollovers += 1
            given = self._give(shard, now_ms)
            self._known[shard].previous = before
            return given
        known.previous, known.epoch, known.asked_ms = before, known.epoch + 1, now_ms
        return ErrorCode.NONE, known.producer_id, known.epoch

    def _give(self, shard: int, now_ms: int) -> tuple[ErrorCode, int, int]:
        self._next += 1
        self._known[shard] = TransactionalId(self._next, 0, now_ms)
        return ErrorCode.NONE, self._next, 0


@dataclass(slots=True)
class GroupMember:
    heard_ms: int
    owned: set[int] = field(default_factory=set)
    revoking: set[int] = field(default_factory=set)


class NodesGroup:
    """A classic group with a cooperative, sticky assignor, whose rebalances take no time of their own."""

    def __init__(self, shards: int, session_ms: int) -> None:
        self._shards = range(shards)
        self._session_ms = session_ms
        self.members: dict[str, GroupMember] = {}
        self.evicted = 0

    def heartbeat(self, member: str, now_ms: int, *, joins: bool) -> tuple[set[int], set[int]] | None:
        """Return the shards that the member owns, and those to hand over; None: it is not a member."""
        self._evict(now_ms)
        known = self.members.get(member)
        if known is None:
            if not joins:
                return None
            known = self.members[member] = GroupMember(now_ms)
        known.heard_ms = now_ms
        self._assign()
        return known.owned - known.revoking, set(known.revoking)

    def owns(self, member: str, shard: int) -> bool:
        return member in self.members and shard in self.members[member].owned

    def released(self, member: str, shard: int) -> None:
        known = self.members.get(member)
        if known is not None and shard in known.revoking:
            known.owned.discard(shard)
            known.revoking.discard(shard)
            self._assign()

    def leave(self, member: str) -> None:
        self.members.pop(member, None)
        self._assign()

    def come_back(self, now_ms: int) -> None:
        """Give all members a full session: another broker is the coordinator now."""
        for known in self.members.values():
            known.heard_ms = now_ms

    def _evict(self, now_ms: int) -> None:
        for name, known in list(self.members.items()):
            if now_ms - known.heard_ms > self._session_ms:
                del self.members[name]
                self.evicted += 1

    def _assign(self) -> None:
        if not self.members:
            return
        taken = {shard for known in self.members.values() for shard in known.owned}
        for shard in self._shards:
            if shard not in taken:
                self._least().owned.add(shard)
        least, most = self._least(), max(self.members.values(), key=lambda one: len(one.owned))
        if len(most.owned) - len(most.revoking) > len(least.owned) + 1:
            most.revoking.add(min(most.owned - most.revoking))

    def _least(self) -> GroupMember:
        return min(self.members.values(), key=lambda one: len(one.owned))
