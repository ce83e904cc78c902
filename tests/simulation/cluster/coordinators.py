"""The cluster's coordinators as nodes see them: of transactional ids, and of the nodes' group."""

from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

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


class Revocation(NamedTuple):
    """A member's loss of a shard, from the time at which the group has decided it. A notice of release names its
    `number`, as a JoinGroup names the generation that it ends."""

    number: int
    since_ms: int


@dataclass(slots=True)
class GroupMember:
    heard_ms: int
    owned: set[int] = field(default_factory=set)
    revoking: dict[int, Revocation] = field(default_factory=dict)


class NodesGroup:
    """A classic group with a cooperative, sticky assignor, whose rebalances take no time of their own. A member that
    does not release a shard within two sessions, the rebalance timeout of nodes, is evicted. The id of a member that
    is gone does not come back: its JoinGroup is answered UNKNOWN_MEMBER_ID."""

    def __init__(self, shards: int, session_ms: int) -> None:
        self._shards = range(shards)
        self._session_ms = session_ms
        self.members: dict[str, GroupMember] = {}
        self._gone: set[str] = set()
        self.evicted = 0
        self._now_ms = 0
        self._revocations = count(1)

    def heartbeat(self, member: str, now_ms: int, *, joins: bool) -> tuple[set[int], dict[int, int]] | None:
        """Return the shards that the member owns, and revocations of those to hand over; None: it is not a member."""
        self._now_ms = now_ms
        self._evict()
        known = self.members.get(member)
        if known is None:
            if not joins or member in self._gone:
                return None
            known = self.members[member] = GroupMember(now_ms)
        known.heard_ms = now_ms
        self._assign()
        revoked = {shard: revocation.number for shard, revocation in known.revoking.items()}
        return known.owned - revoked.keys(), revoked

    def owns(self, member: str, shard: int) -> bool:
        return member in self.members and shard in self.members[member].owned

    def released(self, member: str, revocation: int) -> None:
        known = self.members.get(member)
        if known is None:
            return
        for shard in [shard for shard, revoked in known.revoking.items() if revoked.number == revocation]:
            known.owned.discard(shard)
            del known.revoking[shard]
            self._assign()

    def leave(self, member: str) -> None:
        self.members.pop(member, None)
        self._gone.add(member)
        self._assign()

    def come_back(self, now_ms: int) -> None:
        """Give all members a full session, and time to release: another broker is the coordinator now."""
        for known in self.members.values():
            known.heard_ms = now_ms
            known.revoking = {shard: one._replace(since_ms=now_ms) for shard, one in known.revoking.items()}

    def _evict(self) -> None:
        for name, known in list(self.members.items()):
            is_silent = self._now_ms - known.heard_ms > self._session_ms
            if is_silent or any(self._now_ms - one.since_ms > 2 * self._session_ms for one in known.revoking.values()):
                del self.members[name]
                self._gone.add(name)
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
            shard = min(most.owned - most.revoking.keys())
            most.revoking[shard] = Revocation(next(self._revocations), self._now_ms)

    def _least(self) -> GroupMember:
        return min(self.members.values(), key=lambda one: len(one.owned))
