"""Requests and their answers, and all that one server was told and said in a run of a history."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from interop.differential.connections import Connections
from interop.differential.consumer.steps import MemberBeat
from interop.differential.members import SAYS_WHERE_IT_STANDS, Member, Names
from interop.differential.steps import Ask, History, Join, Step
from interop.differential.views import GROUPS, Generation, Who
from protocol.messages import Message
from protocol.messages.consumer_groups import JOINING, ConsumerGroupHeartbeat, MemberAssignment
from protocol.messages.groups import JoinGroup


class Server(NamedTuple):
    """One of the two: its address, and the ids it gave to the topics."""

    host: str
    port: int
    topic_ids: Mapping[str, bytes]


class Exchange:
    """One request, as each server was asked it, and what each said; `step` is its number in the history."""

    def __init__(self, step: int, ask: Ask, requests: tuple[Message, Message]) -> None:
        self.step = step
        self.ask = ask
        self.requests = requests
        self.answers: list[Message | str | None] = [None, None]
        self.is_return = False  # of a static member
        self.ends_balanced = False  # of an instance that the coordinator balanced: it is classic now
        self.names_pending = False  # an id that has not joined leaves
        self.is_told_elsewhere = False  # musterd told the member its assignment on another client's connection
        self.is_superseded = False  # a later request of its kind came from the same member

    @property
    def is_answered(self) -> bool:
        return None not in self.answers

    @property
    def instance(self) -> str | None:
        """The static member that asks to join."""
        request = self.requests[1]
        if isinstance(request, ConsumerGroupHeartbeat):
            return request.instance_id if request.member_epoch == JOINING else None
        return getattr(request, "group_instance_id", None) if isinstance(self.ask, Join) else None

    @property
    def is_in_step(self) -> bool:
        return (self.answers[0] is None) == (self.answers[1] is None)


class Side:
    """All that one server was told and said in this run."""

    def __init__(self, connections: Connections, topic_ids: Mapping[str, bytes], history: History, unique: str) -> None:
        self.names = Names(topic_ids)
        self.connections = connections
        group_ids = tuple(f"{unique}g{number}" for number in range(GROUPS))
        self.members = [
            [Member(profile, self.names, client, group, group_ids) for group in range(GROUPS)]
            for client, profile in enumerate(history.profiles)
        ]
        for profile in history.profiles:
            self.names.make(profile.member_ids)
        for client, members in enumerate(self.members):
            for group, member in enumerate(members):
                member.neighbour = self.members[(client + 1) % len(self.members)][group]
        self.leaders: list[str | None] = [None] * GROUPS
        self.pending: set[str] = set()
        self.rosters: list[frozenset[int]] = [frozenset()] * GROUPS
        self.latest: dict[tuple[int, int], Exchange] = {}
        self.told_by: dict[tuple[int, str], tuple[int, MemberAssignment | None]] = {}
        """By group and member id: the client that was told its last assignment, and the assignment."""

    def member(self, step: Step) -> Member:
        return self.members[step.client][step.group]


def is_own(ask: Ask) -> bool:
    """Return whether the client asked as itself, so that the answer tells its state."""
    if type(ask).api not in SAYS_WHERE_IT_STANDS:
        return False
    if isinstance(ask, MemberBeat):
        return ask.is_own
    who: Any = getattr(ask, "who", Who.OWN)
    generation: Any = getattr(ask, "generation", Generation.OWN)
    is_plain = generation is Generation.OWN and not getattr(ask, "wrong", "")
    return is_plain and (who is Who.OWN or (who is Who.NONE and type(ask).api is JoinGroup))
