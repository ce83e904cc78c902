"""Members as one server knows them: the ids it gave, and how far each has come by the answers that it has had."""

from collections.abc import Mapping

from interop.differential.views import BOGUS_ID, NO_ID, TOPICS, Phase, Profile, Who
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages import Message
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


class Names:
    """Names for the ids that one server made: `c2#1` is the first one that client 2 was given in its group."""

    def __init__(self, topic_ids: Mapping[str, bytes]) -> None:
        self.topic_ids = topic_ids
        self.of_topic_id = {topic_id: name for name, topic_id in topic_ids.items()}
        self._names: dict[str, str] = {}
        self._clients: dict[str, int] = {}
        self._given: dict[tuple[int, int], int] = {}

    def give(self, member_id: str, client: int, group: int) -> None:
        """Name the id after who it was given to, unless it has a name."""
        if not member_id or member_id == BOGUS_ID or member_id in self._names:
            return
        number = self._given[client, group] = self._given.get((client, group), 0) + 1
        self._clients[member_id] = client
        self._names[member_id] = f"c{client + 1}#{number}" + (f"/{group}" if group else "")

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
        self._roster: tuple[str, ...] = ()
        self._names = names
        self._client, self._number = client, number

    def id_of(self, who: Who) -> str:
        if who is Who.OTHER:
            return self.neighbour.member_id if self.neighbour is not None else NO_ID
        return {Who.OWN: self.member_id, Who.NONE: NO_ID, Who.BOGUS: BOGUS_ID}[who]

    def topic_id(self, name: str) -> bytes:
        return self._names.topic_ids.get(name, b"\x07" * 16)

    def subscription(self) -> bytes:
        return encode_subscription(Subscription(self.profile.topics or tuple(TOPICS), b"%d" % self.revision), 0)

    def assignments(self) -> tuple[SyncGroupAssignment, ...]:
        """Each member's share says whose it is and in which generation; nobody's without the lead."""
        if self.leader != self.member_id:
            return ()
        shares = [(member_id, f"{self._names.of(member_id)} in {self.generation_id}") for member_id in self._roster]
        return tuple(SyncGroupAssignment(member_id, share.encode()) for member_id, share in shares)

    @property
    def leads(self) -> bool:
        """Return whether the client was told so."""
        return bool(self.member_id) and self.leader == self.member_id

    def forget(self) -> None:
        """Forget everything, as a restart of the process does."""
        self.phase, self.member_id, self.generation_id, self._roster = Phase.OUT, NO_ID, -1, ()
        self.leader = NO_ID

    def asks(self, message: Message) -> None:
        """Called for what it sends as itself."""
        if isinstance(message, JoinGroup):
            self.phase = Phase.JOINING
            self.instance = message.group_instance_id
        elif isinstance(message, SyncGroup):
            self.phase = Phase.SYNCING

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
            case HeartbeatReply() if not reply.error_code or self.phase in {Phase.JOINING, Phase.SYNCING}:
                pass
            case JoinGroupReply() | SyncGroupReply() | HeartbeatReply():
                self._is_refused(reply)

    def name(self, member_id: str) -> None:
        """The id was given to this member."""
        self._names.give(member_id, self._client, self._number)

    def _is_refused(self, reply: JoinGroupReply | SyncGroupReply | HeartbeatReply) -> None:
        if reply.error_code in _KEEPS_ID:
            self.phase = Phase.OUT
            if isinstance(reply, JoinGroupReply) and reply.member_id:
                self.member_id = reply.member_id
        else:
            self.forget()


SAYS_WHERE_IT_STANDS = (JoinGroup, SyncGroup, Heartbeat)
"""Requests whose answers `Member.hears`."""
