"""Events of a client-balanced member, and its effects besides requests. Each call of the application is an event with
an `operation`, the number under which an `OperationEnded` returns its `Result`: always, and within the call's timeout.
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
    """The application waits for a registered partition, up to a timeout. The `Result` is ok if there is one."""

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
    """The application requests a batch. `deadline_ms` is that of an earlier request which this one continues."""

    operation: int
    deadline_ms: int | None = None
    is_rest: bool = False


class Fetched(msgspec.Struct, frozen=True):
    """The data of a `MessageAsked`: encoded records, to be decoded outside the core. Either `Handed` or `PassedOver`
    must follow."""

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
    """A batch, which ends before `next_offset`, was decoded. It may be returned to the application if the `Result` is
    ok: another member may own the partition by now."""

    operation: int
    key: str
    token: int
    next_offset: int


class PassedOver(MemberEvent, frozen=True):
    """A fetch without a record for the application: `consumed`, or else unreadable, after which the partition is
    paused."""

    key: str
    token: int
    next_offset: int
    consumed: bool = True


class ConfirmAsked(MemberEvent, frozen=True):
    operation: int
    context: str
    consumed: bool


class DescribeAsked(MemberEvent, frozen=True):
    """The application requests the coordinator's description of the group."""

    operation: int


class ShutdownAsked(MemberEvent, frozen=True):
    operation: int


class GaveUp(MemberEvent, frozen=True):
    """The caller of an operation no longer waits; a batch that it was given is returned as not consumed."""

    operation: int


class OperationEnded(MemberEffect, frozen=True):
    operation: int
    result: Result


class Noted(MemberEffect, frozen=True):
    """An entry for the client's log: a loss, and its reason."""

    event: str
    fields: dict[str, object] = {}
