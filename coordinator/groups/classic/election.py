"""Who leads, and which protocol is used: pure functions (docs/spec/group-protocol.md#2.1.5, #2.1.6)."""

from collections.abc import Sequence

from coordinator.groups.classic.state import Group, Member
from protocol.messages.groups import JoinProtocol


def elect_leader(group: Group) -> Member | None:
    """The leader of the coming generation: the present one if it has joined, else the first member that has."""
    present = group.members.get(group.leader or "")
    if present is not None and present.join_ref is not None:
        return present
    return next((member for member in group.members.values() if member.join_ref is not None), None)


def elect_protocol(group: Group, leader: Member) -> str | None:
    """The protocol of the coming generation; None if no name is offered by every member."""
    return _elect([_names(member.protocols) for member in group.members.values()], _names(leader.protocols))


def elect_protocol_if(group: Group, changed: Member, protocols: tuple[JoinProtocol, ...]) -> str | None:
    """What would be elected if the member offered `protocols` instead of its present ones."""
    offers = {
        member.member_id: _names(protocols if member is changed else member.protocols)
        for member in group.members.values()
    }
    return _elect(list(offers.values()), offers[group.leader or changed.member_id])


def _names(protocols: tuple[JoinProtocol, ...]) -> list[str]:
    return [protocol.name for protocol in protocols]


def _elect(offers: Sequence[list[str]], leaders: list[str]) -> str | None:
    """A candidate is a name in every offer. Each offer votes for its first candidate; most votes win, and a tie goes
    to the earliest in the leader's offer, so that the choice never depends on chance."""
    candidates = set(leaders).intersection(*offers)
    if not candidates:
        return None
    votes: dict[str, int] = {}
    for offer in offers:
        choice = next(name for name in offer if name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    return max(votes, key=lambda name: (votes[name], -leaders.index(name)))
