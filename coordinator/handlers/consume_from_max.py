"""Answer ConsumeFromMax."""

from coordinator.clock import Moment
from coordinator.core.admission import admit, admit_write
from coordinator.core.core import INTERNAL, Core
from coordinator.groups.client_balanced.events import Mark, Marked
from coordinator.runtime.outbox import Awaited
from protocol.errors import ErrorCode
from protocol.messages.balanced import AcceptedGroup, ConsumeFromMax, ConsumeFromMaxReply, RefusedGroup
from protocol.session import RequestRef


# --- operators ---
def consume_from_max(core: Core, ref: RequestRef, message: ConsumeFromMax, moment: Moment) -> None:
    """Mark each group by itself (docs/spec/client-balanced-groups.md#13.3)."""
    accepted, refused, awaited = [], [], Awaited()
    for group_id in dict.fromkeys(message.groups):
        marked = _mark(core, ref, group_id, message.actor, moment)
        if marked.error_code:
            refused.append(RefusedGroup(group_id, marked.error_code, marked.error_message))
        else:
            accepted.append(AcceptedGroup(group_id, marked.from_max_id))
            awaited.add_group(core.shard_of(group_id).outbox, group_id)
    awaited.hold(core.outbox, ref, ConsumeFromMaxReply(tuple(accepted), tuple(refused)))


def _origin(core: Core, ref: RequestRef) -> str:
    """Return the address that a request came from, by its connection."""
    return "HTTP" if ref.connection == INTERNAL else str(core.sender(ref))


def _mark(core: Core, ref: RequestRef, group_id: str, remark: str, moment: Moment) -> Marked:
    if error := admit(core, group_id, may_be_empty=True) or admit_write(core):
        return Marked(error, error.name)
    shard, group = core.find(group_id)
    if group is None:
        return Marked(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
    if group.balanced is None:
        return Marked(ErrorCode.INCONSISTENT_MODE, f"{group_id} is not a client-balanced group")
    answers = shard.run(group, Mark(ref, group_id, _origin(core, ref), remark), moment)
    verdicts = [one.reply for one in answers if isinstance(one.reply, Marked)]
    shard.outbox.deliver(group_id, [one for one in answers if not isinstance(one.reply, Marked)])
    return verdicts[0]
