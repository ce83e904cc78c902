"""Guards of the state table, in the order clients can observe (docs/spec/client-balanced-groups.md#6.1, #15.2). A guard
returns None if the check passes, else the error."""

from coordinator.groups.client_balanced.events import Mark, OfMember, Start
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedGroupMember
from coordinator.groups.table import Refusal
from protocol.errors import ErrorCode
from protocol.messages.balanced import StartMember

Answer = Refusal | None


def has_room(group: BalancedGroup, event: Start) -> Answer:
    """Check the limits on the size of a group."""
    if event.consumer_id in group.members or len(group.members) < group.max_size:
        return None
    return Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {len(group.members)} members, and may have no more"
    )


def is_not_replaced(group: BalancedGroup, event: Start | OfMember) -> Answer:
    """Refuse an object whose instance has been replaced: it must stop."""
    if event.consumer_id in group.on_record.replaced:
        return Refusal(ErrorCode.REPLACED_MEMBER, "a newer member has taken this one's instance_id")
    return None


def is_latest(group: BalancedGroup, event: Start) -> Answer:
    """Refuse a start that a later one of the same object has overtaken: it would take away newer grants."""
    member = group.members.get(event.consumer_id)
    attempt = event.request.attempt
    if member is None or attempt <= 0 or attempt > member.attempt:
        return None
    return Refusal(ErrorCode.BAD_REQUEST, f"attempt {attempt} comes after attempt {member.attempt}")


def has_same_mode(group: BalancedGroup, event: Start) -> Answer:
    """Check that the group is balanced as the request says, by members or by the coordinator: the first member decides
    it (docs/spec/client-balanced-groups.md#12)."""
    mode = group.on_record.mode
    if not group.members or mode == event.request.mode:
        return None
    return Refusal(ErrorCode.INCONSISTENT_MODE, f"the group is {mode}-balanced, until its last member is gone")


def balances_itself(group: BalancedGroup, event: Mark) -> Answer:
    """Check that members choose their partitions."""
    if not group.is_server_balanced:
        return None
    return Refusal(ErrorCode.INCONSISTENT_MODE, f"{group.group_id} is server-balanced, not client-balanced")


def has_same_topics(group: BalancedGroup, event: Start) -> Answer:
    """Check the topics: the first member decides them."""
    topics = group.on_record.topics
    if not group.members or topics == topics_of(event.request):
        return None
    return Refusal(ErrorCode.INCONSISTENT_TOPICS, f"the group reads {', '.join(topics)}")


def has_same_filters(group: BalancedGroup, event: Start) -> Answer:
    """Check the filters: the first member decides them."""
    filters = group.on_record.filters
    if not group.members or filters == filters_of(event.request):
        return None
    shown = "; ".join(f"{topic}: {', '.join(ones)}" for topic, ones in filters) or "without filters"
    return Refusal(ErrorCode.INCONSISTENT_FILTERS, f"the group reads {shown}")


def has_same_source_count(group: BalancedGroup, event: Start) -> Answer:
    """Check the number of sources: all members name the same, or none does."""
    wanted = group.on_record.source_count
    if not group.members or wanted == source_count_of(event.request):
        return None
    shown = "source_count is off" if wanted is None else f"source_count is {wanted}"
    return Refusal(ErrorCode.INCONSISTENT_SOURCE_COUNT, f"in this group {shown}, until its last member is gone")


def node_id_is_free(group: BalancedGroup, event: Start) -> Answer:
    """Check the member's number: two members of one number would read the same partitions. A request with the holder's
    instance_id replaces the holder."""
    if group.on_record.source_count is None or not group.members:
        return None
    holder = holder_of(group, event.request)
    if holder is None or holder is replaced_by(group, event.request):
        return None
    text = f"node_id {event.request.node_id} is held by {holder.consumer_id} at {holder.client_host.lstrip('/')}"
    return Refusal(ErrorCode.DUPLICATE_NODE_ID, text)


def is_member(group: BalancedGroup, event: OfMember) -> Answer:
    """Check that the request is from a member, and has the epoch of its last start."""
    member = group.members.get(event.consumer_id)
    if member is None or member.epoch != event.member_epoch:
        return Refusal(ErrorCode.NO_NODE, f"{event.consumer_id} is no member of this epoch; start again")
    return None


# --- fields of a StartMember, as they are compared and stored ---


def topics_of(request: StartMember) -> tuple[str, ...]:
    """Return the topics, each once, sorted."""
    return tuple(sorted(set(request.topics)))


def filters_of(request: StartMember) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the filters by topic, sorted; a topic without filters is left out."""
    filters = sorted(request.filters.items())
    return tuple((topic, tuple(sorted({one.strip() for one in ones}))) for topic, ones in filters if ones)


def source_count_of(request: StartMember) -> int | None:
    """Return the number of sources; None if members are not numbered."""
    return request.source_count if request.source_count > 0 else None


def node_id_of(request: StartMember) -> int | None:
    """Return the member's number; None if members are not numbered."""
    return request.node_id if request.source_count > 0 else None


def holder_of(group: BalancedGroup, request: StartMember) -> BalancedGroupMember | None:
    """Return another member with the number."""
    for member in group.members.values():
        if member.node_id == request.node_id and member.consumer_id != request.consumer_id:
            return member
    return None


def replaced_by(group: BalancedGroup, request: StartMember) -> BalancedGroupMember | None:
    """Return another member of the same instance and number: a restart of the instance replaces it."""
    if request.instance_id is None:
        return None
    for member in group.members.values():
        is_same = member.instance_id == request.instance_id and member.node_id == node_id_of(request)
        if is_same and member.consumer_id != request.consumer_id:
            return member
    return None
