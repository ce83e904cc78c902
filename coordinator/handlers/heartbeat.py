"""Answer Heartbeat, on the spot: it changes nothing that lasts."""

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
    """Quiet: answered on the spot, with nothing made but an error's reply (docs/spec/group-protocol.md#2.3)."""
    found = core.directory.get(message.group_id)
    if found is not None and found[0].state is ShardState.ACTIVE:
        error = answer(found[1], message, now_ms)
    else:
        error = admit(core, message.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # a member must not leave because its coordinator is starting (docs/spec/group-protocol.md#0.3)
            error = ErrorCode.NONE
        elif not error:
            error = ErrorCode.UNKNOWN_MEMBER_ID
    return HeartbeatReply(error) if error else HEARTBEAT_OK


def heartbeat_request(core: Core, ref: RequestRef, message: Heartbeat, moment: Moment) -> None:
    """The same, by the way all other requests go."""
    core.outbox.send(ref, heartbeat(core, message, moment.monotonic_ms))
