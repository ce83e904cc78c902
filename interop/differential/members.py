"""Members as one server knows them: the ids it gave, and how far each has come by the answers that it has had."""

from collections.abc import Iterable, Mapping

from interop.differential.views import ALL_TOPICS, BOGUS_ID, NO_ID, TOPICS, Phase, Profile, Who
from protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    TopicIdPartitions,
)
from protocol.messages.groups import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)

_KEEPS_ID = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED)
"""After these a member asks again as who it is; after any other error it begins anew."""

_ABANDONS = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
"""After these a member of a group that the coordinator balances gives up its partitions, and joins again."""


class Names:
    """Names for the ids that one server made: `c2#1` is the first one that client 2 was given in its group."""

    def __init__(self, topic_ids: Mapping[str, bytes]) -> None:
        self.topic_ids = topic_ids
        self.of_topic_id = {topic_id: name for name, topic_id in topic_ids.items()}
        self._names: dict[str, str] = {}
        self._clients: dict[str, int] = {}
        self._given: dict[tuple[int, int], int] = {}
        self._own: set[str] = set()

    def give(self, member_id: str, client: int, group: int) -> None:
        """Name the id after who it was given to, unless it has a name."""
        if not member_id or member_id == BOGUS_ID or member_id in self._names or member_id in self._own:
            return
        number = self._given[client, group] = self._given.get((client, group), 0) + 1
        self._clients[member_id] = client
        self._names[member_id] = f"c{client + 1}#{number}" + (f"/{group}" if group else "")

    def make(self, member_ids: Iterable[str]) -> None:
        """Take ids that clients make themselves: these are the same at both servers."""
        self._own.update(member_ids)

    def of(self, member_id: str) -> str | None:
        """None for an id that nobody was told yet."""
        return self._names.get(member_id)

    def client_of(self, member_id: str) -> int | None:
        """The client that was given the id."""
        return self._clients.get(member_id)


class Member:
    """One client in one group, at one server. It is the `View` of steps."""

    def __init__(self, profile: Profile, names: Names, client: int, number: int, group_ids: tuple[str, ...]) -> None:
        self.profile = profile
        self.group_ids = group_ids
        self.group_id = group_ids[number]
        self.phase = Phase.OUT
        self.member_id = NO_ID
        self.generation_id = -1
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader = NO_ID
        self.instance: str | None = None
        self.revision = 0
        self.neighbour: Member | None = None
        self.owes_full = False
        self.told: Mapping[str, tuple[int, ...]] = {}
        self.reported: Mapping[str, tuple[int, ...]] = {}
        self._processes = 0
        self._asked: ConsumerGroupHeartbeat | None = None
        self._roster: tuple[str, ...] = ()
        self._names = names
        self._client, self._number = client, number

    def id_of(self, who: Who) -> str:
        if who is Who.OTHER:
            return self.neighbour.member_id if self.neighbour is not None else NO_ID
        return {Who.OWN: self.member_id, Who.NONE: NO_ID, Who.BOGUS: BOGUS_ID}[who]

    @property
    def consumer_id(self) -> str:
        """The id that it joins with where members make their ids themselves."""
        ids = self.profile.member_ids
        return self.member_id or (ids[self._processes % len(ids)] if ids else NO_ID)

    def topic_id(self, name: str) -> bytes:
        return self._names.topic_ids.get(name, b"\x07" * 16)

    def subscription(self) -> bytes:
        return encode_subscription(Subscription(self.profile.topics or tuple(TOPICS), b"%d" % self.revision), 0)

    def assignments(self) -> tuple[SyncGroupAssignment, ...]:
        """Each member's share says whose it is and in which generation; nobody's without the lead."""
        if self.leader != self.member_id:
            return ()
        if self.profile.member_ids:
            return self._real_assignments()
        shares = [(member_id, f"{self._names.of(member_id)} in {self.generation_id}") for member_id in self._roster]
        return tuple(SyncGroupAssignment(member_id, share.encode()) for member_id, share in shares)

    def _real_assignments(self) -> tuple[SyncGroupAssignment, ...]:
        """Deal out the topics, as they must be for the coordinator to take the group over."""
        roster = sorted(self._roster, key=lambda member_id: self._names.of(member_id) or "")
        dealt = []
        for place, member_id in enumerate(roster):
            parts = [(name, tuple(range(place, ALL_TOPICS.get(name, 0), len(roster)))) for name in self.profile.topics]
            owned = tuple([TopicPartitions(name, numbers) for name, numbers in parts if numbers])
            dealt.append(SyncGroupAssignment(member_id, encode_assignment(Assignment(owned), 0)))
        return tuple(dealt)

    @property
    def leads(self) -> bool:
        """Return whether the client was told so."""
        return bool(self.member_id) and self.leader == self.member_id

    def forget(self) -> None:
        """Forget everything, as a restart of the process does."""
        self.phase, self.member_id, self.generation_id, self._roster = Phase.OUT, NO_ID, -1, ()
        self.leader = NO_ID
        self.told, self.reported, self.owes_full = {}, {}, False

    def restart(self) -> None:
        """Begin again as another process."""
        self._processes += 1
        self.forget()

    def asks(self, message: Message) -> None:
        """Called for what it sends as itself."""
        if isinstance(message, JoinGroup):
            self.phase = Phase.JOINING
            self.instance = message.group_instance_id
        elif isinstance(message, SyncGroup):
            self.phase = Phase.SYNCING
        elif isinstance(message, ConsumerGroupHeartbeat):
            self._asked = message
            if message.topic_partitions is not None:
                self.reported = self._by_name(message.topic_partitions)

    def hears(self, reply: Message) -> None:
        """Called with the answer to the latest JoinGroup, SyncGroup or Heartbeat that it sent as itself."""
        match reply:
            case JoinGroupReply(error_code=ErrorCode.NONE):
                self.phase, self.member_id, self.generation_id = Phase.JOINED, reply.member_id, reply.generation_id
                self.protocol_type, self.protocol_name = reply.protocol_type, reply.protocol_name
                self.leader = reply.leader
                self._roster = tuple(line.member_id for line in reply.members)
            case SyncGroupReply(error_code=ErrorCode.NONE):
                self.phase = Phase.MEMBER
            case ConsumerGroupHeartbeatReply():
                self._hears_beat(reply)
            case HeartbeatReply() if not reply.error_code or self.phase in {Phase.JOINING, Phase.SYNCING}:
                pass
            case JoinGroupReply() | SyncGroupReply() | HeartbeatReply():
                self._is_refused(reply)

    def name(self, member_id: str) -> None:
        """The id was given to this member."""
        self._names.give(member_id, self._client, self._number)

    def _hears_beat(self, reply: ConsumerGroupHeartbeatReply) -> None:
        asked = self._asked
        if reply.error_code in _ABANDONS:
            self.phase, self.generation_id, self.told, self.reported = Phase.OUT, -1, {}, {}
        elif reply.error_code:
            self.owes_full = self.phase is Phase.MEMBER
        elif reply.member_epoch < 0:
            self.phase, self.told, self.reported = Phase.OUT, {}, {}
        else:
            self.phase, self.member_id = Phase.MEMBER, reply.member_id or ""
            self.generation_id = reply.member_epoch
            self.owes_full = False
            if asked is not None and asked.member_epoch == 0:
                self.instance = asked.instance_id
            if reply.assignment is not None:
                self.told = self._by_name(reply.assignment.topic_partitions)

    def _by_name(self, partitions: Iterable[TopicIdPartitions]) -> Mapping[str, tuple[int, ...]]:
        names = self._names.of_topic_id
        found = {names.get(one.topic_id, one.topic_id.hex()): tuple(sorted(one.partitions)) for one in partitions}
        return {name: numbers for name, numbers in sorted(found.items()) if numbers}

    def _is_refused(self, reply: JoinGroupReply | SyncGroupReply | HeartbeatReply) -> None:
        if reply.error_code in _KEEPS_ID:
            self.phase = Phase.OUT
            if isinstance(reply, JoinGroupReply) and reply.member_id:
                self.member_id = reply.member_id
        else:
            self.forget()


SAYS_WHERE_IT_STANDS = (JoinGroup, SyncGroup, Heartbeat, ConsumerGroupHeartbeat)
"""Requests whose replies `Member.hears`."""
