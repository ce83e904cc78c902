"""Assignment of partitions to threads: docs/spec/consumer-client.md#D7, #G and #H.71 to #H.73."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membership.errors import CannotShareOut
from membership.topic_partition import TopicPartition
from muster.streams.assignment import MemberThreads, Shares, share_by_range, share_in_circle
from muster.streams.group_protocol import StreamsProtocol
from protocol.streams_protocol import encode_streams_assignment

COUNTS = st.dictionaries(st.sampled_from(["s", "t", "u"]), st.integers(1, 9), min_size=1)
MEMBERS = st.lists(COUNTS, min_size=1, max_size=6)


def _members(*topics: dict[str, int]) -> list[MemberThreads]:
    return [MemberThreads(f"C{number}", counts) for number, counts in enumerate(topics, 1)]


def test_h71_five_partitions_over_two_members_with_two_threads_each() -> None:
    shares = share_by_range({"t": 5}, _members({"t": 2}, {"t": 2}))
    assert shares == {"C1": {"t": {0: 0, 1: 0, 2: 1}}, "C2": {"t": {3: 0, 4: 1}}}


def test_one_member_of_the_two_has_left_and_a_partition_changes_its_thread() -> None:
    assert share_by_range({"t": 5}, _members({"t": 2})) == {"C1": {"t": {0: 0, 1: 0, 2: 0, 3: 1, 4: 1}}}


def test_h72_of_eleven_threads_the_third_comes_before_the_eleventh() -> None:
    shares = share_by_range({"t": 22}, _members({"t": 11}))
    assert shares == {"C1": {"t": {partition: partition // 2 for partition in range(22)}}}


def test_members_that_have_a_name_of_their_own_come_first() -> None:
    members = [MemberThreads("a", {"t": 1}), MemberThreads("b", {"t": 1}, "instance")]
    assert share_by_range({"t": 2}, members) == {"a": {"t": {1: 0}}, "b": {"t": {0: 0}}}


def test_a_topic_goes_to_those_that_read_it() -> None:
    shares = share_by_range({"s": 2, "t": 2, "gone": 0}, _members({"s": 1, "gone": 1}, {"s": 1, "t": 1}))
    assert shares == {"C1": {"s": {0: 0}}, "C2": {"s": {1: 0}, "t": {0: 0, 1: 0}}}


@given(st.dictionaries(st.sampled_from(["s", "t", "u"]), st.integers(0, 30)), MEMBERS)
def test_every_partition_goes_to_one_thread_and_threads_of_a_topic_differ_by_one_at_most(
    partition_counts: dict[str, int], topics: list[dict[str, int]]
) -> None:
    members = _members(*topics)
    check_shares(partition_counts, members, share_by_range(partition_counts, members))


def check_shares(partition_counts: dict[str, int], members: list[MemberThreads], shares: Shares) -> None:
    """AssertionError unless each partition of a topic that is read goes to one thread, and threads differ by one."""
    for topic, count in partition_counts.items():
        threads = [(one.member_id, number) for one in members for number in range(one.topics.get(topic, 0))]
        given_to = [
            (partition, (who, thread))
            for who, share in shares.items()
            for partition, thread in share.get(topic, {}).items()
        ]
        assert sorted(partition for partition, _ in given_to) == (list(range(count)) if threads else [])
        sizes = [[to for _, to in given_to].count(thread) for thread in threads]
        assert sum(sizes) == len(given_to), "nothing goes to a thread that is not there"
        assert not threads or max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    "second",
    [{1: 0, 2: 0, 3: 0}, {1: 0, 3: 0}, {2: 0}, {2: 0, 3: 1}],
    ids=["one twice", "one twice, another not at all", "one not at all", "to no thread"],
)
def test_a_partition_given_twice_or_to_nobody_is_seen_by_the_property(second: dict[int, int]) -> None:
    members = _members({"t": 1}, {"t": 1})
    check_shares({"t": 4}, members, {"C1": {"t": {0: 0, 1: 0}}, "C2": {"t": {2: 0, 3: 0}}})
    with pytest.raises(AssertionError):
        check_shares({"t": 4}, members, {"C1": {"t": {0: 0, 1: 0}}, "C2": {"t": second}})
    with pytest.raises(AssertionError):  # each member has its half, if the last one counts
        check_shares({"t": 4}, members, {"C1": {"t": {0: 0, 1: 0, 2: 0}}, "C2": {"t": {2: 0, 3: 0}}})


def test_dealt_in_a_circle_every_thread_gets_its_turn_whatever_the_topic() -> None:
    shares = share_in_circle({"s": 3, "t": 3}, _members({"s": 1, "t": 1}, {"s": 2, "t": 2}))
    dealt = [
        (topic, partition, who, thread)
        for who, share in shares.items()
        for topic, threads in share.items()
        for partition, thread in threads.items()
    ]
    assert sorted((topic, partition) for topic, partition, *_ in dealt) == [
        (topic, partition) for topic in "st" for partition in range(3)
    ]
    assert sorted((who, thread) for *_, who, thread in dealt) == [
        ("C1", 0),
        ("C1", 0),
        ("C2", 0),
        ("C2", 0),
        ("C2", 1),
        ("C2", 1),
    ]
    # As Java hashes them: "s-0" is 111997, and each next one is 1 more.
    assert (shares["C1"], shares["C2"]["s"]) == ({"s": {0: 0}, "t": {0: 0}}, {1: 0, 2: 1})


@pytest.mark.parametrize("other", [{"s": 1}, {"s": 1, "t": 2}])
def test_a_circle_needs_the_same_threads_everywhere(other: dict[str, int]) -> None:
    with pytest.raises(CannotShareOut, match="same threads"):
        share_in_circle({"s": 3, "t": 3}, _members({"s": 1, "t": 1}, other))


def test_a_thread_that_is_not_there_is_noticed() -> None:
    kind = StreamsProtocol("range", {"t": 2})
    given_to = kind.decode_assignment(encode_streams_assignment({"t": {0: 0, 1: 2}, "s": {0: 0}}))
    assert given_to == (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("s", 0))
    assert kind.unknown_threads() == ["s-0 for thread 0 of 0", "t-1 for thread 2 of 2"]
