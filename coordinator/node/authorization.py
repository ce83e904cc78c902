"""Authorization by the node's own access control lists: the permitted part of a request is served, and the rest of it
denied where Apache Kafka denies it. The rules are those of `coordinator.accounts.requests`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.accounts.authorizer import Decisions
from coordinator.accounts.division import divide, merge_reply
from coordinator.accounts.permission import (
    AUTO_CREATED,
    CLUSTER,
    DELETED_TOPIC,
    GROUP,
    IDEMPOTENT_PRODUCER,
    REPLICATED_TOPIC,
    TOPIC,
    TOPIC_OR_CLUSTER,
    CodeOf,
    Permission,
    describe_topic,
)
from coordinator.accounts.requests import ACCESS
from coordinator.clock import Moment
from coordinator.core.core import INTERNAL, Connection, Core
from coordinator.handlers.audited import audit_refusal
from coordinator.handlers.table import Handler
from coordinator.node.events import Opened
from coordinator.node.serving import Serving
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.node import DescribeNode
from protocol.messages.offsets import OffsetCommit, OffsetFetch
from protocol.session import RequestRef

_READ: Final = AclOperation.READ
_DESCRIBE: Final = AclOperation.DESCRIBE
_Pending = tuple[Message, Message | None]
"""A pending request, and the reply to its denied part."""
_Known = Mapping[tuple[str, str | bytes, AclOperation], bool]


def _is_known_commit(known: _Known, commit: OffsetCommit) -> bool:
    """Return true if all of the commit was permitted before, and nothing has changed since. Decisions are cached by
    topic name, so a commit that has topic ids is never known."""
    if not known.get((GROUP, commit.group_id, _READ)):
        return False
    for topic in commit.topics:  # noqa: SIM110 - a generator costs more than the look-ups
        if not known.get((TOPIC, topic.name or topic.topic_id, _READ)):
            return False
    return True


def permits_again(connection: Connection, commit: OffsetCommit) -> bool:
    """Return true if the cached decisions permit a commit like this one. The look at each topic is repeated when the
    principal or the access rules have changed."""
    access, plan = connection.access, connection.commit_plan
    if access is None or plan is None:
        return False
    if plan.permitted[0] is not access or plan.permitted[1] != access.epoch:
        if not _is_known_commit(access.known, commit):
            return False
        plan.permitted = access, access.epoch
    return True


def _is_known_fetch(known: _Known, fetch: OffsetFetch) -> bool:
    """Return whether all of the fetch was permitted before. A fetch of all topics is restricted in its reply."""
    for group in fetch.groups:
        if group.topics is None or not known.get((GROUP, group.group_id, _DESCRIBE)):
            return False
        for topic in group.topics:
            if not known.get(describe_topic(topic)):
                return False
    return True


_KNOWN: Final[Mapping[type[Message], Callable[[_Known, Any], bool]]] = {
    OffsetCommit: _is_known_commit,
    OffsetFetch: _is_known_fetch,
}
"""Requests of the hot path, each with its check that all required permissions were granted before."""


class LocalAuthorization:
    """Authorization of all requests of clients, and of those from inside the process that stand for clients."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._pending: dict[int, dict[int, _Pending]] = {}

    def take_part(self, serving: Serving) -> None:
        """Put the authorization before the handlers of all requests; without access rules, only before those of
        requests from inside the process, since tokens always have roles."""
        serving.rewrite = self.rewrite
        if not self._core.accounts.authorizer.is_on:
            serving.guard_call = lambda message, handler: (
                self.guarded(message, handler) if message in ACCESS else handler
            )
            return
        serving.handlers = {message: self.guarded(message, handler) for message, handler in serving.handlers.items()}
        serving.repeated.guards.append(permits_again)
        serving.on_opened.append(self.opened)
        serving.on_closed.append(self.closed)

    def opened(self, connection: Connection, event: Opened, moment: Moment) -> None:
        """Apply the access rules to a new connection: its principal is anonymous, or the certificate's, until it logs
        in."""
        connection.access = self._core.accounts.authorizer.of(connection.principal, connection.peer_host)
        connection.is_guarded = True

    def closed(self, number: int) -> None:
        """Forget a closed connection."""
        self._pending.pop(number, None)

    def guarded(self, message: type[Message], handler: Handler) -> Handler:
        """Return a handler that serves the permitted part of a request."""
        finishes = ACCESS[message].finish is not None

        def serve(core: Core, ref: RequestRef, request: Message, moment: Moment) -> None:
            if message is DescribeNode and ref.connection == INTERNAL:
                handler(core, ref, request, moment)  # health and metrics: /healthz, /readyz, /metrics
                return
            missing: list[Permission] = []
            permitted, denied = divide(request, self._code_of(ref, missing))
            if missing:
                audit_refusal(core, ref, request, missing, moment)
            if permitted is None:
                assert denied is not None
                core.outbox.send(ref, denied)
                return
            if denied is not None or finishes:
                self._pending.setdefault(ref.connection, {})[ref.number] = request, denied
            handler(core, ref, permitted, moment)

        is_known = _KNOWN.get(message)
        if is_known is None:
            return serve

        def serve_known(core: Core, ref: RequestRef, request: Any, moment: Moment) -> None:
            """Serve a request whose permissions are all cached by look-ups alone, without splitting it."""
            connection = core.connections.get(ref.connection)
            access = None if connection is None else connection.access
            if access is not None and is_known(access.known, request):
                handler(core, ref, request, moment)
            else:
                serve(core, ref, request, moment)

        return serve_known

    def rewrite(self, ref: RequestRef, reply: Message, moment: Moment) -> Message:
        """Return the reply with the denials added."""
        pending = self._pending.get(ref.connection)
        found = None if pending is None else pending.pop(ref.number, None)
        if found is None:
            return reply
        message, denied = found
        return merge_reply(message, reply, denied, self._code_of(ref))

    def _code_of(self, ref: RequestRef, missing: list[Permission] | None = None) -> CodeOf:
        """Return the function that decides for the sender; permissions that the sender lacks are added to `missing`."""
        access = self._core.access_of(ref)
        known = access.known

        def code_of(permission: Permission) -> ErrorCode:
            if known.get(permission):  # keyed by the permission itself: nearly always this look-up is enough
                return ErrorCode.NONE
            if self._permits(access, permission):
                return ErrorCode.NONE
            if missing is not None:
                missing.append(permission)
            return permission.denial

        return code_of

    def _permits(self, access: Decisions, permission: Permission) -> bool:
        kind, name, operation = permission
        if isinstance(name, bytes):
            found = self._core.topics.name_of(name)
            if found is None:
                return True  # there is no such topic: the handler returns that error
            name = found
        if kind == AUTO_CREATED:
            core = self._core
            if not core.config.auto_create_topics_enable or core.topics.partition_count(name):
                return True
            kind = TOPIC_OR_CLUSTER
        if kind == TOPIC_OR_CLUSTER:
            return access.permits(CLUSTER, "", operation) or access.permits(TOPIC, name, operation)
        if kind == DELETED_TOPIC:
            return access.permits(CLUSTER, "", operation) or self._permits_deletion(access, name)
        if kind == REPLICATED_TOPIC:
            return access.permits(CLUSTER, "", AclOperation.CLUSTER_ACTION) or access.permits(TOPIC, name, operation)
        if kind == IDEMPOTENT_PRODUCER:
            return access.permits(CLUSTER, "", operation) or access.permits_on_any_topic(AclOperation.WRITE)
        return access.permits(kind, name, operation)

    def _permits_deletion(self, access: Decisions, topic: str) -> bool:
        if not access.permits(TOPIC, topic, AclOperation.DESCRIBE):
            return False
        is_there = self._core.topics.partition_count(topic) is not None
        return not is_there or access.permits(TOPIC, topic, AclOperation.DELETE)
