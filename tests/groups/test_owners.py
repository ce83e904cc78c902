"""The registry of one group by itself, whatever is granted and ended."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.classic.owning import NO_OWNERS
from coordinator.groups.ownership import Owners
from coordinator.handlers.claim_partitions import claim_partitions
from coordinator.handlers.describe_ownership import describe_ownership
from coordinator.handlers.release_partitions import release_partitions
from coordinator.handlers.table import APIS
from coordinator.records.muster_codec import OWNERSHIP_KEY, decode_own, encode_own
from coordinator.records.records import LogCorrupt, Owner, Ownership
from protocol.messages.ownership import ClaimPartitions, DescribeOwnership, ReleasePartitions
from protocol.streams_protocol import (
    StreamsSubscription,
    decode_streams_assignment,
    decode_streams_subscription,
    encode_streams_assignment,
    encode_streams_subscription,
)

KEYS = st.tuples(st.sampled_from(("clicks", "orders")), st.integers(0, 3))
MEMBERS = st.sampled_from(("a", "b", "c"))
DEEDS = st.lists(st.tuples(st.sampled_from(("grant", "end", "leave", "drop")), KEYS, MEMBERS), max_size=60)


def owner(member_id: str) -> Owner:
    return Owner(member_id, 0, 1, 1_700_000_000_000, 10_000)


@given(DEEDS)
def test_there_is_one_owner_at_most_and_epochs_only_grow(deeds: list[Any]) -> None:
    owners, held, epochs = Owners(), dict[Any, str](), dict[Any, int]()
    for deed, key, member_id in deeds:
        if deed == "grant" and key not in held:
            record = owners.granted("g", key, owner(member_id))
            assert record.epoch > epochs.get(key, 0)
            owners.apply(record)
            held[key], epochs[key] = member_id, record.epoch
        elif deed == "end" and (entry := owners.get(key)) is not None:
            owners.apply(owners.ended(entry))
            del held[key]
        elif deed == "leave":
            for entry in owners.of(member_id):
                owners.apply(owners.ended(entry))
            held = {one: who for one, who in held.items() if who != member_id}
        elif deed == "drop" and key not in held:
            owners.drop(key)
            epochs.pop(key, None)
        owners.check()
        assert {(one.topic, one.partition): one.owner and one.owner.member_id for one in owners} == held
        assert {key: owners.epoch(key) for key in owners.keys} == epochs
        assert set(owners.members) == set(held.values())
        for one, who in held.items():
            assert owners.is_held_by(one, who, epochs[one])
            assert not owners.is_held_by(one, who, epochs[one] - 1)
            assert not owners.is_held_by(one, "nobody", epochs[one])


def test_what_a_group_without_registry_is_asked_for_is_nobodys_and_stays_so() -> None:
    assert not NO_OWNERS
    assert NO_OWNERS.granted("g", ("orders", 0), owner("a")).epoch == 1
    assert not NO_OWNERS


def test_each_call_has_its_answer() -> None:
    handlers = {api.message: api.handler for api in APIS}
    assert [handlers[kind] for kind in (ClaimPartitions, ReleasePartitions, DescribeOwnership)] == [
        claim_partitions,
        release_partitions,
        describe_ownership,
    ]


def test_a_grant_stands_under_a_key_of_ours() -> None:
    key, value = encode_own(Ownership("g", "orders", 3, 7, owner("a")))
    assert key[:2] == OWNERSHIP_KEY.to_bytes(2, "big")
    assert decode_own(b"\x00\x02" + key[2:], value) is None
    with pytest.raises(LogCorrupt):
        decode_own(key + b"\x00", value)


@given(
    st.dictionaries(st.text(max_size=5), st.integers(1, 99), max_size=3),
    st.none() | st.text(max_size=5),
    st.dictionaries(st.text(max_size=5), st.dictionaries(st.integers(0, 99), st.integers(0, 9)), max_size=3),
)
def test_what_members_with_streams_say_reads_back(
    topics: dict[str, int], pattern: str | None, threads: dict[str, dict[int, int]]
) -> None:
    said = StreamsSubscription(topics, pattern)
    assert decode_streams_subscription(encode_streams_subscription(said)) == said
    assert decode_streams_assignment(encode_streams_assignment(threads)) == threads
