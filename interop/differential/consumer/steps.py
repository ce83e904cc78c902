"""Steps of members that the coordinator balances, and of those who ask about such groups or configure them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from msgspec.structs import replace

from interop.differential.steps import Ask, Commit, Fetch, Step, generation_of
from interop.differential.views import BOGUS_TOPIC_ID, GROUPS, Generation, Phase, View, Who
from protocol.messages import Message
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    DescribeConfigs,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    ResourceType,
)
from protocol.messages.consumer_groups import (
    JOINING,
    LEAVING,
    LEAVING_FOR_NOW,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    TopicIdPartitions,
)
from protocol.messages.offsets import OffsetFetch

UNCHANGED_MS = -1


class Epoch(StrEnum):
    """Member epoch that a heartbeat names."""

    OWN = "own"
    JOIN = "join"
    LEAVE = "leave"
    AWAY = "away"
    OLD = "old"
    NEW = "new"
    WRONG = "wrong"


class Owned(StrEnum):
    """Partitions that a heartbeat claims."""

    UNSAID = "unsaid"
    TOLD = "told"  # what the member was told last
    REPORTED = "reported"  # what it has claimed last
    NONE = "none"
    SOME = "some"  # of what it was told, each topic's first
    EMPTY_TOPIC = "empty topic"
    STRANGE = "strange"  # a topic that does not exist, and partitions that others may have


@dataclass(frozen=True, kw_only=True)
class MemberBeat(Ask):
    """ConsumerGroupHeartbeat. `full`: with timeout and subscription, as a join always is. `names`, `regex`, `assignor`
    and `rack`: in place of those of the profile, in any heartbeat. `wrong`: something that is refused."""

    api: ClassVar[type[Message]] = ConsumerGroupHeartbeat
    who: Who = Who.OWN
    epoch: Epoch = Epoch.OWN
    full: bool = False
    owned: Owned = Owned.UNSAID
    names: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    rack: str | None = None
    timeout_ms: int = UNCHANGED_MS
    instance: str = "own"
    wrong: str = ""

    @property
    def is_own(self) -> bool:
        """Return whether the answer tells where the client stands."""
        is_present = self.epoch in {Epoch.OWN, Epoch.JOIN, Epoch.LEAVE, Epoch.AWAY}
        is_new = self.who is Who.NONE and self.version == 0 and self.epoch is Epoch.JOIN
        return is_present and (self.who is Who.OWN or is_new) and not self.wrong and self.instance == "own"

    def request(self, view: View) -> ConsumerGroupHeartbeat:
        profile = view.profile
        epoch = self._epoch(view)
        full = self.full or epoch == JOINING
        regex = self.regex if self.regex is not None or not full else profile.regex
        request = ConsumerGroupHeartbeat(
            group_id=view.group_id,
            member_id=self._member_id(view),
            member_epoch=epoch,
            instance_id={"own": profile.instance, "none": None, "another": "i9"}[self.instance],
            rack_id=self.rack,
            rebalance_timeout_ms=profile.revocation_ms if full else self.timeout_ms,
            subscribed_topic_names=profile.topics if full and self.names is None else self.names,
            subscribed_topic_regex=regex if self.version >= 1 else None,
            server_assignor=profile.assignor if full and self.assignor is None else self.assignor,
            topic_partitions=self._owned(view, epoch),
            may_lack_member_id=self.version == 0,
        )
        return self._broken(request)

    def _member_id(self, view: View) -> str:
        if self.who is Who.OWN:
            return view.consumer_id
        return view.id_of(self.who)

    def _epoch(self, view: View) -> int:
        own = view.generation_id if view.phase is Phase.MEMBER else JOINING
        return {
            Epoch.OWN: own,
            Epoch.JOIN: JOINING,
            Epoch.LEAVE: LEAVING,
            Epoch.AWAY: LEAVING_FOR_NOW,
            Epoch.OLD: max(view.generation_id - 1, 1),
            Epoch.NEW: max(view.generation_id, 0) + 1,
            Epoch.WRONG: -3,
        }[self.epoch]

    def _owned(self, view: View, epoch: int) -> tuple[TopicIdPartitions, ...] | None:
        if epoch == JOINING and not self.wrong:
            return ()
        if self.owned is Owned.UNSAID:
            return None
        if self.owned is Owned.STRANGE:
            return (
                TopicIdPartitions(BOGUS_TOPIC_ID, (0,)),
                TopicIdPartitions(view.topic_id(view.profile.topics[0]), (0, 1)),
            )
        if self.owned is Owned.EMPTY_TOPIC:
            return (TopicIdPartitions(view.topic_id(view.profile.topics[0]), ()),)
        owned = {Owned.NONE: {}, Owned.REPORTED: view.reported}.get(self.owned, view.told)
        if self.owned is Owned.SOME:
            owned = {name: partitions[:1] for name, partitions in owned.items()}
        return tuple([TopicIdPartitions(view.topic_id(name), partitions) for name, partitions in owned.items()])

    def _broken(self, request: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeat:
        match self.wrong:
            case "no group":
                return replace(request, group_id=" ")
            case "no member id":
                return replace(request, member_id="" if self.version == 0 and self.epoch is not Epoch.JOIN else " ")
            case "blank instance":
                return replace(request, instance_id="")
            case "blank rack":
                return replace(request, rack_id=" ")
            case "no timeout":
                return replace(request, rebalance_timeout_ms=UNCHANGED_MS)
            case "nothing subscribed":
                return replace(request, subscribed_topic_names=None, subscribed_topic_regex=None)
            case "unknown assignor":
                return replace(request, server_assignor="nope")
            case "no assignor":
                return replace(request, server_assignor="")
            case "bad pattern":
                return replace(request, subscribed_topic_regex="(" if self.version >= 1 else None)
        return request


WRONGS = (
    "no group",
    "no member id",
    "blank instance",
    "blank rack",
    "no timeout",
    "nothing subscribed",
    "owned",
    "unknown assignor",
    "no assignor",
    "bad pattern",
)


@dataclass(frozen=True, kw_only=True)
class Follow(Step):
    """The heartbeat that a client's library would send next: it joins, says that it has given up what was taken from
    it, or is just alive. `lazy`: it takes its time with that. `fully`: with all it may say."""

    version: int
    lazy: bool = False
    fully: bool = False

    def ask(self, view: View) -> Ask:
        if view.phase is not Phase.MEMBER:
            return self._beat(epoch=Epoch.JOIN)
        if view.owes_full or self.fully:
            return self._beat(full=True, owned=Owned.REPORTED if self.lazy else Owned.TOLD)
        if view.told != view.reported and not self.lazy:
            return self._beat(owned=Owned.TOLD)
        return self._beat()

    def _beat(self, *, epoch: Epoch = Epoch.OWN, full: bool = False, owned: Owned = Owned.UNSAID) -> MemberBeat:
        return MemberBeat(
            client=self.client, group=self.group, version=self.version, epoch=epoch, full=full, owned=owned
        )


@dataclass(frozen=True, kw_only=True)
class MemberFetch(Fetch):
    """OffsetFetch by a member, which version 9 introduced."""

    who: Who = Who.OWN
    generation: Generation = Generation.OWN

    def request(self, view: View) -> Message:
        plain = super().request(view)
        assert isinstance(plain, OffsetFetch)
        if self.version < 9:
            return plain
        member_id = None if self.who is Who.NONE else view.id_of(self.who)
        epoch = generation_of(view, self.generation)
        groups = tuple([replace(one, member_id=member_id, member_epoch=epoch) for one in plain.groups])
        return replace(plain, groups=groups)


@dataclass(frozen=True, kw_only=True)
class DescribeMembers(Ask):
    """ConsumerGroupDescribe of one or both groups, or of none."""

    api: ClassVar[type[Message]] = ConsumerGroupDescribe
    both_groups: bool = False
    operations: bool = False
    nobody: bool = False

    def request(self, view: View) -> Message:
        groups = range(GROUPS) if self.both_groups else (self.group,)
        ids = tuple(view.group_ids[one] for one in groups)
        return ConsumerGroupDescribe(("", *ids) if self.nobody else ids, self.operations)


@dataclass(frozen=True, kw_only=True)
class Configure(Ask):
    """IncrementalAlterConfigs of the group: each setting takes a value, or loses it (None)."""

    api: ClassVar[type[Message]] = IncrementalAlterConfigs
    settings: tuple[tuple[str, str | None], ...] = ()
    validate_only: bool = False

    def request(self, view: View) -> Message:
        configs = [
            AlterableConfig(name, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
            for name, value in self.settings
        ]
        resource = AlterConfigsResource(ResourceType.GROUP, view.group_id, tuple(configs))
        return IncrementalAlterConfigs((resource,), self.validate_only)


SETTINGS = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")


@dataclass(frozen=True, kw_only=True)
class ShowSettings(Ask):
    """DescribeConfigs of the group."""

    api: ClassVar[type[Message]] = DescribeConfigs
    synonyms: bool = False

    def request(self, view: View) -> Message:
        return DescribeConfigs((DescribeConfigsResource(ResourceType.GROUP, view.group_id, SETTINGS),), self.synonyms)


CONSUMER_ASKS: tuple[type[Ask], ...] = (MemberBeat, Commit, MemberFetch, DescribeMembers, Configure, ShowSettings)
