"""Throttling of clients that use more than their limits (KIP-124, KIP-219): they are answered at once, with the time to
wait in `throttle_time_ms`, and the node reads no more from them until then. A join beyond a limit of members, or of
their metadata, is also refused.

Without limits none of this code runs.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from coordinator.accounts.quotas import HELD, QuotaKey
from coordinator.clock import Moment
from coordinator.config.principals import ANONYMOUS
from coordinator.core.core import Connection, Core
from coordinator.core.held_members import HeldMembers
from coordinator.handlers.list_refusals import note_limited
from coordinator.handlers.table import Handler
from coordinator.keys import ThrottleKey
from coordinator.node.events import Opened
from coordinator.node.serving import Serving
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import ConfirmConsumed, StartMember
from protocol.messages.consumer_groups import JOINING, ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from protocol.messages.data import FetchReply, Produce
from protocol.messages.groups import JoinGroup, JoinGroupReply
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import OffsetCommit
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation

_USER: Final = "User:"
_REFUSED_WAIT_MS: Final = 1_000
"""Time for which a client whose join was refused is not read."""
LOOK_TASK, _LOOK_EVERY_MS = "holdings", 10
_REFUSALS: Final = {
    QuotaKey.MEMBERS: ErrorCode.GROUP_MAX_SIZE_REACHED,
    QuotaKey.METADATA_BYTES: ErrorCode.MESSAGE_TOO_LARGE,
}


class ThrottleOver(msgspec.Struct, frozen=True, gc=False):
    """The time for which a connection was not read is over."""

    connection: int


class _DelayedThrottle(DelayedOperation[ThrottleOver]):
    """A delayed operation that only expires."""

    __slots__ = ("_over", "deadline_ms", "key")
    kind = "throttle"

    def __init__(self, connection: int, deadline_ms: int) -> None:
        self._over = ThrottleOver(connection)
        self.key = ThrottleKey(connection)
        self.deadline_ms = deadline_ms

    def is_satisfied(self) -> bool:
        return False

    def completed(self) -> ThrottleOver | None:
        return self._over


def _produced(message: Produce) -> int:
    return sum(len(part.records) for topic in message.topic_data for part in topic.partition_data)


def _joins(message: ConsumerGroupHeartbeat) -> int:
    return int(message.member_epoch == JOINING)


def _one(message: Message) -> int:
    return 1


USES: Final[Mapping[type[Message], tuple[QuotaKey, Callable[[Any], int]]]] = {
    Produce: (QuotaKey.PRODUCED_BYTES, _produced),
    JoinGroup: (QuotaKey.JOINS, _one),
    ConsumerGroupHeartbeat: (QuotaKey.JOINS, _joins),
    StartMember: (QuotaKey.JOINS, _one),
    OffsetCommit: (QuotaKey.COMMITS, _one),
    ConfirmConsumed: (QuotaKey.COMMITS, _one),
}
"""Limit that a request counts against, and its amount. Fetched bytes are counted by the replies."""


def _refused(message: Message, code: ErrorCode) -> Message:
    """Return the reply to a refused join."""
    if isinstance(message, JoinGroup):
        return JoinGroupReply(error_code=code, member_id=message.member_id)
    if isinstance(message, ConsumerGroupHeartbeat):
        return ConsumerGroupHeartbeatReply(error_code=code)
    return ErrorReply(code)


_JOINS: Final = (JoinGroup, ConsumerGroupHeartbeat, StartMember)
"""Requests that create members, or change the size of their metadata."""


class _Passed(NamedTuple):
    """A limit of members or metadata that a join would exceed."""

    key: QuotaKey
    rate: float


class Throttling:
    """Throttling of a node's connections. Requests from inside the process are not limited."""

    def __init__(self, core: Core, serving: Serving) -> None:
        self._core = core
        self._serving = serving
        self._quotas = core.accounts.quotas
        self._unlimited = serving.handlers
        self._limited = {
            message: self._counted(handler, *USES[message]) if message in USES else handler
            for message, handler in serving.handlers.items()
        }
        for kind in _JOINS:
            if kind in self._limited:
                self._limited[kind] = self._admitted(self._limited[kind])
        self._holdings = HeldMembers(core.directory)
        self._limits_held = False
        serving.on_opened.append(self._opened)
        serving.on_closed.append(self._closed)
        core.accounts.on_quotas = self._changed
        self._changed()

    def _changed(self) -> None:
        """Start or stop counting after a change of the limits."""
        is_on = self._quotas.is_on
        self._serving.handlers = self._limited if is_on else self._unlimited
        self._serving.repeated.is_off = is_on
        self._serving.on_reply = self._replied if is_on else None
        self._limits_held = self._quotas.limits_held
        if self._limits_held:
            self._holdings.begin()
            self._core.schedule(LOOK_TASK, 0)

    def look(self, moment: Moment) -> None:
        """Count members that existed before the limits were set, some groups at a time."""
        if self._holdings.look():
            self._core.schedule(LOOK_TASK, moment.monotonic_ms + _LOOK_EVERY_MS)

    def _admitted(self, handler: Handler) -> Handler:
        """Refuse a join that exceeds its client's limits."""

        def serve(core: Core, ref: RequestRef, message: Any, moment: Moment) -> None:
            connection = core.connections.get(ref.connection) if self._limits_held else None
            passed = None if connection is None else self._passed(connection, message)
            if connection is None or passed is None:
                handler(core, ref, message, moment)
                return
            code = _REFUSALS[passed.key]
            self._throttle(connection, _REFUSED_WAIT_MS, moment)
            note_limited(core, connection.number, message, code, f"{passed.key}={passed.rate:g}", moment)
            core.outbox.send(ref, _refused(message, code))

        return serve

    def _passed(self, connection: Connection, message: Any) -> _Passed | None:
        """Return the limit that the join would exceed; if there is none, count the join and return None."""
        if (
            isinstance(message, ConsumerGroupHeartbeat)
            and message.subscribed_topic_names is None
            and message.subscribed_topic_regex is None
        ):
            return None  # it neither joins nor changes its metadata, or it leaves
        user, client_id = connection.principal.removeprefix(_USER), connection.session.client_id
        added, who = self._holdings.added(message), connection.shown_principal
        for key in HELD:
            limit = self._quotas.limit_of(key, user, client_id)
            is_bytes = key is QuotaKey.METADATA_BYTES
            if limit is not None and not self._holdings.admit(limit, who, message.group_id, added, is_bytes=is_bytes):
                return _Passed(key, limit.rate)
        return None

    def _counted(self, handler: Handler, key: QuotaKey, amount_of: Callable[[Any], int]) -> Handler:
        def serve(core: Core, ref: RequestRef, message: Message, moment: Moment) -> None:
            connection = core.connections.get(ref.connection)
            if connection is not None and (amount := amount_of(message)):
                self._use(connection, key, amount, moment)
            handler(core, ref, message, moment)

        return serve

    def _replied(self, connection: Connection, reply: Message, moment: Moment) -> Message:
        """Count the fetched bytes; return the reply with the throttle time in it."""
        if type(reply) is FetchReply:
            fetched = sum(len(part.records) for topic in reply.responses for part in topic.partitions)
            self._use(connection, QuotaKey.FETCHED_BYTES, fetched, moment)
        wait_ms = connection.throttled_until_ms - moment.monotonic_ms
        if wait_ms <= 0 or "throttle_time_ms" not in reply.__struct_fields__:
            return reply
        return replace(reply, throttle_time_ms=wait_ms)

    def logged_in(self, connection: Connection, moment: Moment) -> None:
        """Count a connection of a user."""
        if self._quotas.is_on:
            self._use(connection, QuotaKey.CONNECTIONS, 1, moment)

    def _opened(self, connection: Connection, event: Opened, moment: Moment) -> None:
        if not self._quotas.is_on:
            return
        self._throttle(connection, self._quotas.use_address(event.peer_host, moment.monotonic_ms), moment)
        if connection.principal != ANONYMOUS:  # already counted: the principal of its certificate
            self._use(connection, QuotaKey.CONNECTIONS, 1, moment)

    def _use(self, connection: Connection, key: QuotaKey, amount: int, moment: Moment) -> None:
        user = connection.principal.removeprefix(_USER)
        self._throttle(
            connection,
            self._quotas.use(key, user, connection.session.client_id, amount, moment.monotonic_ms),
            moment,
        )

    def _throttle(self, connection: Connection, wait_ms: int, moment: Moment) -> None:
        """Read nothing from the connection for a time. An earlier throttle that ends later stays in force."""
        until_ms = moment.monotonic_ms + wait_ms
        if not wait_ms or until_ms <= connection.throttled_until_ms:
            return
        self._core.count("requests_throttled")
        connection.throttled_until_ms = until_ms
        self._core.purgatory.try_complete_else_watch(_DelayedThrottle(connection.number, until_ms))
        self._serving.touched[connection.number] = connection
        self._serving.pause_or_resume(connection)

    def over(self, event: ThrottleOver, moment: Moment) -> None:
        """Resume reading from the connection, and serve the requests that it sent before."""
        connection = self._core.connections.get(event.connection)
        if connection is not None:
            connection.throttled_until_ms = 0
            self._serving.touched[connection.number] = connection
            self._serving.serve(connection, moment)

    def _closed(self, number: int) -> None:
        self._core.purgatory.cancel(ThrottleKey(number))
