"""Notes on the partitions that move with the leader's assignments."""

from collections.abc import Iterable
from random import Random

import pytest

from coordinator.clock import Moment
from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.groups.classic.moved import MOST_BYTES, note_moved
from coordinator.groups.classic.rebalance import stable_record
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.outcome import Outcome
from coordinator.records.records import Note
from protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from tests.groups.bench import RANGE
from tests.groups.checks import CountingIds

Shares = dict[str, Iterable[int]]


def encoded(shares: Shares) -> dict[str, bytes]:
    return {
        member: encode_assignment(Assignment((TopicPartitions("orders", tuple(own)),) if own else ()))
        for member, own in shares.items()
    }


def group(members: Iterable[str], protocol_type: str = "consumer", static: Iterable[str] = ()) -> ClassicGroup:
    made = ClassicGroup("g", GroupSettings(), state=GroupState.COMPLETING, generation_id=3, protocol_type=protocol_type)
    made.protocol_name = "range"
    for name in members:
        instance = f"box-{name[0]}" if name in static else None
        made.add(Member(name, instance, "c", "/h", 10_000, 60_000, RANGE))
    return made


def notes(made: ClassicGroup, assignments: dict[str, bytes]) -> list[Note]:
    out = Outcome(Moment(1_000, 1_700_000_000_000), CountingIds())
    note_moved(made, assignments, out)
    return out.notes


def moved(before: Shares, after: Shares, static: Iterable[str] = ()) -> tuple[int, int] | None:
    """Return how many partitions moved and how many were kept; None without a note."""
    old, new = group(before, static=static), group(after, static=static)
    new.stored = stable_record(old, encoded(before), 0)
    told = notes(new, encoded(after))
    return (told[0].moved_partitions, told[0].kept_partitions) if told else None


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"a": [0, 1], "b": [2, 3]}, {"a": [0, 1], "b": [2, 3]}, (0, 4)),
        ({"a": [0, 1], "b": [2, 3]}, {"a": [0, 1, 2, 3]}, (2, 2)),
        ({"a": [0, 1, 2]}, {"a": [0, 1], "b": [2]}, (1, 2)),
        ({"a": [0, 1, 2]}, {"a": [0, 1], "b": []}, (1, 2)),  # the first of two rounds of a cooperative assignor
        ({"a": [0, 1], "b": []}, {"a": [0, 1], "b": [2]}, (0, 2)),  # and the second
        ({"a": [0, 1]}, {"a": [0, 1, 2, 3]}, (0, 2)),  # partitions that nobody had
        ({"a": []}, {"a": [0]}, None),
    ],
)
def test_partitions_that_have_another_owner_have_moved(
    before: Shares, after: Shares, told: tuple[int, int] | None
) -> None:
    assert moved(before, after) == told


def test_a_static_member_keeps_its_partitions_under_another_id() -> None:
    assert moved({"a-1": [0, 1]}, {"a-2": [0, 1]}) == (2, 0)
    assert moved({"a-1": [0, 1]}, {"a-2": [0, 1]}, static=("a-1", "a-2")) == (0, 2)


def test_the_note_names_the_leader_and_says_how_many_moved() -> None:
    made = group("ab")
    made.stored = stable_record(made, encoded({"a": [0, 1], "b": [2]}), 0)

    (note,) = notes(made, encoded({"a": [0], "b": [1, 2]}))

    assert (note.kind, note.cause, note.initiator) == ("assigned", "partitions assigned", "a")
    assert (note.detail, note.generation_id, note.members) == ("1 of 3 moved", 3, 2)


def test_what_is_no_assignment_of_a_consumer_has_no_note() -> None:
    shares = encoded({"a": [0]})
    for made in (group("a"), group("a", "connect")):
        assert notes(made, shares) == [], "the first generation"
        made.stored = stable_record(made, shares if made.protocol_type == "connect" else {"a": b"\xff\xff"}, 0)
        assert notes(made, shares) == []


def test_whatever_a_leader_sends_the_note_fails_nothing() -> None:
    random = Random(5)
    sound = encode_assignment(
        Assignment((TopicPartitions("orders", (0, 1, 1, -3)), TopicPartitions("", ()), TopicPartitions("é", (7,))))
    )
    counts = [b"\0\0" + count.to_bytes(4, "big", signed=True) for count in (-1, 1, 2**31 - 1, -(2**31))]
    odd = [b"", b"\0", b"\x7f\xff", *counts, sound[:-5], sound + b"more", b"\xff\xff" + sound[2:]]
    for _ in range(300):
        broken = bytearray(sound)
        for _ in range(random.randint(1, 3)):
            broken[random.randrange(len(broken))] = random.randrange(256)
        odd.append(bytes(broken))
    made = group("ab")
    for before in (sound, b"", *random.sample(odd, 20)):
        made.stored = stable_record(made, {"a": before, "b": sound}, 0)
        for share in odd:
            told = notes(made, {"a": share, "b": share, "nobody": share})
            assert len(told) <= 1
            assert all(one.moved_partitions >= 0 and one.kept_partitions >= 0 for one in told)


def test_of_large_groups_nothing_is_told() -> None:
    fits = range((MOST_BYTES // 2 - 22) // 4)
    assert moved({"a": fits}, {"a": fits}) == (0, len(fits))
    assert moved({"a": fits}, {"a": range(len(fits) + 2)}) is None
