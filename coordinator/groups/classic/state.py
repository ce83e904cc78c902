"""A classic group and its members: data, the transitions of its state, and the bookkeeping that must never drift.

Hard state is the content of a `GroupMetadata` record (docs/spec/group-protocol.md#5.2); `stored` is the last one
applied. Everything else is soft: a crash loses it, and members send it again.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from coordinator.groups.classic.delayed import DelayedHeartbeat, HeldJoin, PhaseOperation
from coordinator.groups.classic.events import Client
from coordinator.groups.classic.group_states import MAY_BECOME, GroupSettings, GroupState
from coordinator.groups.hold import Hold
from coordinator.groups.ownership import Owners
from coordinator.records.records import GroupMetadata
from protocol.messages.groups import JoinProtocol
from protocol.session import RequestRef

NEW_MEMBER_TIMEOUT_MS = 300_000
"""Longest time a member may stay in its first join phase, whatever its session timeout
(docs/spec/group-protocol.md#1.7)."""


_NONE: Final[dict[str, Any]] = {}
"""Stands for the dictionaries of all groups that leave them empty; never changed."""


class PendingId:
    """A member id handed out with MEMBER_ID_REQUIRED whose second JoinGroup has not arrived."""

    __slots__ = ("deadline_ms", "member_id")

    def __init__(self, member_id: str, deadline_ms: int) -> None:
        self.member_id = member_id
        self.deadline_ms = deadline_ms


@dataclass(slots=True, eq=False)
class Member:
    """A member. `join_ref` and `sync_ref` are its parked requests, the latest parked at `parked_ms`; `session` is the
    operation that evicts it, while watched."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[JoinProtocol, ...]
    assignment: bytes = b""
    is_new: bool = True
    deadline_ms: int = 0
    connection: int = -1
    join_ref: RequestRef | None = None
    sync_ref: RequestRef | None = None
    session: DelayedHeartbeat | None = None
    client: Client | None = None
    """Sender of the member's last JoinGroup; None since a load."""
    heard_ms: int = -1
    """Time of its last JoinGroup, SyncGroup or Heartbeat; -1: none since a load."""
    committed_ms: int = -1
    parked_ms: int = -1

    def metadata_for(self, protocol: str | None) -> bytes:
        """Return the member's metadata for the protocol; empty if it does not offer it."""
        for offered in self.protocols:
            if offered.name == protocol:
                return offered.metadata
        return b""

    def heard_ago_ms(self, now_ms: int) -> int:
        """Return the time since the member's last request; -1 if there was none since a load."""
        heard_ms = max(self.heard_ms, self.committed_ms)
        return -1 if heard_ms < 0 else now_ms - heard_ms


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """One classic group. Only `groups/classic` changes it. `apply` and `replace_member` (in `applying.py`), called by
    `Shard.apply` alone, change its hard state; the shard itself applies records of `owners`."""

    group_id: str
    settings: GroupSettings
    state: GroupState = GroupState.EMPTY
    state_since_ms: int = -1
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=lambda: _NONE)
    """Member ids by instance."""
    pending: dict[str, PendingId] = field(default_factory=lambda: _NONE)
    pending_sync: dict[str, None] = field(default_factory=dict)
    supported: dict[str, int] = field(default_factory=dict)
    metadata_bytes: int = 0
    """Size of the metadata of all protocols that the members offer."""
    offers_version: int = 0
    """Counter that grows whenever a member joins, leaves or changes its protocols."""
    awaiting_join: int = 0
    awaiting_sync: int = 0
    member_added: bool = False
    rebalance_began_ms: int = 0
    phase: PhaseOperation | None = None
    """The phase operation (join or sync) watched for this group, if there is one."""
    hold: Hold | None = None
    """The last hold, which may be over."""
    stored: GroupMetadata | None = None
    owners: Owners | None = None
    """The ownership registry; None before the first grant. Hard state, as `stored` is."""

    def become(self, state: GroupState, wall_ms: int) -> None:
        """Change the state: the only way for live events."""
        assert state in MAY_BECOME[self.state], f"{self.group_id}: {self.state.title} may not become {state.title}"
        self.state = state
        self.state_since_ms = wall_ms

    @property
    def rebalance_timeout_ms(self) -> int:
        """Largest rebalance timeout of the members; 0 with none (docs/spec/group-protocol.md#1.4)."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def is_held_back(self) -> bool:
        """True while a rebalance waits for the end of a hold: no member need join yet."""
        return isinstance(self.phase, HeldJoin)

    def add(self, member: Member) -> None:
        """Add the member. The first of a group without a leader becomes the leader."""
        assert member.member_id not in self.members
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self._name(member.group_instance_id, member.member_id)
        if self.leader is None:
            self.leader = member.member_id
        self.awaiting_join += member.join_ref is not None
        self.awaiting_sync += member.sync_ref is not None
        self._count(member.protocols, 1)

    def remove(self, member: Member) -> None:
        """Remove the member. Its parked requests must have been answered; the caller cancels its session."""
        assert member.join_ref is None
        assert member.sync_ref is None
        del self.members[member.member_id]
        instance_id = member.group_instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]
        self.pending_sync.pop(member.member_id, None)
        self._count(member.protocols, -1)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: Member, member: Member) -> None:
        """Put the member in the old one's place. Neither may have a request parked."""
        assert old.join_ref is old.sync_ref is member.join_ref is member.sync_ref is None
        self.members = {
            (member.member_id if member_id == old.member_id else member_id): (member if one is old else one)
            for member_id, one in self.members.items()
        }
        assert member.group_instance_id is not None
        self._name(member.group_instance_id, member.member_id)
        self.synced(old.member_id)
        self._count(old.protocols, -1)
        self._count(member.protocols, 1)

    def forget_members(self) -> None:
        """Drop all members and their soft state."""
        self.members, self.static_members, self.supported = {}, _NONE, {}
        self.metadata_bytes = 0

    def _name(self, instance_id: str, member_id: str) -> None:
        if self.static_members is _NONE:
            self.static_members = {}
        self.static_members[instance_id] = member_id

    def add_pending(self, pending: PendingId) -> None:
        """Add an id that was handed out."""
        if self.pending is _NONE:
            self.pending = {}
        self.pending[pending.member_id] = pending

    def drop_pending(self, member_id: str) -> None:
        """Drop the id if it is pending."""
        self.pending.pop(member_id, None)
        if not self.pending:
            self.pending = _NONE

    def synced(self, member_id: str) -> None:
        """Note that the member owes no SyncGroup."""
        self.pending_sync.pop(member_id, None)
        if not self.pending_sync:
            self.pending_sync.clear()  # frees the memory, which `pop` does not

    def offer(self, member: Member, protocols: tuple[JoinProtocol, ...]) -> None:
        """Replace the protocols that the member offers."""
        if protocols == member.protocols:
            return
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def park_join(self, member: Member, ref: RequestRef) -> RequestRef | None:
        """Park the member's JoinGroup. Return the older parked one that it replaces."""
        older = member.join_ref
        self.awaiting_join += older is None
        member.join_ref = ref
        return older

    def take_join(self, member: Member) -> RequestRef | None:
        """Take the parked JoinGroup, to be answered now."""
        ref = member.join_ref
        if ref is not None:
            member.join_ref = None
            self.awaiting_join -= 1
        return ref

    def park_sync(self, member: Member, ref: RequestRef) -> None:
        """Park the member's SyncGroup."""
        self.awaiting_sync += member.sync_ref is None
        member.sync_ref = ref

    def take_sync(self, member: Member) -> RequestRef | None:
        """Take the parked SyncGroup, to be answered now."""
        ref = member.sync_ref
        if ref is not None:
            member.sync_ref = None
            self.awaiting_sync -= 1
        return ref

    def supports(self, protocols: tuple[JoinProtocol, ...]) -> bool:
        """Return true if every current member offers one of the protocols."""
        everyone = len(self.members)
        return any(self.supported.get(protocol.name, 0) == everyone for protocol in protocols)

    def _count(self, protocols: tuple[JoinProtocol, ...], by: int) -> None:
        # An offer lists each name once: a duplicate would count for two members (docs/spec/group-protocol.md#2.1.5) and
        # is refused.
        self.offers_version += 1
        for protocol in protocols:
            self.metadata_bytes += by * len(protocol.metadata)
            count = self.supported.get(protocol.name, 0) + by
            if count:
                self.supported[protocol.name] = count
            else:
                del self.supported[protocol.name]

    def commits_by(self, member_id: str, connection: int) -> None:
        """Note the connection on which the member waits for the reply to its commit."""
        member = self.members.get(member_id)
        if member is not None:
            member.connection = connection

    def check(self) -> None:
        """Assert the invariants between any two steps; tests call it after each."""
        members = self.members.values()
        assert not _NONE, "it stands for the dictionaries of other groups too"
        assert self.awaiting_join == sum(member.join_ref is not None for member in members)
        assert self.awaiting_sync == sum(member.sync_ref is not None for member in members)
        assert self.leader is None or self.leader in self.members
        assert self.metadata_bytes == sum(len(offer.metadata) for member in members for offer in member.protocols)
        assert all(self.members[member_id].group_instance_id == i for i, member_id in self.static_members.items())
        assert not self.pending.keys() & self.members.keys()
        assert self.pending_sync.keys() <= self.members.keys()
        if self.owners is not None:
            self.owners.check()
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            assert not self.members
        if self.state in (GroupState.COMPLETING, GroupState.STABLE):
            assert self.members
            assert self.protocol_name is not None
            assert self.awaiting_join == 0
        if self.state in (GroupState.EMPTY, GroupState.PREPARING, GroupState.STABLE):
            assert self.awaiting_sync == 0
