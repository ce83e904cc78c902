"""Answer FindCoordinator."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID
from protocol.messages.node import FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.session import RequestRef

_GROUP_KEY, _TRANSACTION_KEY = 0, 1


def find_coordinator(core: Core, ref: RequestRef, message: FindCoordinator, moment: Moment) -> None:
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
