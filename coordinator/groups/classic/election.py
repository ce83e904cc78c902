"""Election of the leader and of the protocol: pure functions (docs/spec/group-protocol.md#2.1.5, #2.1.6)."""

from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.election import elect
from protocol.messages.groups import JoinProtocol


def elect_leader(group: ClassicGroup) -> Member | None:
    """Elect the leader of the coming generation: the present one if it has joined, else the first member that has."""
    present = group.members.get(group.leader or "")
    if present is not None and present.join_ref is not None:
        return present
    return next((member for member in group.members.values() if member.join_ref is not None), None)


def elect_protocol(group: ClassicGroup, leader: Member) -> str | None:
    """Elect the protocol of the coming generation; None if no name is offered by every member."""
    return elect([_names(member.protocols) for member in group.members.values()], _names(leader.protocols))


def elect_protocol_if(group: ClassicGroup, changed: Member, protocols: tuple[JoinProtocol, ...]) -> str | None:
    """Return the protocol that would be elected if the member offered `protocols` instead of its present ones. The
    others' offers are read only where the votes for two candidates may have changed: a large group may restart as a
    whole."""
    offered, before = _names(protocols), _names(changed.protocols)
    if offered == before and group.protocol_name in offered:
        return group.protocol_name
    everyone = len(group.members)
    candidates = [name for name in offered if group.supported.get(name, 0) + (name not in before) == everyone]
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    offers = {
        member.member_id: offered if member is changed else _names(member.protocols)
        for member in group.members.values()
    }
    return elect(list(offers.values()), offers[group.leader or changed.member_id])


def _names(protocols: tuple[JoinProtocol, ...]) -> list[str]:
    return [protocol.name for protocol in protocols]
