"""The subscription of a member: topics by name, by a pattern, or partitions it chose itself
(docs/spec/consumer-client.md#A9)."""

import re

from membership.checks import check_name
from membership.events import AssignedByHand, HangUp, Subscribed, SubscribedToPattern
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
    """Nothing is known of yet; `ask_for_topics` follows as soon as it may."""
    m.pattern, m.internal_too = re.compile(event.pattern), event.internal_too
    m.topics = tuple(topic for topic in m.topics if m.matches(topic))
    m.looked_at_ms = None
    m.disarm(Timer.TOPICS)


def assign_by_hand(m: MemberState, event: AssignedByHand) -> None:
    """No group decides: nobody is asked, nothing is joined."""
    m.is_by_hand = bool(event.partitions)
    m.held = tuple(sorted(set(event.partitions)))


def ask_for_topics(m: MemberState) -> None:
    """All of them: only here is known which ones match."""
    m.call(Metadata(None), timeout_ms=m.settings.request_timeout_ms, anywhere=True)


def look_before_joining(m: MemberState) -> None:
    """So that all who match it meet a new topic in one rebalance, not each in one of its own
    (docs/spec/consumer-client.md#A7, step 4)."""
    if m.pattern is not None and (m.looked_at_ms is None or m.now_ms - m.looked_at_ms >= m.settings.retry_backoff_ms):
        m.looks_first = True
        m.disarm(Timer.TOPICS)


def hear_topics(m: MemberState, event: AllTopicsAnswered) -> None:
    """A pattern's topics are those that are there and whole; others come with a later look."""
    if m.pattern is None:
        return
    if event.reply is None:
        if event.error_code == ErrorCode.NETWORK_EXCEPTION:
            m.effects.append(HangUp(event.sent.node))  # somebody else may be there
        m.arm(Timer.TOPICS, m.backoff_ms(m.topics_failures))
        m.topics_failures += 1
        return
    m.topics_failures = 0
    m.looked_at_ms, m.looks_first = m.now_ms, False
    m.arm(Timer.TOPICS, m.settings.metadata_max_age_ms)
    there = (topic.name for topic in event.reply.topics if topic.name and topic.error_code == ErrorCode.NONE)
    m.topics = tuple(sorted({name for name in there if m.matches(name)}))
