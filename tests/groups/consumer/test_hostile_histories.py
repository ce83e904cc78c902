"""Random histories of clients that follow no protocol: any member id with any epoch, instance, subscription and claim,
while topics come and go and the node restarts. What is answered and written is compared with the tables of
docs/spec/consumer-group-protocol.md, written down here once more."""

import random
from typing import Any, NamedTuple

import pytest

from coordinator.groups.consumer.offsets import refuse_commit, refuse_fetch
from coordinator.groups.consumer.regex import compile_pattern
from coordinator.groups.consumer.state import ConsumerMember, Current
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, TopicIdPartitions
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, OffsetFetchGroup
from protocol.regular_expression import InvalidPattern
from tests.enumerations import some
from tests.groups.consumer.rig import Rig

INVALID, FENCED_INSTANCE, UNKNOWN, FULL = 42, 82, 25, 81
FENCED, UNRELEASED, NO_ASSIGNOR, STALE, BAD_PATTERN = 110, 111, 112, 113, 128
OLD_VERSION = 35
SESSION_MS = 10_000
MEMBERS, INSTANCES = ("a", "b", "c", "d"), (None, None, "i", "j")
TOPICS = ("T", "U", "V")
NAMES = (None, (), ("T",), ("U",), ("T", "U"), ("V", "missing"))
PATTERNS = (None, None, "", "T|V", "U.*", "(")
TOO_LONG = "x" * 9


class Before(NamedTuple):
    """The group before a request."""

    members: dict[str, tuple[Current, str | None, frozenset[str], str]]
    deadlines: dict[str, int]
    instances: dict[str, str]
    resolved: frozenset[str]
    patterns: frozenset[str]
    epoch: int
    batches: int
    is_marked: bool

    @classmethod
    def of(cls, rig: Rig) -> "Before":
        group = rig.group
        return cls(
            {
                name: (one.current, one.subscription.instance_id, *subscribed(one))
                for name, one in group.members.items()
            },
            {name: one.deadline_ms for name, one in group.members.items()},
            dict(group.static_members),
            frozenset(group.resolved),
            frozenset(group.regexes),
            group.epoch,
            len(rig.batches),
            group.topics_version != rig.topics.version,
        )


def subscribed(member: ConsumerMember) -> tuple[frozenset[str], str]:
    line = member.subscription
    return frozenset(line.subscribed_topic_names), line.subscribed_topic_regex or ""


def is_malformed(request: ConsumerGroupHeartbeat) -> bool:
    """Section 2.2."""
    if not request.member_id or request.instance_id == "" or request.rack_id == " ":
        return True
    if request.member_epoch == 0:
        lacks_subscription = request.subscribed_topic_names is None and request.subscribed_topic_regex is None
        return request.rebalance_timeout_ms == -1 or request.topic_partitions != () or lacks_subscription
    return request.member_epoch < -2 or (request.member_epoch == -2 and request.instance_id is None)


def expected_error(rig: Rig, was: Before, request: ConsumerGroupHeartbeat) -> int:
    """The error by sections 2.2 to 2.5, 6.1 and 7.2."""
    if is_malformed(request):
        return INVALID
    if request.server_assignor not in (None, "uniform", "range"):
        return NO_ASSIGNOR
    epoch, name, instance = request.member_epoch, request.member_id, request.instance_id
    holder = was.instances.get(instance) if instance is not None else None
    is_away = holder is not None and was.members[holder][0].epoch == -2
    is_full = len(was.members) >= rig.settings.max_size and name not in was.members
    if is_full and epoch >= 0 and not (epoch == 0 and is_away):
        return FULL
    if epoch == 0:
        if holder is not None and (not is_away or (holder != name and name in was.members)):
            return UNRELEASED
    elif refused := expected_of_a_member(was, request, holder):
        return refused
    pattern = request.subscribed_topic_regex
    if epoch >= 0 and pattern and pattern not in was.patterns and not compiles(pattern):
        return BAD_PATTERN
    return 0


def expected_of_a_member(was: Before, request: ConsumerGroupHeartbeat, holder: str | None) -> int:
    """Sections 2.3 to 2.5, of one who does not join."""
    if request.instance_id is not None and holder is None:
        return UNKNOWN
    if holder is not None and holder != request.member_id:
        return FENCED_INSTANCE
    if request.member_id not in was.members:
        return UNKNOWN
    is_accepted = request.member_epoch < 0 or accepts_epoch(was.members[request.member_id][0], request)
    return 0 if is_accepted else FENCED


def accepts_epoch(current: Current, request: ConsumerGroupHeartbeat) -> bool:
    if request.member_epoch == current.epoch:
        return True
    if request.member_epoch != current.previous_epoch or request.member_epoch > current.epoch:
        return False
    claims = request.topic_partitions
    return claims is not None and all(
        one.topic_id in current.assigned and set(one.partitions) <= current.assigned[one.topic_id].keys()
        for one in claims
    )


def compiles(pattern: str) -> bool:
    try:
        compile_pattern(pattern)
    except InvalidPattern:
        return False
    return True


def check_reply(rig: Rig, was: Before, request: ConsumerGroupHeartbeat, reply: ConsumerGroupHeartbeatReply) -> None:
    group, name, epoch = rig.group, request.member_id, request.member_epoch
    written = rig.batches[was.batches :]
    error = expected_error(rig, was, request)
    assert int(reply.error_code) == error, (request, reply)
    deadlines = {one: member.deadline_ms for one, member in group.members.items()}
    if error:
        assert reply.error_message
        assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms, reply.assignment) == (
            None,
            0,
            0,
            None,
        )
        assert not written, f"an error wrote {rig.written(was.batches)}"
        assert deadlines == was.deadlines, "an error has changed a session"
        return
    holder = was.instances.get(request.instance_id or "")
    gone = {holder} if epoch == 0 and holder is not None else set()
    for other, (current, *_rest) in was.members.items():
        if other != name and other not in gone:
            assert group.members[other].current == current, f"a request of {name} has changed {other}"
            assert deadlines[other] == was.deadlines[other]
    assert reply.member_id == name
    if epoch < 0:
        assert (reply.member_epoch, reply.heartbeat_interval_ms, reply.assignment) == (epoch, 0, None)
        check_leaver(rig, was, request)
        return
    member = group.members[name]
    assert deadlines[name] == rig.now_ms + SESSION_MS
    assert (reply.member_epoch, reply.heartbeat_interval_ms) == (
        member.current.epoch,
        group.settings.heartbeat_interval_ms,
    )
    replaced = was.members.get(holder or "") if epoch == 0 else None
    known = replaced or was.members.get(name)
    check_told(rig, request, reply, known)
    check_bump(rig, was, request, known)
    if known is not None and replaced is None and member.current != known[0]:
        assert member.current.previous_epoch == known[0].epoch
    elif known is None or replaced is not None:
        assert member.current.previous_epoch == 0


def check_leaver(rig: Rig, was: Before, request: ConsumerGroupHeartbeat) -> None:
    name = request.member_id
    if request.member_epoch == -1:
        assert name not in rig.group.members
        assert rig.group.epoch == was.epoch + 1
        assert not any(holder == name for ones in rig.group.holders.values() for holder in ones.values())
        return
    before, after = was.members[name][0], rig.group.members[name].current
    zeros = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in before.assigned.items()}
    assert after == Current(-2, before.previous_epoch, before.state, zeros, {})
    assert rig.group.epoch == was.epoch
    assert rig.group.members[name].deadline_ms == was.deadlines[name]


def check_told(rig: Rig, request: ConsumerGroupHeartbeat, reply: ConsumerGroupHeartbeatReply, known: Any) -> None:
    """Section 2.6: who is told its assignment."""
    assigned = {topic: set(ones) for topic, ones in rig.group.members[request.member_id].current.assigned.items()}
    names_any = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    is_full = request.rebalance_timeout_ms != -1 and names_any and request.topic_partitions is not None
    had = {} if known is None else {topic: set(ones) for topic, ones in known[0].assigned.items()}
    if request.member_epoch == 0 or is_full or had != assigned:
        assert reply.assignment is not None
        assert {one.topic_id: set(one.partitions) for one in reply.assignment.topic_partitions} == assigned
    else:
        assert reply.assignment is None


def check_bump(rig: Rig, was: Before, request: ConsumerGroupHeartbeat, known: Any) -> None:
    """Section 3.1: what moves the group epoch."""
    names, pattern = subscribed(rig.group.members[request.member_id])
    had_names, had_pattern = (frozenset(), "") if known is None else (known[2], known[3])
    moves = names != had_names or (pattern != had_pattern and (not pattern or pattern in was.resolved))
    first = rig.batches[was.batches] if len(rig.batches) > was.batches else []
    bumps = sum(type(one).__name__ == "ConsumerGroupRecord" for one in first)
    # The first batch may be the result of patterns where the request itself wrote nothing.
    is_own = not any(type(one).__name__ == "RegexRecord" for one in first)
    assert bumps <= 1
    if moves:
        assert bumps == 1 and is_own, f"{request} moved no epoch"
    elif bumps and is_own:
        assert was.is_marked, f"{request} moved the epoch"


def check_offsets(rig: Rig, chance: random.Random) -> None:
    """Sections 10.1 and 10.3."""
    group, name, topic = rig.group, chance.choice((*MEMBERS, "")), chance.choice(TOPICS)
    member = group.members.get(name)
    near = 0 if member is None else member.current.epoch
    epoch = chance.choice((-2, -1, 0, near - 1, near, near + 1, chance.randrange(max(group.epoch, 1))))
    parts = tuple(
        OffsetCommitPartition(number, 7, 0, chance.choice(("", "", TOO_LONG)))
        for number in chance.sample(range(5), chance.randrange(1, 3))
    )
    knows = chance.random() < 0.8
    request = OffsetCommit("g", (OffsetCommitTopic(topic, parts),), epoch, name, knows_member_epochs=knows)
    found = rig.topics.find(topic)
    if epoch < 0 and not group.members:
        expected = 0
    elif member is None:
        expected = UNKNOWN
    elif not knows:
        expected = OLD_VERSION
    elif epoch == near:
        expected = 0
    elif epoch > near:
        expected = STALE
    else:  # a negative epoch is older than all that a member has
        since = (
            {} if found is None else {number: at for one, number, at in member.current.held if one == found.topic_id}
        )
        storable = [one.partition_index for one in parts if one.committed_metadata != TOO_LONG]
        expected = 0 if all(since.get(number, epoch + 1) <= epoch for number in storable) else STALE
    assert int(refuse_commit(group, request, lambda part: part.committed_metadata != TOO_LONG)) == expected, (
        request,
        near,
    )
    fetched = int(refuse_fetch(group, OffsetFetchGroup("g", None, name, epoch)))
    assert fetched == (UNKNOWN if member is None else 0 if epoch == near else STALE)


def drawn(rig: Rig, chance: random.Random, gone: list[bytes]) -> ConsumerGroupHeartbeat:
    """Any request; half of them name the member's epoch, or one near it."""
    name = chance.choice(MEMBERS) if chance.random() < 0.97 else ""
    member = rig.group.members.get(name)
    epoch = chance.choice((0, 0, -1, -2, -2, -3, 1, 2, rig.group.epoch))
    if member is not None and chance.random() < 0.6:
        epoch = chance.choice((member.current.epoch, member.current.epoch, member.current.previous_epoch))
    fields: dict[str, Any] = {"instance_id": chance.choice(INSTANCES)}
    if member is not None and chance.random() < 0.5:
        fields["instance_id"] = chance.choice((None, member.subscription.instance_id))
    if epoch == 0 or chance.random() < 0.2:
        fields["subscribed_topic_names"] = chance.choice(NAMES)
        fields["subscribed_topic_regex"] = chance.choice(PATTERNS)
        fields["rebalance_timeout_ms"] = chance.choice((5_000, 5_000, 5_000, 0, -1))
    fields["topic_partitions"] = () if epoch == 0 and chance.random() < 0.95 else claimed(rig, chance, member, gone)
    if chance.random() < 0.1:
        fields |= {"rack_id": chance.choice(("r", "s", " ")), "server_assignor": chance.choice((None, "range", "none"))}
    return ConsumerGroupHeartbeat("g", name, epoch, **fields)


def claimed(
    rig: Rig, chance: random.Random, member: ConsumerMember | None, gone: list[bytes]
) -> tuple[TopicIdPartitions, ...] | None:
    """Partitions that a member claims: none, its own, or others."""
    draw = chance.random()
    if draw < 0.3:
        return None
    if draw < 0.4 or member is None:
        return ()
    claims = {topic_id: set(ones) for topic_id, ones in member.current.assigned.items()}
    if draw < 0.5 and gone:
        claims[chance.choice(gone)] = {0}
    elif draw < 0.6 and (known := rig.topics.find("T")) is not None:
        claims.setdefault(known.topic_id, set()).add(chance.randrange(4))
    elif draw < 0.7:
        for topic_id, ones in member.current.pending.items():
            claims.setdefault(topic_id, set()).update(ones)
    return tuple(TopicIdPartitions(topic_id, tuple(sorted(ones))) for topic_id, ones in claims.items())


def change_topics(rig: Rig, chance: random.Random, gone: list[bytes]) -> None:
    """Delete a topic, make it again under its name with another id, or add partitions."""
    name = chance.choice(TOPICS)
    found = rig.topics.find(name)
    if found is None:
        rig.topics.create(name, chance.randrange(1, 5))
    elif chance.random() < 0.3:
        rig.topics.grow(name, found.partitions + 1)
    else:
        gone.append(found.topic_id)
        rig.topics.delete(name)
        if chance.random() < 0.5:
            rig.topics.create(name, chance.randrange(1, 5))


@pytest.mark.parametrize("seed", some(range(40)))
def test_hostile_clients_are_answered_by_the_tables(seed: int) -> None:
    chance = random.Random(seed)
    rig = Rig(
        {"T": 4, "U": 3},
        assignment_interval_ms=chance.choice((0, 0, 3_000)),
        session_timeout_ms=SESSION_MS,
        max_size=chance.choice((2, 3, 100)),
    )
    gone: list[bytes] = []
    for _ in range(150):
        draw = chance.random()
        if draw < 0.8:
            was, request = Before.of(rig), drawn(rig, chance, gone)
            check_reply(rig, was, request, rig.ask(request))
        elif draw < 0.87:
            rig.wait(chance.choice((1, 1_000, 4_000, 11_000)))
        elif draw < 0.94:
            change_topics(rig, chance, gone)
        else:
            rig.restart()
        check_offsets(rig, chance)
