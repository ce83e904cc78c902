"""Answer Heartbeat on the read-only path: it writes no record, except in a consumer group. Heartbeats that only extend
a session, of both protocols, are answered at once, without an event and its outcome."""

from typing import Final

from coordinator.clock import Moment
from coordinator.core.admission import admit
from coordinator.core.core import Connection, Core
from coordinator.groups.classic.table import answer
from coordinator.groups.consumer.classic_members.staying import is_sign_of_life
from coordinator.groups.consumer.events import ClassicBeat
from coordinator.handlers.consumer_group_heartbeat import idle_heartbeat
from coordinator.handlers.list_refusals import note_fenced
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.session import RequestRef

_REPLIES: Final = {error: HeartbeatReply(error) for error in ErrorCode}
HEARTBEAT_OK: Final = _REPLIES[ErrorCode.NONE]
HEARTBEATS: Final = (Heartbeat, ConsumerGroupHeartbeat)
_ACTIVE: Final = ShardState.ACTIVE


def answer_at_once(
    core: Core, connection: Connection, message: Heartbeat | ConsumerGroupHeartbeat, moment: Moment
) -> Message | None:
    """Return the reply to a heartbeat; None, with nothing done, if it must be served like any other request."""
    if isinstance(message, ConsumerGroupHeartbeat):
        return idle_heartbeat(core, connection, message, moment.monotonic_ms)
    reply = heartbeat(core, message, moment.monotonic_ms)
    if reply is not None and reply is not HEARTBEAT_OK and reply.error_code is ErrorCode.FENCED_INSTANCE_ID:
        note_fenced(core, connection.number, message, moment)
    return reply


def heartbeat(core: Core, message: Heartbeat, now_ms: int) -> HeartbeatReply | None:
    """Answer on the spot, without an outcome and a new reply (docs/spec/group-protocol.md#2.3).
    Return None where the answer is more: a classic member of a consumer group may have a step to take."""
    found = core.directory.get(message.group_id)
    if found is not None and found.shard.state is _ACTIVE:
        consumer = found.serving_consumer
        if consumer is not None:
            return HEARTBEAT_OK if is_sign_of_life(consumer, message, now_ms) else None
        error = answer(found.classic, message, now_ms)
    else:
        error = admit(core, message.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # a member must not leave because its coordinator is starting (docs/spec/group-protocol.md#0.3)
            error = ErrorCode.NONE
        elif not error:
            error = ErrorCode.UNKNOWN_MEMBER_ID
    return _REPLIES[error] if error else HEARTBEAT_OK


def heartbeat_request(core: Core, ref: RequestRef, message: Heartbeat, moment: Moment) -> None:
    """Answer a Heartbeat by the way of all other requests."""
    reply = heartbeat(core, message, moment.monotonic_ms)
    if reply is not None:
        core.outbox.send(ref, reply)
    else:
        group = core.directory[message.group_id]
        group.shard.process(group, ClassicBeat(ref, message), moment)
