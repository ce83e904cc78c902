"""Shares that every member works out for itself: docs/spec/client-balanced-groups.md#16 and #17.61 and #17.62."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core.balancing import hash_mod, index_mod, range_share
from muster.core.balancing.keys import context, parse_context, parsed, sort_keys
from muster.core.balancing.shares import java_hash
from tests.enumerations import some

FIVE = [f"1:demo:{number}" for number in range(5)]
SHARES = {"hash_mod": hash_mod, "index_mod": index_mod, "range_share": range_share}

_PRINT = """
import hashlib
from muster.core.balancing import hash_mod, index_mod, range_share
keys = {f"{number % 7}:topic_{number % 3}:{number}" for number in range(10_000)}
for share in (hash_mod, index_mod, range_share):
    parts = [share(keys, 4, node) for node in range(4)]
    assert set().union(*parts) == keys and sum(map(len, parts)) == len(keys), share
    print(hashlib.sha256(repr([sorted(part) for part in parts]).encode()).hexdigest())
"""


def test_cb61_the_same_keys_give_the_same_shares_in_processes_with_other_hash_seeds() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in some(("0", "1", "4242"))
    }
    assert len(said) == 1
    assert len(set(said.pop().split())) == 3


def test_cb62_five_partitions_two_consumers_of_two_threads() -> None:
    slots = [range_share(FIVE, 4, slot) for slot in range(4)]
    assert slots == [{"1:demo:0", "1:demo:1"}, {"1:demo:2"}, {"1:demo:3"}, {"1:demo:4"}]
    assert range_share(FIVE, 2, 0) == {"1:demo:0", "1:demo:1", "1:demo:2"}
    assert range_share(FIVE, 2, 1) == {"1:demo:3", "1:demo:4"}


def test_the_worked_examples() -> None:
    assert [java_hash(key) for key in FIVE] == [2393512898, 2393512899, 2393512900, 2393512901, 2393512902]
    assert [java_hash("2:demo:0"), java_hash("2:demo:1")] == [4136323233, 4136323234]
    assert hash_mod(FIVE, 2, 0) == index_mod(FIVE, 2, 0) == {"1:demo:0", "1:demo:2", "1:demo:4"}
    assert [hash_mod(FIVE, 4, node) for node in range(4)] == [
        {"1:demo:2"},
        {"1:demo:3"},
        {"1:demo:0", "1:demo:4"},
        {"1:demo:1"},
    ]
    assert [index_mod(FIVE, 4, node) for node in range(4)] == [
        {"1:demo:0", "1:demo:4"},
        {"1:demo:1"},
        {"1:demo:2"},
        {"1:demo:3"},
    ]


def test_hashes_are_over_units_of_utf_16() -> None:
    assert java_hash("") == 0
    assert java_hash("polygenelubricants") == 0x80000000
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


KEYS = st.sets(
    st.builds("{}:{}:{}".format, st.integers(0, 30), st.sampled_from(["a", "b-c", "B.2"]), st.integers(0, 2_000)),
    max_size=60,
)


@pytest.mark.parametrize("name", SHARES)
@given(keys=KEYS, count=st.integers(1, 9))
def test_every_key_is_in_exactly_one_share(name: str, keys: set[str], count: int) -> None:
    parts = [SHARES[name](keys, count, node) for node in range(count)]
    assert sorted(key for part in parts for key in part) == sorted(keys)
    if name != "hash_mod":
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1


@given(keys=KEYS, more=KEYS, count=st.integers(1, 9))
def test_by_hash_what_was_there_stays_where_it_is_when_more_comes(keys: set[str], more: set[str], count: int) -> None:
    for node in range(count):
        assert hash_mod(keys, count, node) == hash_mod(keys | more, count, node) & keys


@pytest.mark.parametrize("share", SHARES.values())
@pytest.mark.parametrize(("count", "node"), [(3, 3), (3, -1), (0, 0), (-1, 0)])
def test_a_node_that_is_none_of_so_many_has_no_share(share: object, count: int, node: int) -> None:
    assert callable(share)
    with pytest.raises(ValueError, match="from 0 to source_count - 1"):
        share(FIVE, count, node)


def test_keys_are_sorted_by_topic_then_numbers_as_numbers() -> None:
    assert sort_keys(["10:a:0", "2:a:10", "2:a:9", "1:b:0"]) == ["2:a:9", "2:a:10", "10:a:0", "1:b:0"]
    with pytest.raises(ValueError, match="is no partition key"):
        sort_keys(["1:a:01"])


def test_a_context_names_its_partition_and_its_take() -> None:
    assert parse_context(context("1:orders:0", 17)) == ("1:orders:0", 17)
    assert str(parsed("1:orders:0")) == "1:orders:0"
    for nonsense in ("", "1:orders:0", "1:orders:0:", "1:orders:0:-1", "1:orders:0:01", "x:y:z:1", "1:orders:0:1\n"):
        with pytest.raises(ValueError, match="is no confirm context"):
            parse_context(nonsense)
