"""Guards of the state table, in the order that clients can observe (docs/spec/consumer-group-protocol.md#2.3 to #2.5).
A guard returns None to let the event pass, or the error."""

from collections.abc import Sequence

from coordinator.groups.consumer.events import ConsumerAway, ConsumerBeat, ConsumerJoin, ConsumerLeave, MemberRequest
from coordinator.groups.consumer.regex import compile_pattern
from coordinator.groups.consumer.state import Assigned, ConsumerGroup, ConsumerMember
from coordinator.groups.table import Refusal
from coordinator.records.consumer_records import ReconciliationState
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import JOINING, LEAVING, LEAVING_FOR_NOW, ConsumerGroupHeartbeat
from protocol.regular_expression import InvalidPattern

Answer = Refusal | None


def has_room(group: ConsumerGroup, event: ConsumerJoin | ConsumerBeat) -> Answer:
    """Check the limit on the size of a group. A static member that replaces another does not count."""
    if event.member_id in group.members or len(group.members) < group.settings.max_size:
        return None
    holder = holder_of(group, event.instance_id) if isinstance(event, ConsumerJoin) else None
    if holder is not None and is_replaceable(holder):
        return None
    return Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {len(group.members)} members, and may have no more"
    )


def instance_is_free(group: ConsumerGroup, event: ConsumerJoin) -> Answer:
    """Refuse an instance id that a live member holds, even from that member
    (docs/spec/consumer-group-protocol.md#7.2)."""
    holder = holder_of(group, event.instance_id)
    if holder is None:
        return None
    if is_replaceable(holder):
        if holder.member_id == event.member_id or event.member_id not in group.members:
            return None
        text = f"{event.member_id} is in the group already, and cannot take the place of {holder.member_id} too"
        return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, text)
    text = f"{holder.member_id} at {holder.subscription.client_host.lstrip('/')} is alive under this instance id"
    return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, text)


def is_own_instance(group: ConsumerGroup, event: ConsumerBeat | ConsumerLeave | ConsumerAway) -> Answer:
    """Check that the instance id, if one is named, is the member's."""
    if event.instance_id is None:
        return None
    holder = holder_of(group, event.instance_id)
    if holder is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"instance {event.instance_id} is not in the group")
    if holder.member_id != event.member_id:
        text = f"instance {event.instance_id} is held by {holder.member_id}, not by {event.member_id}"
        return Refusal(ErrorCode.FENCED_INSTANCE_ID, text)
    return None


def is_member(group: ConsumerGroup, event: MemberRequest) -> Answer:
    """Check that the request is of a member."""
    if event.member_id in group.members:
        return None
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{event.member_id} is not in the group; join again with epoch 0")


def is_current_epoch(group: ConsumerGroup, event: ConsumerBeat) -> Answer:
    """Check the member epoch: the current one, or the previous one if the reply with the current one was probably lost
    (docs/spec/consumer-group-protocol.md#2.5)."""
    current, request = group.members[event.member_id].current, event.request
    if request.member_epoch == current.epoch:
        is_accepted = True
    else:
        is_previous = request.member_epoch == current.previous_epoch and request.member_epoch < current.epoch
        is_accepted = is_previous and _owns_only(current.assigned, request)
    if not is_accepted:
        text = f"member epoch {request.member_epoch} is not {current.epoch}; give up all partitions and join again"
        return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, text)
    if current.state is ReconciliationState.UNKNOWN and request.topic_partitions != ():
        return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, "the member is in a state that this version does not know")
    return None


def _owns_only(assigned: Assigned, request: ConsumerGroupHeartbeat) -> bool:
    if request.topic_partitions is None:
        return False
    return all(
        one.topic_id in assigned and assigned[one.topic_id].keys() >= set(one.partitions)
        for one in request.topic_partitions
    )


def pattern_is_valid(group: ConsumerGroup, event: ConsumerJoin | ConsumerBeat) -> Answer:
    """Compile a regular expression that no member has yet."""
    regex = event.request.subscribed_topic_regex
    if not regex or regex in group.regexes:
        return None
    try:
        compile_pattern(regex)
    except InvalidPattern as error:
        return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, f"the regular expression is not valid: {error}")
    return None


def holder_of(group: ConsumerGroup, instance_id: str | None) -> ConsumerMember | None:
    """Return the member with the instance id."""
    member_id = group.static_members.get(instance_id) if instance_id is not None else None
    return None if member_id is None else group.members[member_id]


def is_replaceable(holder: ConsumerMember) -> bool:
    """Return true if a join with the member's instance id takes its place."""
    return holder.is_away or holder.is_classic


# --- validation of a request without its group (docs/spec/consumer-group-protocol.md#2.2) ---


def refuse_invalid(request: ConsumerGroupHeartbeat, assignors: Sequence[str]) -> Refusal | None:
    """Return the error of a request that no group would accept; the first failure wins. `assignors`: names
    in the configuration."""
    text = _invalid(request)
    if text:
        return Refusal(ErrorCode.INVALID_REQUEST, text)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        text = f"server assignor {request.server_assignor!r} is unknown; there are {', '.join(assignors)}"
        return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
    return None


def _invalid(request: ConsumerGroupHeartbeat) -> str:
    epoch = request.member_epoch
    if not request.may_lack_member_id and _is_blank(request.member_id):
        return "MemberId can't be empty"
    if _is_blank(request.group_id):
        return "GroupId can't be empty"
    if request.instance_id is not None and _is_blank(request.instance_id):
        return "InstanceId can't be empty"
    if request.rack_id is not None and _is_blank(request.rack_id):
        return "RackId can't be empty"
    if epoch == JOINING:
        return _invalid_join(request)
    if epoch == LEAVING_FOR_NOW:
        is_static = request.instance_id is not None
        return "" if is_static else "InstanceId can't be null: only a static member leaves for a while"
    if not request.member_id:
        return "MemberId can't be empty"
    return "MemberEpoch is invalid" if epoch < min(LEAVING, LEAVING_FOR_NOW) else ""


def _invalid_join(request: ConsumerGroupHeartbeat) -> str:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in the first request"
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty in the first request"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "SubscribedTopicNames or SubscribedTopicRegex must be provided in the first request"
    return ""


def _is_blank(text: str) -> bool:
    return not text or text.isspace()
