"""Groups whose members are balanced by the coordinator (KIP-848, docs/spec/consumer-group-protocol.md#2, #11.1)."""

from protocol.errors import ErrorCode
from protocol.messages import GroupId, Int32, Message, Text
from protocol.messages.groups import OPERATIONS_NOT_REQUESTED

JOINING: int = 0
"""Member epoch of a request to join."""
LEAVING: int = -1
LEAVING_FOR_NOW: int = -2
"""Member epoch of a static member that leaves temporarily."""


class TopicIdPartitions(Message):
    """Partitions of a topic, which is given by its id."""

    topic_id: bytes
    partitions: tuple[Int32, ...]


class ConsumerGroupHeartbeat(Message):
    """Join a group, stay in it, or leave it, by the member epoch. None, and a rebalance timeout of -1, mean the
    member's last value. `may_lack_member_id`: version 0, in which the coordinator makes the ids of members."""

    group_id: GroupId
    member_id: Text = ""
    member_epoch: Int32 = JOINING
    instance_id: Text | None = None
    rack_id: Text | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[Text, ...] | None = None
    subscribed_topic_regex: Text | None = None
    server_assignor: Text | None = None
    topic_partitions: tuple[TopicIdPartitions, ...] | None = None
    may_lack_member_id: bool = False


class MemberAssignment(Message):
    """All partitions that a member may use."""

    topic_partitions: tuple[TopicIdPartitions, ...] = ()


class ConsumerGroupHeartbeatReply(Message):
    """Reply to ConsumerGroupHeartbeat. `assignment` None: unchanged."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: MemberAssignment | None = None
    throttle_time_ms: int = 0


class AssignmentChanged(Message):
    """Pushed to a member whose next heartbeat will return a new target, or a part of it that has become free."""

    group_id: str
    group_epoch: int


class ConsumerGroupDescribe(Message):
    group_ids: tuple[GroupId, ...]
    include_authorized_operations: bool = False


class DescribedTopicPartitions(Message):
    topic_id: bytes
    topic_name: str
    partitions: tuple[int, ...]


class DescribedAssignment(Message):
    topic_partitions: tuple[DescribedTopicPartitions, ...] = ()


CLASSIC_MEMBER: int = 0
CONSUMER_MEMBER: int = 1
UNKNOWN_MEMBER: int = -1
GROUP_PROTOCOLS: dict[int, str] = {CLASSIC_MEMBER: "classic", CONSUMER_MEMBER: "consumer"}
"""The client's `group.protocol`, by the type of member."""


class DescribedConsumer(Message):
    """Description of a member. `assignment` includes partitions that it has yet to revoke. `member_type`: the protocol
    that it uses."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: DescribedAssignment = DescribedAssignment()
    target_assignment: DescribedAssignment = DescribedAssignment()
    member_type: int = UNKNOWN_MEMBER


class DescribedConsumerGroup(Message):
    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedConsumer, ...] = ()
    authorized_operations: int = OPERATIONS_NOT_REQUESTED


class ConsumerGroupDescribeReply(Message):
    groups: tuple[DescribedConsumerGroup, ...] = ()
    throttle_time_ms: int = 0
