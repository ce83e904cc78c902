"""Events of a client-balanced member, and its effects beside calls.

Each call of the application is an event with an `operation`, the number under which an `OperationEnded` brings its
`Result`: always, and within the time that the call allows.
"""

from collections.abc import Iterable, Mapping

import msgspec

from membership.events import MemberEffect, MemberEvent
from muster.core.balancing.results import Result


class StartAsked(MemberEvent, frozen=True):
    operation: int
    targets: Mapping[str, Iterable[str] | None] | None
    source_count: int
    node_id: int


class MetaAsked(MemberEvent, frozen=True):
    operation: int


class ReadyAsked(MemberEvent, frozen=True):
    """The application waits so long for a registered partition. The `Result` is ok if there is one."""

    operation: int
    max_wait_ms: int


class ConnectAsked(MemberEvent, frozen=True):
    operation: int
    key: str
    offset: int = -1


class DisconnectAsked(MemberEvent, frozen=True):
    operation: int
    key: str


class MessageAsked(MemberEvent, frozen=True):
    """`deadline_ms` is that of an earlier question of which this is the rest."""

    operation: int
    deadline_ms: int | None = None
    is_rest: bool = False


class Fetched(msgspec.Struct, frozen=True):
    """The data of a `MessageAsked`: records as they came, to be made out outside of the core. Then either `Handed` or
    `PassedOver` is due."""

    key: str
    topic: str
    partition: int
    position: int
    max: int
    records: bytes
    token: int
    filters: tuple[str, ...]
    deadline_ms: int | None


class Handed(MemberEvent, frozen=True):
    """A batch, which ends before `next_offset`, is made out and may go to the application if the `Result` is ok: making
    it out took its time, and the partition may be somebody else's by now."""

    operation: int
    key: str
    token: int
    next_offset: int


class PassedOver(MemberEvent, frozen=True):
    """A fetch without anything for the application: `consumed`, or else unreadable, and the partition rests."""

    key: str
    token: int
    next_offset: int
    consumed: bool = True


class ConfirmAsked(MemberEvent, frozen=True):
    operation: int
    context: str
    consumed: bool


class DescribeAsked(MemberEvent, frozen=True):
    """The application asks what the coordinator says of the group."""

    operation: int


class ShutdownAsked(MemberEvent, frozen=True):
    operation: int


class GaveUp(MemberEvent, frozen=True):
    """An operation that nobody waits for any more; a batch it was given goes back, not consumed."""

    operation: int


class OperationEnded(MemberEffect, frozen=True):
    operation: int
    result: Result


class Noted(MemberEffect, frozen=True):
    """A word for the log of whoever runs this: what was lost, and why."""

    event: str
    fields: dict[str, object] = {}
