"""A Ctrl-C, or an exception that nobody expects, in the middle of handing out: nothing is skipped."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from muster.core.fetching import records as records_module
from muster.core.fetching.records import ConsumerRecord
from tests.client.fetching.world import P0, P1, World


def once_interrupted(wrapped: Callable[..., Any], at_call: int) -> Callable[..., Any]:
    """Interrupted at its n-th call, and at no other."""
    calls = iter(range(1, 1_000))

    def call(*arguments: Any) -> Any:
        if next(calls) == at_call:
            raise KeyboardInterrupt
        return wrapped(*arguments)

    return call


@pytest.mark.parametrize("at_call", [1, 2, 3])
@pytest.mark.parametrize("what", ["check_batch", "record_bytes", "decode_as"])
def test_a_batch_whose_reading_was_interrupted_is_read_again(
    what: str, at_call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, what, once_interrupted(getattr(records_module, what), at_call))
    world = World(0)
    for _ in range(3):
        world.append(P0, 2)
    world.rest(1_000)
    seen: list[int] = []
    interruptions = 0
    for _ in range(10):
        try:
            seen += world.offsets(most=3)
        except KeyboardInterrupt:
            interruptions += 1
    assert (seen, interruptions) == (list(range(6)), 1)


def test_what_was_taken_of_another_partition_before_an_interruption_is_there() -> None:
    """Its position is past it: whoever has the list can go back."""
    world = World(0, 1, value_deserializer=once_interrupted(int, 4))
    world.append(P0, 3)
    world.append(P1, 3)
    world.rest(1_000)
    taken = deque[ConsumerRecord]()
    with pytest.raises(KeyboardInterrupt):
        world.fetcher.take_into(taken, 500)
    assert [(one.partition, one.offset) for one in taken] == [(0, 0), (0, 1), (0, 2)]
    assert world.subscription.positions() == {P0: 3, P1: 0}
    assert [(one.partition, one.offset) for one in world.poll(1_000)] == [(1, 0), (1, 1), (1, 2)]
