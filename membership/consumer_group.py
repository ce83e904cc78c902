"""The group protocol of consumers: members send their subscriptions, and the leader's assignor decides
(docs/spec/group-protocol.md#6). Other protocol types have a `GroupProtocol` of their own.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from membership.assignors import RebalanceProtocol, Subscriber, by_name, verify_cooperative
from membership.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerAssignment,
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from membership.member import MemberState
from membership.topic_partition import TopicPartition
from protocol.errors import ProtocolViolation
from protocol.messages.groups import JoinGroupMember
from protocol.messages.topics import MetadataReply


class ConsumerProtocol:
    """Group protocol of type `consumer`; it has no state of its own."""

    protocol_type = PROTOCOL_TYPE

    def offered(self, m: MemberState) -> tuple[str, ...]:
        return m.settings.assignors

    def encode_subscription(self, m: MemberState, protocol: str) -> bytes:
        """Encode the topics and, for sticky assignors, the partitions that the member owns."""
        user_data = by_name(protocol).user_data(m.last_assigned, m.last_generation_id)
        return encode_subscription(
            ConsumerSubscription(m.topics, user_data, m.held, m.generation_id, m.settings.rack_id)
        )

    def topics_of(self, metadata: bytes) -> tuple[str, ...]:
        return _read(metadata).topics

    def assign(self, m: MemberState, partition_counts: Mapping[str, int], reply: MetadataReply) -> Mapping[str, bytes]:
        subscribers = [subscriber_of(one) for one in m.roster]
        assignor = by_name(m.protocol_name)
        shares = assignor.assign(partition_counts, subscribers, racks_of(reply))
        if m.settings.is_cooperative and RebalanceProtocol.COOPERATIVE in assignor.rebalance_protocols:
            verify_cooperative(assignor.name, subscribers, shares)
        return {who: encode_assignment(ConsumerAssignment(tuple(share))) for who, share in shares.items()}

    def encode_nothing(self) -> bytes:
        return encode_assignment(ConsumerAssignment())

    def decode_assignment(self, assignment: bytes) -> tuple[TopicPartition, ...]:
        return decode_assignment(assignment).partitions


def _read(metadata: bytes) -> ConsumerSubscription:
    try:
        return decode_subscription(metadata)
    except ProtocolViolation:
        return ConsumerSubscription(())  # it gets no partitions; the other members are not affected


def subscriber_of(one: JoinGroupMember) -> Subscriber:
    """Decode the subscription of a member that joined; if it is invalid, the member subscribes to no topic."""
    said = _read(one.metadata)
    return Subscriber(
        one.member_id,
        said.topics,
        one.group_instance_id,
        said.owned,
        said.generation_id,
        said.user_data,
        said.rack_id,
    )


def racks_of(reply: MetadataReply) -> dict[str, list[AbstractSet[str]]]:
    """Return the racks of each partition, by number; none for nodes without a rack."""
    of_node = {node.node_id: node.rack for node in reply.brokers if node.rack}
    if not of_node:
        return {}
    return {
        topic.name: [
            {of_node[node] for node in one.replica_nodes if node in of_node}
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        ]
        for topic in reply.topics
        if topic.name
    }
