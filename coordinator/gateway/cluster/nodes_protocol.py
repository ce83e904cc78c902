"""The group protocol of nodes: that of consumers with a cooperative, sticky assignor, so that Kafka's tools show the
owner of each shard. The user data carries facts about nodes.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from coordinator.cluster_node.nodes import NOBODY
from coordinator.gateway.cluster.readiness import Readiness
from coordinator.gateway.cluster.user_data import (
    Candidate,
    OwnerTable,
    decode_candidate,
    decode_table,
    encode_candidate,
    encode_table,
)
from membership.assignors import Assignment, Subscriber, assign_cooperative_sticky
from membership.consumer_group import ConsumerProtocol, subscriber_of
from membership.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from membership.member import MemberState
from membership.topic_partition import TopicPartition
from protocol.messages.topics import MetadataReply


class NodesProtocol(ConsumerProtocol):
    """Group protocol of one node. `table` is that of the newest assignment; None if it had no table that can be
    read."""

    def __init__(self, topic: str, me: Candidate, readiness: Readiness) -> None:
        self.table: OwnerTable | None = None
        self._readiness = readiness
        self._topic = topic
        self._me = me

    def encode_subscription(self, m: MemberState, protocol: str) -> bytes:
        """Encode the shards of the node, and its identity."""
        user_data = encode_candidate(replace(self._me, is_ready=self._readiness.is_ready), m.last_generation_id)
        return encode_subscription(ConsumerSubscription(m.topics, user_data, m.held, m.generation_id))

    def assign(self, m: MemberState, partition_counts: Mapping[str, int], reply: MetadataReply) -> Mapping[str, bytes]:
        """Assign the shards to the nodes, one node for each id, and send every member the whole table."""
        nodes = _one_of_each_id([subscriber_of(one) for one in m.roster])
        living = {subscriber.member_id: candidate for subscriber, candidate in nodes}
        sharing, waiting = _who_shares(nodes)
        shares = assign_cooperative_sticky(partition_counts, sharing)
        # A shard that a node must hand over has no owner in this round: clients wait until a coordinator is named, but
        # give up on a coordinator that does not serve yet.
        owners = {one: member_id for member_id, share in shares.items() for one in share}
        heirs = _heirs(partition_counts, sharing, waiting, shares)
        places = [TopicPartition(self._topic, index) for index in range(partition_counts.get(self._topic, 0))]

        def ids_of(found: Mapping[TopicPartition, str]) -> tuple[int, ...]:
            return tuple(living[found[one]].node.node_id if one in found else NOBODY for one in places)

        awaited = _awaited(partition_counts, _holding(sharing, shares), waiting)
        awaited_by_id = {living[member_id].node.node_id: found for member_id, found in awaited.items()}
        user_data = encode_table(OwnerTable(tuple(living.values()), ids_of(owners), ids_of(heirs), awaited_by_id))
        return {
            one.member_id: encode_assignment(ConsumerAssignment(tuple(shares.get(one.member_id, ())), user_data))
            for one in m.roster
        }

    def decode_assignment(self, assignment: bytes) -> tuple[TopicPartition, ...]:
        read = decode_assignment(assignment)
        self.table = decode_table(read.user_data)
        return read.partitions


def _one_of_each_id(members: Sequence[Subscriber]) -> list[tuple[Subscriber, Candidate]]:
    """Return the members that are nodes. Of several nodes with one id, only the one that was in the newest generation
    is returned, or else the oldest."""
    found: dict[int, tuple[Subscriber, Candidate]] = {}
    for one in members:
        candidate = decode_candidate(one.user_data)
        if candidate is None:
            continue
        rival = found.get(candidate.node.node_id)
        if rival is None or _precedence(one, candidate) < _precedence(*rival):
            found[candidate.node.node_id] = one, candidate
    return [found[node_id] for node_id in sorted(found)]


def _precedence(one: Subscriber, candidate: Candidate) -> tuple[int, str]:
    return -one.generation_id, candidate.incarnation


def _holding(subscribers: Iterable[Subscriber], shares: Assignment) -> list[Subscriber]:
    """Return the members as they would join if each had exactly its share."""
    return [replace(one, owned=tuple(shares[one.member_id])) for one in subscribers]


def _who_shares(nodes: Sequence[tuple[Subscriber, Candidate]]) -> tuple[list[Subscriber], list[Subscriber]]:
    """Return the nodes among which shards are balanced, and those that wait until they are ready: a node serves no
    shard before it has read its log, which the present owner serves meanwhile. Nodes that own shards take part; if none
    of these is ready, all do, since then nobody serves."""
    sharing = [one for one, candidate in nodes if candidate.is_ready or one.owned]
    if not any(candidate.is_ready for _, candidate in nodes):
        sharing = [one for one, _ in nodes]
    return sharing, [one for one, _ in nodes if one not in sharing]


def _awaited(
    counts: Mapping[str, int], sharing: Sequence[Subscriber], waiting: Sequence[Subscriber]
) -> dict[str, tuple[int, ...]]:
    """Return the shards that each waiting member would be given if it were ready alone, or all of them were."""
    together = _in_the_end(counts, [*sharing, *waiting])
    found: dict[str, tuple[int, ...]] = {}
    for one in waiting:
        alone = _in_the_end(counts, [*sharing, one]) if len(waiting) > 1 else together
        shards = {place.partition for shares in (alone, together) for place in shares[one.member_id]}
        found[one.member_id] = tuple(sorted(shards))
    return found


def _in_the_end(counts: Mapping[str, int], members: Sequence[Subscriber]) -> Assignment:
    """Return the assignment once the members have handed over what they must."""
    kept = assign_cooperative_sticky(counts, members)
    return assign_cooperative_sticky(counts, _holding(members, kept))


def _heirs(
    counts: Mapping[str, int], sharing: Sequence[Subscriber], waiting: Sequence[Subscriber], shares: Assignment
) -> dict[TopicPartition, str]:
    """Return the node that the assignor would give each partition if its owner died."""
    heirs: dict[TopicPartition, str] = {}
    for gone in sharing:
        orphans = set(shares[gone.member_id])
        left = _holding((one for one in sharing if one is not gone), shares) or waiting
        for member_id, share in assign_cooperative_sticky(counts, left).items():
            heirs.update((one, member_id) for one in share if one in orphans)
    return heirs
