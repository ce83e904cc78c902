"""Events of a group that changes its kind while it has members: one kind of group passes its state to the other
(docs/spec/consumer-group-protocol.md#13)."""

import msgspec

from protocol.messages.groups import JoinGroup
from protocol.session import RequestRef


class ClassicAgainMember(msgspec.Struct, frozen=True, gc=False):
    """Fields of a member that no record has: its connection (-1: none), the principal that it belongs to (None: no
    owner yet), and all protocols that it offers."""

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
    join again, and `joining` is the request of `initiator`, if it has arrived already."""

    group_id: str
    members: tuple[ClassicAgainMember, ...]
    initiator: str
    detail: str
    is_settled: bool = False
    joining: ParkedJoin | None = None


class Superseded(msgspec.Struct, frozen=True, gc=False):
    """The group became a consumer group: requests and operations that wait for its classic state end."""

    group_id: str
