"""The leader's part of a rebalance: what there is to share out, who gets what, and looking whether that still holds
(consumer-client A4, A7). Followers share out nothing and watch nothing.
"""

from collections.abc import Set as AbstractSet

from muster.answers import MetadataAnswered
from muster.assignors import (
    RebalanceProtocol,
    Subscriber,
    UnsafeAssignment,
    by_name,
    verify_cooperative,
)
from muster.consumer_protocol import Assignment, Subscription, decode_subscription, encode_assignment
from muster.events import HangUp
from muster.member import Member, Timer
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.groups import JoinGroupMember, SyncGroupAssignment
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic

MISSING_TOPIC_REFRESH_MS = 1_000
"""How soon a leader looks again for a topic that was not there."""


def ask_metadata(m: Member) -> None:
    m.call(_question(m), timeout_ms=m.settings.request_timeout_ms, anywhere=True)


def _question(m: Member) -> Metadata:
    return Metadata(tuple(MetadataTopic(name) for name in _topics_of(m.roster)))


def _is_own(m: Member, event: MetadataAnswered) -> bool:
    """Whether it is the leader's question that was answered: nodes are asked about too."""
    return event.sent.message == _question(m)


def assign(m: Member, event: MetadataAnswered) -> None:
    """The leader shares out; members the assignor leaves out get nothing."""
    if not m.is_leader or m.plan is not None or not _is_own(m, event):
        return
    if event.reply is None:
        if event.error_code == ErrorCode.NETWORK_EXCEPTION:
            m.effects.append(HangUp(event.sent.node))  # somebody else may be there
        m.arm(Timer.RETRY, m.backoff_ms(m.join_failures))
        m.join_failures += 1
        return
    m.watched = _partition_counts(event.reply)
    subscribers = [_subscriber(one) for one in m.roster]
    assignor = by_name(m.protocol_name)
    shares = assignor.assign(m.watched, subscribers, _racks(event.reply))
    if m.settings.is_cooperative and RebalanceProtocol.COOPERATIVE in assignor.rebalance_protocols:
        try:
            verify_cooperative(assignor.name, subscribers, shares)
        except UnsafeAssignment as unsafe:
            m.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(unsafe))
            return
    m.plan = tuple(
        SyncGroupAssignment(one.member_id, encode_assignment(Assignment(tuple(shares.get(one.member_id, ())))))
        for one in m.roster
    )


def watch(m: Member, event: MetadataAnswered) -> None:
    """A leader rejoins when what it shared out is no longer what there is (A7, R3)."""
    if not m.is_leader or not _is_own(m, event):
        return
    if event.error_code == ErrorCode.NETWORK_EXCEPTION:
        m.effects.append(HangUp(event.sent.node))
    if event.reply is not None:
        counts = _partition_counts(event.reply)
        if m.watched is not None and counts != m.watched and not m.rejoin:
            m.rejoin = "the partitions of its topics changed"
        m.watched = counts
    arm_refresh(m)


def arm_refresh(m: Member) -> None:
    """Soon where a topic is missing, or where nothing was looked at yet; otherwise by the metadata's age."""
    if m.is_leader and m.roster:
        complete = m.watched is not None and all(topic in m.watched for topic in _topics_of(m.roster))
        m.arm(Timer.REFRESH, m.settings.metadata_max_age_ms if complete else MISSING_TOPIC_REFRESH_MS)


def _subscriber(one: JoinGroupMember) -> Subscriber:
    said = _said_by(one)
    return Subscriber(
        one.member_id,
        said.topics,
        one.group_instance_id,
        said.owned,
        said.generation_id,
        said.user_data,
        said.rack_id,
    )


def _said_by(one: JoinGroupMember) -> Subscription:
    try:
        return decode_subscription(one.metadata)
    except ProtocolViolation:
        return Subscription(())  # it gets nothing; the others are not made to suffer for it


def _topics_of(roster: tuple[JoinGroupMember, ...]) -> list[str]:
    return sorted({topic for one in roster for topic in _said_by(one).topics})


def _partition_counts(reply: MetadataReply) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in reply.topics if topic.name and topic.partitions}


def _racks(reply: MetadataReply) -> dict[str, list[AbstractSet[str]]]:
    """Of each partition, by number; nothing where nodes have none."""
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
