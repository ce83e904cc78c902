"""Throttling of clients that use more than their limits (KIP-124, KIP-219): they are answered at once, with the time to
wait in `throttle_time_ms`, and nothing more is read from them until then.

While there are no limits nothing of this runs.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from coordinator.accounts.quotas import QuotaKey
from coordinator.clock import Moment
from coordinator.config.principals import ANONYMOUS
from coordinator.core.core import Connection, Core
from coordinator.handlers.table import Handler
from coordinator.keys import ThrottleKey
from coordinator.node.events import Opened
from coordinator.node.serving import Serving
from protocol.messages import Message
from protocol.messages.balanced import ConfirmConsumed, StartMember
from protocol.messages.consumer_groups import JOINING, ConsumerGroupHeartbeat
from protocol.messages.data import FetchReply, Produce
from protocol.messages.groups import JoinGroup
from protocol.messages.offsets import OffsetCommit
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation

_USER: Final = "User:"


class ThrottleOver(msgspec.Struct, frozen=True, gc=False):
    """The time is over for which a connection was not read."""

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
"""Limit that a request counts against, and by how much. Fetched bytes are counted by the replies."""


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
        serving.on_opened.append(self._opened)
        serving.on_closed.append(self._closed)
        core.accounts.on_quotas = self._changed
        self._changed()

    def _changed(self) -> None:
        """Count, or stop to."""
        is_on = self._quotas.is_on
        self._serving.handlers = self._limited if is_on else self._unlimited
        self._serving.on_reply = self._replied if is_on else None

    def _counted(self, handler: Handler, key: QuotaKey, amount_of: Callable[[Any], int]) -> Handler:
        def serve(core: Core, ref: RequestRef, message: Message, moment: Moment) -> None:
            connection = core.connections.get(ref.connection)
            if connection is not None and (amount := amount_of(message)):
                self._use(connection, key, amount, moment)
            handler(core, ref, message, moment)

        return serve

    def _replied(self, connection: Connection, reply: Message, moment: Moment) -> Message:
        """Count what is fetched; return the reply with the time to wait in it."""
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
        if connection.principal != ANONYMOUS:  # it has a certificate
            self._use(connection, QuotaKey.CONNECTIONS, 1, moment)

    def _use(self, connection: Connection, key: QuotaKey, amount: int, moment: Moment) -> None:
        user = connection.principal.removeprefix(_USER)
        self._throttle(
            connection,
            self._quotas.use(key, user, connection.session.client_id, amount, moment.monotonic_ms),
            moment,
        )

    def _throttle(self, connection: Connection, wait_ms: int, moment: Moment) -> None:
        """Read nothing from the connection for a time. A longer one that was begun before goes on."""
        until_ms = moment.monotonic_ms + wait_ms
        if not wait_ms or until_ms <= connection.throttled_until_ms:
            return
        self._core.count("requests_throttled")
        connection.throttled_until_ms = until_ms
        self._core.purgatory.try_complete_else_watch(_DelayedThrottle(connection.number, until_ms))
        self._serving.touched[connection.number] = connection
        self._serving.pause_or_resume(connection)

    def over(self, event: ThrottleOver, moment: Moment) -> None:
        """Read the connection again, and serve what it sent before."""
        connection = self._core.connections.get(event.connection)
        if connection is not None:
            connection.throttled_until_ms = 0
            self._serving.touched[connection.number] = connection
            self._serving.serve(connection, moment)

    def _closed(self, number: int) -> None:
        self._core.purgatory.cancel(ThrottleKey(number))
