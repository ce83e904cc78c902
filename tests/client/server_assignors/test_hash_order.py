"""Hashes and buckets of Java (docs/spec/consumer-group-protocol.md#5.1)."""

import pytest

from membership.pace import Pace, sort
from membership.server_assignors.hash_order import (
    bucket,
    buckets_grown_to,
    buckets_of_list,
    hash_of_id,
    hash_of_text,
)
from membership.server_assignors.orders import in_member_order, in_set_order
from membership.server_assignors.spec import SubscribedMember
from tests.client.server_assignors.rig import topic_id
from tests.groups.consumer.generators import finish, pieces_of


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("🙂", 0xD83D * 31 + 0xDE42)],
)
def test_a_text_has_javas_hash(text: str, code: int) -> None:
    assert hash_of_text(text) == code


def test_a_long_text_has_a_hash_too() -> None:
    code = 0
    for unit in "xy" * 5_000:
        code = (31 * code + ord(unit)) & 0xFFFFFFFF
    assert hash_of_text("xy" * 5_000) == code


def test_an_id_has_the_hash_of_its_halves() -> None:
    assert hash_of_id(topic_id(1, 2)) == 3
    assert hash_of_id(topic_id(0x0123456789ABCDEF, 0)) == 0x01234567 ^ 0x89ABCDEF


def test_high_bits_count_in_a_bucket() -> None:
    assert bucket(0x00050003, 16) == 6


@pytest.mark.parametrize(("count", "buckets"), [(0, 16), (11, 16), (12, 32), (23, 32), (24, 64), (100, 256)])
def test_a_set_of_a_list_has_room_for_it(count: int, buckets: int) -> None:
    assert buckets_of_list(count) == buckets


@pytest.mark.parametrize(("count", "buckets"), [(0, 16), (12, 16), (13, 32), (24, 32), (25, 64), (10_000, 16_384)])
def test_a_table_doubles_when_three_quarters_are_taken(count: int, buckets: int) -> None:
    assert buckets_grown_to(count) == buckets


@pytest.mark.parametrize("ids", [("m1", "m2", "m3"), ("p", "a", "z"), ("consumer-3", "consumer-2", "consumer-1")])
def test_members_have_the_order_that_was_seen(ids: tuple[str, ...]) -> None:
    members = [SubscribedMember(member_id, None, frozenset(), {}) for member_id in sorted(ids)]
    assert tuple(member.member_id for member in finish(in_member_order(members, Pace()))) == ids


def test_few_partitions_with_high_numbers_are_in_the_order_of_their_buckets() -> None:
    assert finish(in_set_order(frozenset({5, 17, 40}), Pace())) == [17, 5, 40]
    assert finish(in_set_order(frozenset(range(40)), Pace())) == list(range(40))
    assert finish(in_set_order(frozenset({65_536, 65_537, 2}), Pace())) == [65_537, 65_536, 2]


def test_many_items_are_sorted_as_few_are_and_in_pieces() -> None:
    items = list(enumerate((number * 7_919) % 1_000 for number in range(25_000)))
    costs, ordered = pieces_of(sort(items, lambda item: item[1], Pace()))
    assert ordered == sorted(items, key=lambda item: item[1])
    assert len(costs) >= 50
