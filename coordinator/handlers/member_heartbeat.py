"""Answer MemberHeartbeat."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.groups.client_balanced.events import Beat
from coordinator.groups.client_balanced.reporting import is_plain, keep_connection
from coordinator.groups.client_balanced.table import answer
from coordinator.handlers.client_balanced import refreshed
from coordinator.handlers.client_balanced_topics import places
from protocol.messages.balanced import MemberHeartbeat, MemberHeartbeatReply
from protocol.session import RequestRef


def member_heartbeat(core: Core, ref: RequestRef, message: MemberHeartbeat, found: Found, moment: Moment) -> None:
    """Keep the member alive; most heartbeats do nothing else (docs/spec/client-balanced-groups.md#11, #13)."""
    shard, kept = found.shard, found.group_or_new(message.group_id)
    group = refreshed(core, kept, moment)
    keep_connection(group, message, ref.connection)
    if is_plain(group, message):
        error = answer(group, message, moment.monotonic_ms)
        version = -1 if error else group.on_record.meta_version
        core.outbox.send(ref, MemberHeartbeatReply(error, meta_version=version))
        return
    known = places(core, shard, message.group_id, [one.key for one in message.released])
    shard.process(kept, Beat(ref, message, known), moment)
