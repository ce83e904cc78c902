"""Subscriptions of a group's members, at present or after one request
(docs/spec/consumer-group-protocol.md#3.1, #3.4)."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember, Current, DigestedTopics, Target
from coordinator.groups.consumer.topics import TopicOfGroup, metadata_hash
from coordinator.records.consumer_records import ConsumerMemberRecord
from protocol.messages.groups import Origin

KEPT_FROM = 100
"""Number of topics from which on their digest is kept; that of fewer takes less time than it needs memory."""


class Change(NamedTuple):
    """One member after a request. `before`: its last record, None for a new member. A member that replaces another
    begins with the state of the other; `is_fencing`: the other's process is still connected. `sender`: that of the
    request, or of the member's last one."""

    line: ConsumerMemberRecord
    before: ConsumerMemberRecord | None
    current: Current
    target: Target | None
    replaced: ConsumerMember | None = None
    sender: Origin | None = None
    is_fencing: bool = False

    @property
    def member_id(self) -> str:
        return self.line.member_id

    @property
    def names_changed(self) -> bool:
        now, before = (
            self.line.subscribed_topic_names,
            () if self.before is None else self.before.subscribed_topic_names,
        )
        return now is not before and now != before  # there may be many

    @property
    def regex_changed(self) -> bool:
        return (self.line.subscribed_topic_regex or "") != (self.regex_before or "")

    @property
    def regex_before(self) -> str | None:
        return None if self.before is None else self.before.subscribed_topic_regex


class SubscriptionCounts(NamedTuple):
    """Numbers of members by topic name, and by regular expression."""

    names: Counter[str]
    regexes: Counter[str]

    def without(self, lines: list[ConsumerMemberRecord]) -> "SubscriptionCounts":
        """Return the subscriptions after the removal of the members."""
        names, regexes = self.names.copy(), self.regexes.copy()
        for line in lines:
            names.subtract(line.subscribed_topic_names)
            if line.subscribed_topic_regex:
                regexes[line.subscribed_topic_regex] -= 1
        return SubscriptionCounts(+names, +regexes)


def subscriptions_of(group: ConsumerGroup) -> SubscriptionCounts:
    """Return the present subscriptions."""
    return SubscriptionCounts(group.names, group.regexes)


def subscriptions_after(group: ConsumerGroup, change: Change) -> SubscriptionCounts:
    """Return the subscriptions after the change."""
    now = subscriptions_of(group)
    if not change.names_changed and not change.regex_changed:
        return now
    after = now if change.before is None else now.without([change.before])
    names, regexes = after.names.copy(), after.regexes.copy()
    names.update(change.line.subscribed_topic_names)
    if change.line.subscribed_topic_regex:
        regexes[change.line.subscribed_topic_regex] += 1
    return SubscriptionCounts(names, regexes)


def subscribed_names(now: SubscriptionCounts, topics_of: Callable[[str], frozenset[str]]) -> Iterator[str]:
    """Yield the names of the subscribed topics, in the order that assignors rely on: a name again for each regular
    expression that it matches."""
    yield from now.names
    for regex in now.regexes:
        yield from sorted(topics_of(regex))


def existing_topics(group: ConsumerGroup, now: SubscriptionCounts) -> dict[bytes, TopicOfGroup]:
    """Return the subscribed topics that exist, by id."""
    found = map(group.topics.find, dict.fromkeys(subscribed_names(now, group.topics_of)))
    return {topic.topic_id: topic for topic in found if topic is not None}


def hash_of(group: ConsumerGroup, now: SubscriptionCounts, matched: Mapping[str, Iterable[str]] = {}) -> int:
    """Digest the subscribed topics that exist. `matched`: new results of regular expressions, not yet applied. The last
    digest of many topics is kept: when members leave one after the other, others still subscribe to them."""
    results = [frozenset(matched[regex]) if regex in matched else group.topics_of(regex) for regex in now.regexes]
    subscribed = DigestedTopics(group.topics.version, frozenset(now.names), frozenset(results))
    if group.digested is not None and group.digested[0] == subscribed:
        return group.digested[1]
    found = map(group.topics.find, subscribed.names.union(*results))
    topics = [topic for topic in found if topic is not None]
    digest = metadata_hash(topics)
    if len(topics) >= KEPT_FROM:
        group.digested = subscribed, digest
    return digest


def is_homogeneous(now: SubscriptionCounts, members: int) -> bool:
    """Return true if all members have the same subscription, of one form (docs/spec/consumer-group-protocol.md#3.4)."""
    if now.regexes:
        return not now.names and list(now.regexes.values()) == [members]
    return all(count == members for count in now.names.values())


def _is_in(names: tuple[str, ...], name: str) -> bool:
    """Search the names of a record, which are sorted: a set of them would be made for each heartbeat."""
    place = bisect_left(names, name)
    return place < len(names) and names[place] == name


def subscribes(group: ConsumerGroup, line: ConsumerMemberRecord) -> Callable[[bytes], bool]:
    """Return a check that a topic exists and the member subscribes to it."""
    names, matched = line.subscribed_topic_names, group.topics_of(line.subscribed_topic_regex)

    def is_wanted(topic_id: bytes) -> bool:
        name = group.topics.name_of(topic_id)
        return name is not None and (_is_in(names, name) or name in matched)

    return is_wanted
