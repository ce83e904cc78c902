"""Answer ConsumeFromMax."""

from coordinator.clock import Moment
from coordinator.groups.client_balanced.events import Mark, Marked
from coordinator.handlers.admission import admit, admit_write
from coordinator.handlers.core import INTERNAL, Core
from coordinator.runtime.shard import Ran
from protocol.errors import ErrorCode
from protocol.messages.balanced import AcceptedGroup, ConsumeFromMax, ConsumeFromMaxReply, RefusedGroup
from protocol.session import RequestRef


# --- operators ---
def consume_from_max(core: Core, ref: RequestRef, message: ConsumeFromMax, moment: Moment) -> None:
    """Each group by itself (docs/spec/client-balanced-groups.md#13.3)."""
    accepted, refused, position = [], [], 0
    for group_id in dict.fromkeys(message.groups):
        marked, at = _mark(core, ref, group_id, message.actor, moment)
        if marked.error_code:
            refused.append(RefusedGroup(group_id, marked.error_code, marked.error_message))
        else:
            accepted.append(AcceptedGroup(group_id, marked.from_max_id))
            position = max(position, at)
    core.outbox.hold(position, ref, ConsumeFromMaxReply(tuple(accepted), tuple(refused)))


def _origin(core: Core, ref: RequestRef) -> str:
    """Where a request came from, whatever it says of itself."""
    return "HTTP" if ref.connection == INTERNAL else str(core.client(ref.connection))


def _mark(core: Core, ref: RequestRef, group_id: str, remark: str, moment: Moment) -> tuple[Marked, int]:
    if error := admit(core, group_id, may_be_empty=True) or admit_write(core):
        return Marked(error, error.name), 0
    shard = core.shard_of(group_id)
    group = shard.balanced.get(group_id)
    if group is None:
        if group_id not in shard.groups:
            return Marked(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}"), 0
        return Marked(ErrorCode.INCONSISTENT_MODE, f"{group_id} is not a client-balanced group"), 0
    ran = shard.run(group, Mark(ref, group_id, _origin(core, ref), remark), moment)
    verdicts = [one.reply for one in ran.answers if isinstance(one.reply, Marked)]
    shard.deliver(Ran([one for one in ran.answers if not isinstance(one.reply, Marked)], ran.position))
    return verdicts[0], ran.position
