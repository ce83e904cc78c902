"""Answer FindCoordinator.

While a shard moves from node to node, a lookup waits until the next owner serves: clients retry after pauses that grow
to seconds.
"""

from collections.abc import Iterable

import msgspec

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.keys import LookupKey, MovedShardKey
from coordinator.placement import Placement
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID
from protocol.messages.node import FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation

_GROUP_KEY, _TRANSACTION_KEY = 0, 1


class LookupReady(msgspec.Struct, frozen=True, gc=False):
    """The lookup can be answered: all its groups have a coordinator that serves, or its deadline has come."""

    ref: RequestRef
    message: FindCoordinator


class DelayedLookup(DelayedOperation[LookupReady]):
    """A lookup of groups in shards that move."""

    __slots__ = ("_placement", "_ready", "_shards", "deadline_ms", "key")
    kind = "lookup"

    def __init__(self, ready: LookupReady, placement: Placement, shards: Iterable[int], deadline_ms: int) -> None:
        self._ready = ready
        self._placement = placement
        self._shards = tuple(shards)
        self.key = LookupKey(ready.ref.connection, ready.ref.number)
        self.deadline_ms = deadline_ms

    def is_satisfied(self) -> bool:
        return not any(map(self._placement.is_moving, self._shards))

    def completed(self) -> LookupReady:
        return self._ready


def find_coordinator(core: Core, ref: RequestRef, message: FindCoordinator, moment: Moment) -> None:
    """Answer the lookup, or let it wait for the next owner of a shard."""
    settles_by_ms, now_ms = core.placement.settles_by_ms, moment.monotonic_ms
    moving = {shard: due_ms for shard in _shards_of(core, message) if (due_ms := settles_by_ms(shard, now_ms)) > now_ms}
    if not moving:
        answer(core, ref, message)
        return
    delayed = DelayedLookup(LookupReady(ref, message), core.placement, moving, max(moving.values()))
    core.purgatory.try_complete_else_watch(delayed, map(MovedShardKey, moving))


def _shards_of(core: Core, message: FindCoordinator) -> Iterable[int]:
    if message.key_type != _GROUP_KEY:
        return ()
    return (core.placement.shard_of(key) for key in message.coordinator_keys if len(key) <= LONGEST_GROUP_ID)


def answer(core: Core, ref: RequestRef, message: FindCoordinator) -> None:
    """Answer with the node of each group, as clients of the asking dialect reach it
    (docs/spec/group-protocol.md#2.11)."""
    dialect = core.dialect(ref.connection)
    found = []
    for key in message.coordinator_keys:
        if message.key_type == _TRANSACTION_KEY:
            # This error ends every client: librdkafka repeats a request for ever if the error may be retriable.
            text = "transactions are not served here: produce without a transactional id"
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            found.append(FoundCoordinator(key, error_code=error, error_message=text))
            continue
        if message.key_type != _GROUP_KEY:
            text = f"coordinators of key type {message.key_type} are not served"
            found.append(FoundCoordinator(key, error_code=ErrorCode.INVALID_REQUEST, error_message=text))
            continue
        if len(key) > LONGEST_GROUP_ID:
            text = f"a group id has at most {LONGEST_GROUP_ID} characters, not {len(key)}"
            found.append(FoundCoordinator(key, error_code=ErrorCode.INVALID_GROUP_ID, error_message=text))
            continue
        node = core.placement.coordinator_of(core.placement.shard_of(key), dialect)
        if node is None:
            text = "no node serves the group now: another one is about to"
            found.append(FoundCoordinator(key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=text))
        else:
            found.append(FoundCoordinator(key, node.node_id, node.host, node.port))
    core.outbox.send(ref, FindCoordinatorReply(tuple(found)))
