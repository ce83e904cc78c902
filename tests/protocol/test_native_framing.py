"""Boundaries of values, however they are split. Hostile bytes cost no memory, no time, and only their connection."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ProtocolViolation
from protocol.native.framing import Framing, Unfinished
from tests.enumerations import share_of
from tests.protocol.native import FRAME_BYTES

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.builds(msgpack.ExtType, st.integers(0, 127), st.sampled_from([1, 2, 4, 8, 16, 3, 300]).map(bytes)),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=20),
    max_leaves=25,
)
ARRAYS = st.lists(TREES, max_size=20)

HEADERS_THAT_LIE = {
    "bin 32": b"\xc6\x7f\xff\xff\xff",
    "ext 32": b"\xc9\x7f\xff\xff\xff\x01",
    "str 32": b"\xdb\xff\xff\xff\xff",
    "array 32": b"\xdd\xff\xff\xff\xff",
    "map 32": b"\xdf\xff\xff\xff\xff",
    "map 32 of half the limit": b"\xdf" + (FRAME_BYTES // 2).to_bytes(4),
}


def split_all(pieces: list[bytes], limit: int = FRAME_BYTES) -> tuple[list[bytes], Unfinished | None]:
    framing, unfinished, found = Framing(limit), None, list[bytes]()
    for piece in pieces:
        frames, unfinished = framing.split(unfinished, piece)
        found += frames
    return found, unfinished


@given(arrays=st.lists(ARRAYS, max_size=4), cuts=st.lists(st.integers(0, 4000), max_size=6))
@settings(deadline=None)
def test_any_split_gives_the_same_values(arrays: list[list[Any]], cuts: list[int]) -> None:
    packed = [msgpack.packb(array) for array in arrays]
    stream = b"".join(packed)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    assert split_all([stream[start:end] for start, end in pairwise(edges)]) == (packed, None)


@given(array=ARRAYS)
@settings(deadline=None, max_examples=share_of(50))
def test_byte_at_a_time_every_value_ends_at_its_last_byte_and_no_sooner(array: list[Any]) -> None:
    packed = msgpack.packb(array)
    framing, unfinished = Framing(FRAME_BYTES), None
    for index in range(len(packed) - 1):
        frames, unfinished = framing.split(unfinished, packed[index : index + 1])
        assert (frames, unfinished is not None) == ([], True)
    assert framing.split(unfinished, packed[-1:]) == ([packed], None)


def test_one_framing_serves_many_connections_in_the_middle_of_their_values() -> None:
    framing, packed = Framing(FRAME_BYTES), [msgpack.packb([name, bytes(100)]) for name in "abc"]
    halves = [framing.split(None, value[:50])[1] for value in packed]
    assert framing.split(None, packed[0]) == ([packed[0]], None)
    assert [framing.split(half, value[50:]) for half, value in zip(halves, packed, strict=True)] == [
        ([value], None) for value in packed
    ]


def test_a_receive_of_many_megabytes_is_cut_like_any_other() -> None:
    large, small = msgpack.packb([bytes(700_000)]), msgpack.packb([1, "a"])
    stream = (small * 60_000 + large) * 3
    found, unfinished = split_all([stream])
    assert (len(found), b"".join(found) == stream, unfinished) == (180_003, True, None)


def test_a_value_of_the_limit_passes_and_one_byte_more_does_not() -> None:
    limit = 1_024
    whole = msgpack.packb([bytes(limit - 4)])
    assert len(whole) == limit
    for pieces in ([whole], [whole[:9], whole[9:]]):
        assert split_all(pieces, limit) == ([whole], None)
    beyond = msgpack.packb([bytes(limit - 3)])
    for pieces in ([beyond], [beyond[:9]]):
        with pytest.raises(ProtocolViolation, match="1024 are allowed"):
            split_all(pieces, limit)


def test_many_small_values_may_be_larger_than_the_limit_together() -> None:
    small = msgpack.packb([1, 2, 3])
    assert split_all([small * 1_000], limit=1_024) == ([small] * 1_000, None)


@pytest.mark.parametrize("lie", HEADERS_THAT_LIE.values(), ids=HEADERS_THAT_LIE.keys())
@pytest.mark.parametrize("split", [False, True], ids=["whole", "bytewise"])
def test_a_length_that_lies_is_refused_at_its_header(lie: bytes, split: bool) -> None:
    data = b"\x94\x00\x01\xa1m\x91\x81\xa1k" + lie
    with memory_below(300_000), pytest.raises(ProtocolViolation, match="are allowed"):
        split_all([bytes([byte]) for byte in data] if split else [data])


def test_nested_headers_that_lie_a_little_each_take_no_memory() -> None:
    # Every list announces 60,000 values: built as they are announced, these 3 KB would take half a gigabyte.
    bomb = b"\x91" + b"\xdc\xea\x60" * 1_000
    with memory_below(300_000), pytest.raises(ProtocolViolation, match="are allowed"):
        split_all([bomb])


@pytest.mark.parametrize("split", [False, True], ids=["whole", "in pieces"])
def test_deep_nesting_ends_in_a_value_or_a_violation(split: bool) -> None:
    deep = b"\x91" * 500_000 + b"\xc0"
    pieces = [deep[start : start + 1_000] for start in range(0, len(deep), 1_000)] if split else [deep]
    with memory_below(3_000_000):
        try:
            found, _ = split_all(pieces)
        except ProtocolViolation:
            found = [deep]
    assert found == [deep]


def test_what_is_no_array_is_not_waited_for() -> None:
    for head in (b"\xc6\x00\x00\xff\xff", b"\xdf\x00\x00\x00\xff", b"\xdb\x00\x00\xff\xff", b"\xa5abc"):
        with pytest.raises(ProtocolViolation, match="a frame is an array"):
            split_all([head])


def test_the_byte_that_begins_nothing_is_refused_wherever_it_stands() -> None:
    for data in (b"\xc1", b"\x92\x01\xc1", b"\x93\x01\xc1"):
        for pieces in ([data], [bytes([byte]) for byte in data]):
            with pytest.raises(ProtocolViolation):
                split_all(pieces)


def test_after_a_violation_the_others_are_served_as_before() -> None:
    framing, good = Framing(1_024), msgpack.packb([1])
    for bad in (b"\x91\xc1", b"\x91" * 1_100, msgpack.packb([bytes(2_000)]), b"\x91\xdd\xff\xff\xff\xff"):
        with pytest.raises(ProtocolViolation):
            framing.split(None, bad + good)
        assert framing.split(None, good) == ([good], None)


@given(data=st.binary(max_size=400), split=st.integers(0, 400))
@settings(deadline=None, max_examples=share_of(300))
def test_random_bytes_give_values_or_a_violation(data: bytes, split: int) -> None:
    try:
        found, unfinished = split_all([data[:split], data[split:]])
    except ProtocolViolation:
        return
    rest = b"" if unfinished is None else bytes(unfinished.data)
    assert b"".join(found) + rest == data


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Python's own memory, at its peak, while the block runs; `msgpack`'s buffers are the size of what they are fed."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit, peak
