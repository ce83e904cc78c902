"""Guards of requests of classic members, in the order clients can observe (docs/spec/consumer-group-protocol.md#12)."""

from coordinator.config.keys import MigrationPolicy
from coordinator.groups.consumer.classic_members.protocols import first_protocol
from coordinator.groups.consumer.events import ClassicBeat, ClassicJoin, ClassicSync
from coordinator.groups.consumer.guards import Answer, holder_of
from coordinator.groups.consumer.state import ConsumerGroup
from coordinator.groups.table import Refusal
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from protocol.errors import ErrorCode, ProtocolViolation

FromMember = ClassicSync | ClassicBeat


def may_be_mixed(group: ConsumerGroup, event: ClassicJoin) -> Answer:
    """Refuse classic members if the configuration does not allow them."""
    if group.settings.migration_policy is not MigrationPolicy.DISABLED:
        return None
    return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def has_room(group: ConsumerGroup, event: ClassicJoin) -> Answer:
    """Check the limit on the size of a group. A static member that replaces another does not count."""
    is_replacing = not event.member_id and holder_of(group, event.instance_id) is not None
    if event.member_id in group.members or is_replacing or len(group.members) < group.settings.max_size:
        return None
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED)


def protocols_agree(group: ConsumerGroup, event: ClassicJoin) -> Answer:
    """Check that the member is a consumer, and offers an assignor that all classic members offer: they may form a
    classic group later."""
    request, names = event.request, {one.name for one in event.request.protocols}
    if request.protocol_type != PROTOCOL_TYPE or not names or len(names) < len(request.protocols):
        return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not any(group.offers[name] == group.classic_members for name in names):
        return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return None


def has_member_id(group: ConsumerGroup, event: ClassicJoin) -> Answer:
    """Ask a new dynamic member of the newer versions to join again with a member id."""
    request = event.request
    if request.member_id or request.group_instance_id is not None or not request.wants_member_id_first:
        return None
    return Refusal(ErrorCode.MEMBER_ID_REQUIRED)


def is_own_instance(group: ConsumerGroup, event: ClassicJoin | FromMember) -> Answer:
    """Check that an instance id is the member's. A join without a member id replaces the instance's member."""
    if event.instance_id is None or (isinstance(event, ClassicJoin) and not event.member_id):
        return None
    holder = holder_of(group, event.instance_id)
    if holder is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    return None if holder.member_id == event.member_id else Refusal(ErrorCode.FENCED_INSTANCE_ID)


def subscription_is_readable(group: ConsumerGroup, event: ClassicJoin) -> Answer:
    """Read the subscription of the first protocol."""
    try:
        decode_subscription(event.request.protocols[0].metadata)
    except ProtocolViolation:
        return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return None


def is_not_a_former_member(group: ConsumerGroup, event: ClassicJoin) -> Answer:
    """Refuse an unknown id whose subscription has owned partitions: the member was removed, other members may own them,
    and a cooperative client would keep them until its SyncGroup is answered. After this error it gives them up."""
    if not event.member_id or event.member_id in group.members:
        return None
    subscription = decode_subscription(event.request.protocols[0].metadata)
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID) if subscription.owned_partitions else None


def is_classic_member(group: ConsumerGroup, event: FromMember) -> Answer:
    """Check that the request is of a classic member."""
    member = group.members.get(event.member_id)
    return None if member is not None and member.is_classic else Refusal(ErrorCode.UNKNOWN_MEMBER_ID)


def is_current_generation(group: ConsumerGroup, event: FromMember) -> Answer:
    """Check the generation, which is the member's epoch."""
    is_current = event.request.generation_id == group.members[event.member_id].current.epoch
    return None if is_current else Refusal(ErrorCode.ILLEGAL_GENERATION)


def is_same_protocol(group: ConsumerGroup, event: ClassicSync) -> Answer:
    """Check protocol type and name, if the request names them."""
    request = event.request
    protocol = first_protocol(group.members[event.member_id].subscription)
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol):
        return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return None
