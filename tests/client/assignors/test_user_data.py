"""User data in Kafka's bytes, written down once as Kafka 4.3.1's client writes them; kafka-python reads along."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

from membership.assignors import by_name
from membership.assignors.ownership import FormerClaim
from membership.assignors.user_data import decode_cooperative_user_data, decode_sticky_user_data, sticky_user_data
from membership.topic_partition import TopicPartition
from tests.client.assignors.story import parts

VERSION_1 = bytes.fromhex("00000002 0001 61 00000001 00000000 0001 74 00000002 00000001 00000002 00000007")
VERSION_0 = VERSION_1[:-4]


def test_sticky_user_data_is_the_last_assignment_by_topic_and_its_generation() -> None:
    assert by_name("sticky").user_data(parts("t-2 a-0 t-1"), 7) == VERSION_1
    assert decode_sticky_user_data(VERSION_1) == FormerClaim(list(parts("a-0 t-1 t-2")), 7)


def test_sticky_user_data_of_before_generations_is_read() -> None:
    assert decode_sticky_user_data(VERSION_0) == FormerClaim(list(parts("a-0 t-1 t-2")), -1)


def test_a_member_given_nothing_in_a_generation_says_so_and_a_new_one_says_nothing() -> None:
    assert by_name("sticky").user_data((), 3) == bytes.fromhex("00000000 00000003")
    assert by_name("sticky").user_data((), -1) is None


@pytest.mark.parametrize("data", [None, b"", b"\0\0", VERSION_1[:-5], b"\xff" * 8, b"\x7f" + b"\xff" * 7])
def test_sticky_user_data_that_cannot_be_read_claims_nothing(data: bytes | None) -> None:
    assert decode_sticky_user_data(data) == FormerClaim((), -1)


def test_cooperative_user_data_is_the_generation() -> None:
    user_data = by_name("cooperative-sticky").user_data
    assert user_data(parts("t-0"), 7) == bytes.fromhex("00000007")
    assert user_data((), -1) == bytes.fromhex("ffffffff")
    assert decode_cooperative_user_data(bytes.fromhex("00000007")) == 7


@pytest.mark.parametrize("data", [None, b"", b"\0\0\0"])
def test_cooperative_user_data_that_is_missing_or_short_is_no_generation(data: bytes | None) -> None:
    assert decode_cooperative_user_data(data) == -1


def test_range_and_round_robin_say_nothing() -> None:
    assert by_name("range").user_data(parts("t-0"), 1) is None
    assert by_name("roundrobin").user_data(parts("t-0"), 1) is None


@settings(deadline=None)
@given(
    owned=st.lists(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 2**31 - 1)), unique=True, max_size=8),
    generation=st.integers(0, 2**31 - 1),
)
def test_kafka_python_reads_what_is_written_and_so_does_muster(owned: list[TopicPartition], generation: int) -> None:
    data = sticky_user_data(owned, generation)
    assert data is not None
    theirs = StickyAssignorUserData.decode(data, version=1, header=False)
    assert theirs.generation == generation
    assert [(each.topic, n) for each in theirs.previous_assignment for n in each.partitions] == sorted(owned)
    assert decode_sticky_user_data(data) == FormerClaim(sorted(owned), generation)


@settings(deadline=None)
@given(data=st.binary(max_size=40))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    assert decode_sticky_user_data(data).generation_id >= -(2**31)
    assert decode_cooperative_user_data(data) >= -(2**31)
