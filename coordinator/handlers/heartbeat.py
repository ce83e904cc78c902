"""Answer Heartbeat on the read-only path: it changes nothing that lasts."""

from coordinator.clock import Moment
from coordinator.groups.classic.table import answer
from coordinator.handlers.admission import admit
from coordinator.handlers.core import Core
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.session import RequestRef

HEARTBEAT_OK = HeartbeatReply()


def heartbeat(core: Core, message: Heartbeat, now_ms: int) -> HeartbeatReply:
    """Answer on the spot, without an outcome; only an error makes a reply object (docs/spec/group-protocol.md#2.3)."""
    found = core.directory.get(message.group_id)
    if found is not None and found.shard.state is ShardState.ACTIVE:
        error = answer(found.classic, message, now_ms)
    else:
        error = admit(core, message.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # a member must not leave because its coordinator is starting (docs/spec/group-protocol.md#0.3)
            error = ErrorCode.NONE
        elif not error:
            error = ErrorCode.UNKNOWN_MEMBER_ID
    return HeartbeatReply(error) if error else HEARTBEAT_OK


def heartbeat_request(core: Core, ref: RequestRef, message: Heartbeat, moment: Moment) -> None:
    """Answer a Heartbeat by the way of all other requests."""
    core.outbox.send(ref, heartbeat(core, message, moment.monotonic_ms))
