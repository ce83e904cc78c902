"""Steps of a history, and the request that each one is for a member as it stands at one of the servers."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar

from interop.differential.views import (
    GROUPS,
    NO_ID,
    NO_TOPIC,
    OLD_TOPIC_NAMES,
    TOPICS,
    Generation,
    Phase,
    Profile,
    View,
    Who,
)
from protocol.messages import Message
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    SyncGroup,
)
from protocol.messages.node import FindCoordinator
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
)
from protocol.messages.topics import NO_TOPIC_ID


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something that one client does in one of the history's groups."""

    client: int = 0
    group: int = 0

    def text(self) -> str:
        """The step for people: fields at their defaults are left out."""
        said = [
            f"{field.name}={_plain(getattr(self, field.name))}"
            for field in fields(self)
            if field.name not in {"client", "group"} and getattr(self, field.name) != field.default
        ]
        where = f" group={self.group}" if self.group else ""
        return " ".join([f"c{self.client + 1}{where} {type(self).__name__}", *said])


def _plain(value: object) -> str:
    return str(list(map(str, value))).replace("'", "") if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, kw_only=True)
class Wait(Step):
    """Until the next tick."""

    def text(self) -> str:
        return "-- next tick"


@dataclass(frozen=True, kw_only=True)
class Restart(Step):
    """The client forgets its member id, as a process does that is started again; it asks nothing."""


@dataclass(frozen=True, kw_only=True)
class Ask(Step):
    """A request in one version of its API. `api`: its message, whose versions it may have."""

    api: ClassVar[type[Message]]
    version: int

    def request(self, view: View) -> Message | None:
        """The message from this member; None where it has nothing to ask."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class GoOn(Step):
    """The request that a client's library would make next: to join, to sync, or a heartbeat, each in its version."""

    join_version: int
    sync_version: int
    heartbeat_version: int

    def ask(self, view: View) -> Ask | None:
        """None while it waits for an answer."""
        if view.phase in {Phase.JOINING, Phase.SYNCING}:
            return None
        if view.phase is Phase.JOINED:
            return Sync(client=self.client, group=self.group, version=self.sync_version)
        if view.phase is Phase.OUT:
            return Join(client=self.client, group=self.group, version=self.join_version)
        return Beat(client=self.client, group=self.group, version=self.heartbeat_version)


@dataclass(frozen=True, kw_only=True)
class Join(Ask):
    """JoinGroup. `changed`: with other metadata than before; `wrong`: with something that is refused."""

    api = JoinGroup
    who: Who = Who.OWN
    changed: bool = False
    wrong: str = ""

    def request(self, view: View) -> Message:
        profile = view.profile
        names = () if self.wrong == "no protocols" else profile.protocols
        if self.wrong == "other protocols":
            names = ("sticky",)
        return JoinGroup(
            group_id="" if self.wrong == "no group" else view.group_id,
            session_timeout_ms=1 if self.wrong == "short session" else profile.session_ms,
            member_id=view.id_of(self.who),
            protocol_type={"other type": "connect", "no type": ""}.get(self.wrong, "consumer"),
            protocols=tuple(JoinProtocol(name, view.subscription()) for name in names),
            rebalance_timeout_ms=profile.rebalance_ms,
            group_instance_id=profile.instance if self.version >= 5 else None,
        )


@dataclass(frozen=True, kw_only=True)
class Sync(Ask):
    """SyncGroup; who leads brings the assignments."""

    api = SyncGroup
    who: Who = Who.OWN
    generation: Generation = Generation.OWN
    wrong: str = ""

    def request(self, view: View) -> Message:
        kind, name = view.protocol_type or "consumer", view.protocol_name or "range"
        return SyncGroup(
            group_id=view.group_id,
            generation_id=generation_of(view, self.generation),
            member_id=view.id_of(self.who),
            group_instance_id=view.instance if self.version >= 3 else None,
            protocol_type=None if self.wrong == "no protocol" else {"other type": "connect"}.get(self.wrong, kind),
            protocol_name=None if self.wrong == "no protocol" else {"other protocol": "sticky"}.get(self.wrong, name),
            assignments=view.assignments(),
        )


@dataclass(frozen=True, kw_only=True)
class Beat(Ask):
    """Heartbeat."""

    api = Heartbeat
    who: Who = Who.OWN
    generation: Generation = Generation.OWN
    instance: str = "own"

    def request(self, view: View) -> Message:
        named = {"own": view.instance, "none": None, "another": "i9"}[self.instance]
        instance = named if self.version >= 3 else None
        return Heartbeat(view.group_id, generation_of(view, self.generation), view.id_of(self.who), instance)


@dataclass(frozen=True, kw_only=True)
class Leave(Ask):
    """LeaveGroup of these members, each by its id, by its instance or by both; old versions have the first alone."""

    api = LeaveGroup
    whom: tuple[Who, ...] = (Who.OWN,)
    by: str = "id"

    def request(self, view: View) -> Message:
        instance = view.instance if self.version >= 3 and self.by != "id" else None
        whom = self.whom if self.version >= 3 else self.whom[:1]
        named = self.by != "instance" or instance is None
        leaving = [LeavingMember(view.id_of(who) if named else NO_ID, instance) for who in whom]
        return LeaveGroup(view.group_id, tuple(leaving))


@dataclass(frozen=True, kw_only=True)
class Commit(Ask):
    """OffsetCommit. `metadata`: its length; `nowhere`: to a topic and a partition that do not exist, too."""

    api = OffsetCommit
    who: Who = Who.OWN
    generation: Generation = Generation.OWN
    topic: str = next(iter(TOPICS))
    partitions: tuple[int, ...] = (0,)
    offset: int = 5
    metadata: int = 0
    nowhere: bool = False

    def request(self, view: View) -> Message:
        parts = [OffsetCommitPartition(at, self.offset + at, 0, "m" * self.metadata) for at in self.partitions]
        topics = [named(view, self.topic, self.version)]
        names = [OffsetCommitTopic(name, tuple(parts), topic_id) for name, topic_id in topics]
        if self.nowhere:
            name, topic_id = named(view, NO_TOPIC, self.version)
            names.append(OffsetCommitTopic(name, (OffsetCommitPartition(0, 1),), topic_id))
        return OffsetCommit(
            group_id=view.group_id,
            topics=tuple(names),
            generation_id=generation_of(view, self.generation),
            member_id=view.id_of(self.who),
            group_instance_id=view.instance if self.version >= 7 and self.who is Who.OWN else None,
        )


@dataclass(frozen=True, kw_only=True)
class Fetch(Ask):
    """OffsetFetch, of all offsets or of these partitions; from version 8 of both groups if wanted."""

    api = OffsetFetch
    topics: tuple[str, ...] | None = None
    partitions: tuple[int, ...] = (0, 1)
    both_groups: bool = False
    stable: bool = False

    def request(self, view: View) -> Message:
        if self.topics is None:
            topics = None
        else:
            names = [named(view, name, self.version) for name in self.topics]
            topics = tuple([OffsetFetchTopic(name, self.partitions, topic_id) for name, topic_id in names])
        groups = [view.group_id]
        if self.both_groups and self.version >= 8:
            groups.append(view.group_ids[1 - self.group])
        return OffsetFetch(tuple(OffsetFetchGroup(one, topics) for one in groups), self.stable and self.version >= 7)


@dataclass(frozen=True, kw_only=True)
class DeleteOffsets(Ask):
    """OffsetDelete, of these partitions of these topics."""

    api = OffsetDelete
    topics: tuple[str, ...] = (next(iter(TOPICS)),)
    partitions: tuple[int, ...] = (0,)

    def request(self, view: View) -> Message:
        return OffsetDelete(view.group_id, tuple(OffsetDeleteTopic(name, self.partitions) for name in self.topics))


@dataclass(frozen=True, kw_only=True)
class Describe(Ask):
    """DescribeGroups of one or both groups."""

    api = DescribeGroups
    both_groups: bool = False
    operations: bool = False

    def request(self, view: View) -> Message:
        groups = range(GROUPS) if self.both_groups else (self.group,)
        asks_operations = self.operations and self.version >= 3
        return DescribeGroups(tuple(view.group_ids[one] for one in groups), asks_operations)


@dataclass(frozen=True, kw_only=True)
class List(Ask):
    """ListGroups; other histories' groups are left out of the answer."""

    api = ListGroups
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def request(self, view: View) -> Message:
        return ListGroups(self.states if self.version >= 4 else (), self.types if self.version >= 5 else ())


@dataclass(frozen=True, kw_only=True)
class Delete(Ask):
    """DeleteGroups of one or both groups."""

    api = DeleteGroups
    both_groups: bool = False

    def request(self, view: View) -> Message:
        groups = range(GROUPS) if self.both_groups else (self.group,)
        return DeleteGroups(tuple(view.group_ids[one] for one in groups))


@dataclass(frozen=True, kw_only=True)
class Find(Ask):
    """FindCoordinator."""

    api = FindCoordinator

    def request(self, view: View) -> Message:
        return FindCoordinator((view.group_id,))


ASKS: tuple[type[Ask], ...] = (
    Join,
    Sync,
    Beat,
    Leave,
    Commit,
    Fetch,
    DeleteOffsets,
    Describe,
    List,
    Delete,
    Find,
)
ABOUT_GROUPS = (Fetch, DeleteOffsets, Describe, List, Delete)
"""Questions about groups, of which all but the second may ask about both of a history."""


def generation_of(view: View, which: Generation) -> int:
    """The number it stands for."""
    own = view.generation_id
    numbers: dict[Generation, Callable[[], int]] = {
        Generation.OWN: lambda: own,
        Generation.NONE: lambda: -1,
        Generation.OLD: lambda: max(own - 1, 0),
        Generation.NEW: lambda: own + 1,
    }
    return numbers[which]()


def named(view: View, topic: str, version: int) -> tuple[str, bytes]:
    """The topic's name and id as this version of OffsetCommit or OffsetFetch has them."""
    return (topic, NO_TOPIC_ID) if version <= OLD_TOPIC_NAMES else ("", view.topic_id(topic))


@dataclass(frozen=True)
class History:
    """Clients and what they do, in order."""

    seed: int
    profiles: tuple[Profile, ...]
    steps: tuple[Step, ...]

    def text(self) -> list[str]:
        """Lines for people: those clients that do something, then the steps."""
        active = {step.client for step in self.steps if not isinstance(step, Wait)}
        lines = []
        for number, profile in enumerate(self.profiles):
            if number in active:
                lines.append(f"c{number + 1}: {profile.text()}")
        return lines + [step.text() for step in self.steps]
