"""Events of a group that changes its kind while it has members, which one kind of group has for another
(docs/spec/consumer-group-protocol.md#13)."""

import msgspec

from protocol.messages.groups import JoinGroup
from protocol.session import RequestRef


class ClassicAgainMember(msgspec.Struct, frozen=True, gc=False):
    """A member with what no record has: its connection (-1: none), the principal that it belongs to (None: nobody yet),
    and all protocols that it offers."""

    member_id: str
    connection: int
    principal: str | None
    protocols: tuple[tuple[str, bytes], ...]


class ParkedJoin(msgspec.Struct, frozen=True, gc=False):
    """A JoinGroup that is to wait for the next generation."""

    ref: RequestRef
    request: JoinGroup
    client_id: str
    client_host: str
    principal: str


class ClassicAgain(msgspec.Struct, frozen=True, gc=False):
    """The group was a consumer group; its record as a classic one was applied. Unless it `is_settled`, its members must
    join again, and `joining` is the request of `initiator`, if that has come already."""

    group_id: str
    members: tuple[ClassicAgainMember, ...]
    initiator: str
    detail: str
    is_settled: bool = False
    joining: ParkedJoin | None = None


class Superseded(msgspec.Struct, frozen=True, gc=False):
    """The group became a consumer group: what waits for its classic state ends."""

    group_id: str
