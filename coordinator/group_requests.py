"""Who answers the messages about groups: gate, find the group, hand its event to the shard."""

from msgspec.structs import replace

from coordinator.core import Core
from coordinator.gates import gate, join_gate, shard_gate, sync_gate, write_gate
from coordinator.groups.classic.events import Deleted, GroupDeleted, Leave, OwnershipEnded, Sync, joined
from coordinator.groups.classic.state import Group
from coordinator.groups.classic.table import answer
from coordinator.moment import Moment
from coordinator.shard import Ran, Shard, ShardState
from coordinator.views import describe_balanced_group, describe_group, list_group
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsReply,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    LeftMember,
    ListGroups,
    ListGroupsReply,
    ListNotes,
    ListNotesReply,
    SyncGroup,
    SyncGroupReply,
)
from protocol.session import RequestRef

HEARTBEAT_OK = HeartbeatReply()

GROUP_OPERATIONS = 3400
"""Operations that everybody may do on a group where there is no authorizer, as Kafka's bit field: read, delete,
describe, describe and alter configs."""

_FORGETS_MEMBER_ID = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
"""With these a refused JoinGroup does not echo its member id (group-protocol 0.3)."""


def join_group(core: Core, ref: RequestRef, message: JoinGroup, moment: Moment) -> None:
    """Become, or stay, a member (group-protocol 2.1)."""
    refused = join_gate(core, message)
    shard, group = core.find(message.group_id)
    if not refused and shard.is_balanced(message.group_id):
        refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # one mode a group (client-balanced-groups 12)
    if not refused and group is None:
        if message.member_id:
            refused = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            found = _create(core, shard, message.group_id, moment)
            if isinstance(found, ErrorCode):
                refused = found
            else:
                group = found
    if refused or group is None:
        kept = "" if refused in _FORGETS_MEMBER_ID else message.member_id
        core.outbox.send(ref, JoinGroupReply(error_code=refused, member_id=kept))
        return
    if group.owners is not None and message.member_id in group.members and group.owners.of(message.member_id):
        # Who joins has stopped reading: this ends what a release that was lost did not (consumer-client E3).
        shard.process(group, OwnershipEnded(group.group_id, message.member_id), moment)
    shard.process(group, joined(group, ref, message, core.client(ref.connection)), moment)


def _create(core: Core, shard: Shard, group_id: str, moment: Moment) -> Group | ErrorCode:
    if core.count_groups() >= core.config.max_groups:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return write_gate(core) or shard.create(group_id, moment)


def sync_group(core: Core, ref: RequestRef, message: SyncGroup, moment: Moment) -> None:
    """Fetch, or as leader bring, the assignments of a generation (2.2)."""
    refused = sync_gate(core, message)
    shard, group = core.find(message.group_id)
    if not refused and group is None:
        refused = ErrorCode.UNKNOWN_MEMBER_ID
    if refused or group is None:
        core.outbox.send(ref, SyncGroupReply(error_code=refused))
        return
    shard.process(group, Sync(ref, message), moment)


def heartbeat(core: Core, message: Heartbeat, now_ms: int) -> HeartbeatReply:
    """Quiet: answered on the spot, with nothing made but an error's reply (2.3)."""
    found = core.directory.get(message.group_id)
    if found is not None and found[0].state is ShardState.ACTIVE:
        error = answer(found[1], message, now_ms)
    else:
        error = gate(core, message.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE  # a member must not leave because its coordinator is starting (0.3)
        elif not error:
            error = ErrorCode.UNKNOWN_MEMBER_ID
    return HeartbeatReply(error) if error else HEARTBEAT_OK


def heartbeat_request(core: Core, ref: RequestRef, message: Heartbeat, moment: Moment) -> None:
    """The same, by the way all other requests go."""
    core.outbox.send(ref, heartbeat(core, message, moment.monotonic_ms))


def leave_group(core: Core, ref: RequestRef, message: LeaveGroup, moment: Moment) -> None:
    """Members go (2.4)."""
    refused = gate(core, message.group_id)
    shard, group = core.find(message.group_id)
    if refused:
        core.outbox.send(ref, LeaveGroupReply(error_code=refused))
    elif group is None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        left = tuple(LeftMember(entry.member_id, entry.group_instance_id, unknown) for entry in message.members)
        core.outbox.send(ref, LeaveGroupReply(members=left))
    else:
        shard.process(group, Leave(ref, message), moment)


def describe_groups(core: Core, ref: RequestRef, message: DescribeGroups, moment: Moment) -> None:
    """What the groups are like now; waits for the last record of each, so that no crash can undo what was told
    (2.8)."""
    described, position = [], 0
    listed, most = 0, core.config.max_entries_per_request
    for group_id in message.groups:
        refused = gate(core, group_id, may_be_empty=True)
        shard, group = core.find(group_id)
        if not refused and listed >= most:
            refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED  # who asks for many large groups asks again for the rest
        if refused:
            described.append(DescribedGroup(group_id, error_code=refused))
        else:
            described.append(_describe(shard, group_id, group, message))
            listed += len(described[-1].members)
            position = max(position, shard.position_of(group_id))
    core.outbox.hold(position, ref, DescribeGroupsReply(tuple(described)))


def _describe(shard: Shard, group_id: str, group: Group | None, message: DescribeGroups) -> DescribedGroup:
    if group is not None and shard.is_balanced(group_id):
        described = describe_balanced_group(shard.balanced[group_id], group, shard.index)
    else:
        described = describe_group(group_id, group, shard.index, message.absent_is_error)
    if message.include_authorized_operations and not described.error_code:
        return replace(described, authorized_operations=GROUP_OPERATIONS)
    return described


def list_groups(core: Core, ref: RequestRef, message: ListGroups, moment: Moment) -> None:
    """All groups of this node that pass the filters (2.9)."""
    refusals = [refused for shard in core.shards if (refused := shard_gate(core, shard))]
    if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in refusals:
        core.outbox.send(ref, ListGroupsReply(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    states = {state.strip().lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    listed = (
        list_group(group, shard.balanced.get(group.group_id))
        for shard in core.shards
        for group in shard.groups.values()
    )
    groups = tuple(
        line
        for line in listed
        if (not states or line.group_state.lower() in states) and (not types or line.group_type in types)
    )
    core.outbox.hold(core.store.position, ref, ListGroupsReply(groups=groups))


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
    refused = gate(core, group_id, may_be_empty=True) or write_gate(core)
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


def list_notes(core: Core, ref: RequestRef, message: ListNotes, moment: Moment) -> None:
    """Why the group rebalanced. A group that is gone may still have notes."""
    refused = gate(core, message.group_id, may_be_empty=True)
    core.outbox.send(ref, ListNotesReply(error_code=refused) if refused else core.journal.list(message))
