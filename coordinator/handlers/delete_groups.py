"""Answer DeleteGroups."""

from coordinator.clock import Moment
from coordinator.groups.classic.events import Deleted, GroupDeleted
from coordinator.handlers.admission import admit, admit_write
from coordinator.handlers.core import Core
from coordinator.runtime.shard import Ran
from protocol.errors import ErrorCode
from protocol.messages.groups import DeletedGroup, DeleteGroups, DeleteGroupsReply
from protocol.session import RequestRef


def delete_groups(core: Core, ref: RequestRef, message: DeleteGroups, moment: Moment) -> None:
    """Each group by itself; duplicates collapse (2.10)."""
    results, position = [], 0
    forgotten, most = 0, core.config.max_entries_per_request
    for group_id in dict.fromkeys(message.groups_names):
        if forgotten >= most:
            results.append(DeletedGroup(group_id, ErrorCode.THROTTLING_QUOTA_EXCEEDED))
            continue
        forgotten += core.shard_of(group_id).offsets.count_of(group_id)
        error, at = _delete(core, ref, group_id, moment)
        results.append(DeletedGroup(group_id, error))
        position = max(position, at)
    core.outbox.hold(position, ref, DeleteGroupsReply(tuple(results)))


def _delete(core: Core, ref: RequestRef, group_id: str, moment: Moment) -> tuple[ErrorCode, int]:
    refused = admit(core, group_id, may_be_empty=True) or admit_write(core)
    shard, group = core.find(group_id)
    if refused or group is None:
        return refused or ErrorCode.GROUP_ID_NOT_FOUND, 0
    if shard.is_balanced(group_id):
        return ErrorCode.NON_EMPTY_GROUP, shard.position_of(group_id)
    ran = shard.run(group, Deleted(ref, group_id, tuple(shard.offsets.partitions(group_id))), moment)
    verdicts = [answer.reply for answer in ran.answers if isinstance(answer.reply, GroupDeleted)]
    others = [answer for answer in ran.answers if not isinstance(answer.reply, GroupDeleted)]
    shard.deliver(Ran(others, ran.position))
    return verdicts[0].error_code, ran.position
