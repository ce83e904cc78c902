"""Resolution of regular expressions: which topics they match (docs/spec/consumer-group-protocol.md#6.2)."""

from collections import Counter, deque

from coordinator.clock import Moment
from coordinator.groups.consumer.events import RegexesResolved, ResolveRegexes, TargetBehind, TopicFilter
from coordinator.groups.consumer.notes import ConsumerCause, note
from coordinator.groups.consumer.record_builders import epoch_records
from coordinator.groups.consumer.regex import resolve as match_all
from coordinator.groups.consumer.state import ConsumerGroup
from coordinator.groups.consumer.subscriptions import hash_of, subscribes, subscriptions_of
from coordinator.groups.outcome import Outcome, Steps
from coordinator.records.consumer_records import RegexRecord
from membership.pace import Pace, chunks, sort

_LEAST_INTERVAL_MS = 10_000
_SEEN_US, _WRITE_US = 1.0, 0.05
"""Costs of a decision on a topic, and of a byte of a result."""
_PART_BYTES = 64 * 1024
_REGEX_BYTES, _NAME_BYTES = 64, 4
"""Bytes of a result besides the regular expression, and of a name in it besides its letters, rounded up."""


def needs_resolution(group: ConsumerGroup, regexes: Counter[str], moment: Moment) -> bool:
    """Return true if the regular expressions must be matched with the topics now: at most every ten seconds, unless the
    clock was set back. If no resolution is left, the interval does not apply, unless the last could not be written."""
    if not regexes or group.is_resolving:
        return False
    last_ms = max(group.regexes_resolved_ms if group.resolved else -1, group.regexes_failed_ms)
    if last_ms <= moment.wall_ms <= last_ms + _LEAST_INTERVAL_MS:
        return False
    return (
        any(regex not in group.resolved for regex in regexes)
        or group.regexes_version != group.topics.version
        or moment.wall_ms > last_ms + group.settings.regex_refresh_interval_ms
    )


def begin(group: ConsumerGroup, event: ResolveRegexes, out: Outcome) -> None:
    """Begin to match all regular expressions with all topics that the requester may describe, in slices: for the whole
    group (docs/spec/consumer-group-protocol.md#6.3)."""
    if group.regexes and not group.is_resolving:
        group.is_resolving = True
        out.work.append(_steps(group, event.sees))


def _steps(group: ConsumerGroup, sees: TopicFilter) -> Steps:
    version, regexes, pace = group.topics.version, tuple(group.regexes), Pace()
    is_retry = group.regexes_failed_ms >= 0
    group.regexes_version, group.regexes_failed_ms = version, -1
    seen: list[str] = []
    for names in chunks(tuple(group.topics.names())):
        seen += filter(sees, names)
        if pace.add(_SEEN_US * len(names)):
            yield pace.take()
    names = yield from sort(seen, str, pace)
    matched = yield from match_all(regexes, names)
    left, most_bytes = deque(matched.items()), min(_PART_BYTES, group.settings.max_batch_bytes // 2)
    while left:
        part, size = _part(left, most_bytes)
        yield RegexesResolved(group.group_id, part, version, not left, is_retry)
        if left:
            yield int(_WRITE_US * size)
    group.is_resolving = False


def _part(left: deque[tuple[str, tuple[str, ...]]], most_bytes: int) -> tuple[dict[str, tuple[str, ...]], int]:
    """Take results that are written as one batch; return them with their size. A larger one is alone."""
    part: dict[str, tuple[str, ...]] = {}
    size = 0
    while left:
        regex, names = left[0]
        more = _REGEX_BYTES + len(regex.encode()) + _NAME_BYTES * len(names) + sum(map(len, names))
        if part and size + more > most_bytes:
            break
        part[regex], size = names, size + more
        left.popleft()
    return part, size


def resolved(group: ConsumerGroup, event: RegexesResolved, out: Outcome) -> None:
    """Write the topics that match the regular expressions which members still have; the group epoch grows if the result
    has changed. Each part moves an epoch of its own, so that a crash between two loses no change. Only the last has the
    new digest, which takes long."""
    is_changed, unmatched = False, set[str]()
    for regex, names in event.matched.items():
        if regex not in group.regexes:
            continue
        is_new = frozenset(names) != group.topics_of(regex)
        if event.is_retry and not is_new and regex in group.resolved:
            continue  # what can be written has been, and the rest may be refused for ever
        is_changed = is_changed or is_new
        if not names and regex not in group.resolved:
            unmatched.add(regex)
        out.records.append(RegexRecord(group.group_id, regex, names, event.version, out.moment.wall_ms))
    if not group.regexes:
        return
    had = group.metadata_hash
    digest = hash_of(group, subscriptions_of(group), event.matched) if event.is_last else had
    if is_changed or digest != had or _is_target_stale(group, unmatched):
        out.records += epoch_records(group, digest)
        out.follow_ups.append(TargetBehind(group.group_id))
        detail = f"group epoch {group.epoch + 1}: {', '.join(event.matched)} resolved"
        note(group, out, ConsumerCause.REGEX, "", detail, epoch=group.epoch + 1)


def _is_target_stale(group: ConsumerGroup, unmatched: set[str]) -> bool:
    """Return true if members with these regular expressions, newly found to match nothing, have topics in their targets
    that they no longer subscribe to. No other member would get these: the group epoch has not moved since."""
    last = group.target_epoch if group.computing is None else group.computing.epoch
    if not unmatched or group.epoch > last:  # the next target is computed from the present subscriptions
        return False
    if group.computing is not None:
        return True  # it may have begun with the former subscriptions
    lines = [one.subscription for one in group.members.values() if one.subscription.subscribed_topic_regex in unmatched]
    return not all(all(map(subscribes(group, line), group.targets.get(line.member_id, {}))) for line in lines)
