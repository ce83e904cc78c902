"""The leader's part of a rebalance: metadata of topics, assignment, and checks for changed metadata
(docs/spec/consumer-client.md#A4, #A7). Other members run none of it.
"""

from membership.errors import CannotShareOut
from membership.events import HangUp
from membership.member import MemberState, Timer
from membership.replies import MetadataAnswered
from protocol.errors import ErrorCode
from protocol.messages.groups import SyncGroupAssignment
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic

MISSING_TOPIC_REFRESH_MS = 1_000
"""Interval at which a leader refreshes the metadata of a missing topic."""


def ask_metadata(m: MemberState) -> None:
    m.call(_question(m), timeout_ms=m.settings.request_timeout_ms, anywhere=True)


def _question(m: MemberState) -> Metadata:
    return Metadata(tuple(MetadataTopic(name) for name in _topics_of(m)))


def _is_own(m: MemberState, event: MetadataAnswered) -> bool:
    """Return true for the reply to the leader's own request: Metadata is also requested for nodes."""
    return event.sent.message == _question(m)


def assign(m: MemberState, event: MetadataAnswered) -> None:
    """Assign the partitions; members that the assignor leaves out get none."""
    if not m.is_leader or m.plan is not None or not _is_own(m, event):
        return
    if event.reply is None:
        if event.error_code == ErrorCode.NETWORK_EXCEPTION:
            m.effects.append(HangUp(event.sent.node))  # so that another node answers the next request
        m.arm(Timer.RETRY, m.backoff_ms(m.join_failures))
        m.join_failures += 1
        return
    m.watched = _partition_counts(event.reply)
    try:
        shares = m.kind.assign(m, m.watched, event.reply)
    except CannotShareOut as unsafe:
        m.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {m.settings.group_id}: {unsafe}")
        return
    left_out = m.kind.encode_nothing()
    m.plan = tuple(SyncGroupAssignment(one.member_id, shares.get(one.member_id, left_out)) for one in m.roster)


def watch(m: MemberState, event: MetadataAnswered) -> None:
    """Rejoin if the topics' partitions are no longer those that were assigned (docs/spec/consumer-client.md#A7.R3)."""
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


def arm_refresh(m: MemberState) -> None:
    """Arm the next refresh: soon if a topic is missing or no metadata was read yet, else when the metadata expires."""
    if m.is_leader and m.roster:
        complete = m.watched is not None and all(topic in m.watched for topic in _topics_of(m))
        m.arm(Timer.REFRESH, m.settings.metadata_max_age_ms if complete else MISSING_TOPIC_REFRESH_MS)


def _topics_of(m: MemberState) -> list[str]:
    return sorted({topic for one in m.roster for topic in m.kind.topics_of(one.metadata)})


def _partition_counts(reply: MetadataReply) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in reply.topics if topic.name and topic.partitions}
