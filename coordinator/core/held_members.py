"""Members that clients have in all groups, and the bytes that these say of themselves, for limits on both. A member
counts for the principal and client id of its last join; one that was loaded, and has not joined since, for nobody.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from coordinator.accounts.quotas import CLIENT_ID, USER, Entity, Limit
from coordinator.groups.consumer.state import bytes_of
from coordinator.runtime.group import Group, GroupKind
from protocol.messages import Message
from protocol.messages.balanced import StartMember
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import JoinGroup

_GROUPS_A_LOOK: Final = 500
_JOINS_A_SWEEP: Final = 10_000


class MemberUse(NamedTuple):
    """Members, and the bytes of their metadata."""

    members: int
    metadata_bytes: int


class _CountedMember(NamedTuple):
    """A member as it is counted."""

    principal: str | None
    client_id: str
    metadata_bytes: int


class HeldMembers:
    """Counts of members by whom a limit is for. A count is at least the true one: joins are added, and the groups are
    looked at again only where a limit would be passed."""

    def __init__(self, directory: Mapping[str, Group]) -> None:
        self._directory = directory
        self._groups: dict[str, set[str]] = {}
        """Groups in which each principal has had members."""
        self._counts: dict[tuple[bool, Entity], int] = {}
        self._to_look_at: list[str] = []
        self._admitted = 0

    def begin(self) -> None:
        """Forget all counts: there are other limits. `look` must follow until it is done."""
        self._counts.clear()
        self._to_look_at = list(self._directory)

    def look(self) -> bool:
        """Find the members of some more groups that were there before the limits; return whether more are left."""
        wanted = self._to_look_at
        some = wanted[-_GROUPS_A_LOOK:]
        del wanted[-_GROUPS_A_LOOK:]
        for group_id in some:
            group = self._directory.get(group_id)
            for line in () if group is None else _lines(group):
                if line.principal is not None:
                    self._groups.setdefault(line.principal, set()).add(group_id)
        if some:
            self._counts.clear()
        return bool(wanted)

    def added(self, message: Any) -> MemberUse:
        """Return what a join adds to what its member holds now."""
        group = self._directory.get(message.group_id)
        held = None if group is None else _held(group, message)
        return MemberUse(int(held is None), _offered(message) - (held or 0))

    def admit(self, limit: Limit, principal: str, group_id: str, added: MemberUse, *, is_bytes: bool) -> bool:
        """Count a join, unless it passes the limit of members, or of their bytes; return whether it is counted. A join
        that adds nothing is always admitted."""
        counted = is_bytes, limit.counted
        grows = added.metadata_bytes if is_bytes else added.members
        if grows > 0:
            held = self._counts.get(counted)
            if held is None or held + grows > limit.rate:
                held = self._counts[counted] = self._count(limit.counted, principal)[is_bytes]
                if held + grows > limit.rate:
                    return False
            self._counts[counted] = held + grows
        self._groups.setdefault(principal, set()).add(group_id)
        self._admitted += 1
        if self._admitted % _JOINS_A_SWEEP == 0:
            self._sweep()
        return True

    def _sweep(self) -> None:
        """Forget groups that are gone."""
        known = {
            one: {group_id for group_id in ids if group_id in self._directory} for one, ids in self._groups.items()
        }
        self._groups = {one: ids for one, ids in known.items() if ids}

    def _count(self, counted: Entity, principal: str) -> MemberUse:
        """Look at all groups of the principal; forget those in which it has no members any more."""
        wanted = dict(counted)
        members = metadata_bytes = 0
        by_client = USER not in wanted  # a limit of a client id holds for all users together
        principals = list(self._groups) if by_client else [principal]
        for one in principals:
            known = self._groups.get(one, set())
            for group_id in list(known):
                group = self._directory.get(group_id)
                mine = [line for line in (() if group is None else _lines(group)) if line.principal == one]
                if not mine:
                    known.discard(group_id)
                if CLIENT_ID in wanted:
                    mine = [line for line in mine if line.client_id == wanted[CLIENT_ID]]
                members += len(mine)
                metadata_bytes += sum([line.metadata_bytes for line in mine])
            if not known:
                self._groups.pop(one, None)
        return MemberUse(members, metadata_bytes)


def _offered(message: Message) -> int:
    """Return the bytes that a join says of its member, as its group counts them."""
    if isinstance(message, JoinGroup):
        return sum([len(protocol.metadata) for protocol in message.protocols])
    if not isinstance(message, ConsumerGroupHeartbeat):
        return 0  # a client-balanced group keeps topics and filters once for all members
    texts = (message.member_id, message.instance_id, message.rack_id, message.subscribed_topic_regex)
    return sum([len(text) for text in (*texts, *(message.subscribed_topic_names or ())) if text])


def _lines(group: Group) -> Iterator[_CountedMember]:
    if (consumer := group.serving_consumer) is not None:
        for one in consumer.members.values():
            yield _CountedMember(one.principal, one.subscription.client_id, bytes_of(one.subscription))
    elif group.balanced is not None and group.kind is GroupKind.CLIENT_BALANCED:
        for member in group.balanced.members.values():
            yield _CountedMember(member.principal, member.client_id, 0)
    else:
        for known in group.classic.members.values():
            principal = None if known.client is None else known.client.principal
            yield _CountedMember(principal, known.client_id, sum([len(offer.metadata) for offer in known.protocols]))


def _held(group: Group, message: Any) -> int | None:
    """Return the bytes of the member that a join is of, or takes the place of; None: it is a new one."""
    if isinstance(message, StartMember):
        members = {} if group.balanced is None else group.balanced.members
        return 0 if message.consumer_id in members else None
    instance_id = message.instance_id if isinstance(message, ConsumerGroupHeartbeat) else message.group_instance_id
    if (consumer := group.serving_consumer) is not None:
        one = consumer.members.get(consumer.static_members.get(instance_id or "", message.member_id))
        return None if one is None else bytes_of(one.subscription)
    classic = group.classic
    known = classic.members.get(classic.static_members.get(instance_id or "", message.member_id))
    return None if known is None else sum([len(offer.metadata) for offer in known.protocols])
