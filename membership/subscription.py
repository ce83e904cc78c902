"""The subscription of a member: topics by name, topics by a pattern, or partitions that the application chose itself
(docs/spec/consumer-client.md#A9)."""

import re

from membership.checks import check_name
from membership.events import AssignedByHand, HangUp, Subscribed, SubscribedToPattern, SubscribedToRegex
from membership.member import MemberState, Timer
from membership.replies import AllTopicsAnswered
from protocol.errors import ErrorCode
from protocol.messages.topics import Metadata


def subscribe(m: MemberState, event: Subscribed) -> None:
    m.topics = tuple(sorted({check_name("a topic", topic) for topic in event.topics}))
    m.pattern = None
    m.looks_first = False
    m.disarm(Timer.TOPICS)


def subscribe_to_pattern(m: MemberState, event: SubscribedToPattern) -> None:
    """Subscribe to a pattern. Its topics are not known yet; `ask_for_topics` follows as soon as possible."""
    m.pattern, m.internal_too = re.compile(event.pattern), event.internal_too
    m.topics = tuple(topic for topic in m.topics if m.matches(topic))
    m.looked_at_ms = None
    m.disarm(Timer.TOPICS)


def refuse_regex(m: MemberState, event: SubscribedToRegex) -> None:
    """Fail, since only a coordinator that assigns partitions can match a regular expression."""
    m.fail(
        ErrorCode.UNSUPPORTED_VERSION,
        f"{event.regex!r} cannot be matched in group {m.settings.group_id}: the coordinator does not balance it; "
        "subscribe to topics, or to a pattern that is matched here",
    )


def assign_by_hand(m: MemberState, event: AssignedByHand) -> None:
    """Store the partitions that the application chose; the member does not join."""
    m.is_by_hand = bool(event.partitions)
    m.held = tuple(sorted(set(event.partitions)))


def ask_for_topics(m: MemberState) -> None:
    """Request all topics, since the pattern is matched here."""
    m.call(Metadata(None), timeout_ms=m.settings.request_timeout_ms, anywhere=True)


def look_before_joining(m: MemberState) -> None:
    """Refresh the topics before a join, so that all members see a new topic in one rebalance
    (docs/spec/consumer-client.md#A7, step 4)."""
    if m.pattern is not None and (m.looked_at_ms is None or m.now_ms - m.looked_at_ms >= m.settings.retry_backoff_ms):
        m.looks_first = True
        m.disarm(Timer.TOPICS)


def on_topics_reply(m: MemberState, event: AllTopicsAnswered) -> None:
    """Store the pattern's topics that exist and have no error; others follow with a later refresh."""
    if m.pattern is None:
        return
    if event.reply is None:
        if event.error_code == ErrorCode.NETWORK_EXCEPTION:
            m.effects.append(HangUp(event.sent.node))  # so that another node answers the next request
        m.arm(Timer.TOPICS, m.backoff_ms(m.topics_failures))
        m.topics_failures += 1
        return
    m.topics_failures = 0
    m.looked_at_ms, m.looks_first = m.now_ms, False
    m.arm(Timer.TOPICS, m.settings.metadata_max_age_ms)
    there = (topic.name for topic in event.reply.topics if topic.name and topic.error_code == ErrorCode.NONE)
    m.topics = tuple(sorted({name for name in there if m.matches(name)}))
