"""Errands that are awaited in an event loop."""

import asyncio

import pytest

from muster import WokenUp
from muster.aio.changed import Changed
from muster.aio.errands import Errands
from muster.aio.one_user import OneUser
from muster.events import CommitDone
from muster.outcomes import Done
from protocol.errors import ErrorCode


@pytest.fixture
def errands() -> Errands:
    changed = Changed()
    return Errands(changed, OneUser("consumer", changed))


def done(number: int) -> CommitDone:
    return CommitDone(number, ErrorCode.NONE, {})


async def test_whoever_waits_is_given_what_became_of_it(errands: Errands) -> None:
    number = errands.number()
    waiting = asyncio.create_task(errands.wait_for(number, CommitDone, 10))
    await asyncio.sleep(0)
    errands.ended(done(number))
    errands.wake()
    with pytest.raises(WokenUp):
        await waiting
    assert not errands.is_done(number), "nobody will ask again"
    again = errands.number()
    errands.ended(done(again))
    assert await errands.wait_for(again, CommitDone, 0) == done(again)


@pytest.mark.parametrize("ends", [True, False])
async def test_a_wait_that_is_cancelled_leaves_nothing_behind(errands: Errands, *, ends: bool) -> None:
    number = errands.number()
    waiting = asyncio.create_task(errands.wait_for(number, CommitDone, 10))
    await asyncio.sleep(0)
    if ends:
        errands.ended(done(number))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not ends:
        errands.ended(done(number))
    assert not errands.is_done(number)


async def test_callbacks_come_in_the_order_of_the_ends_and_each_to_its_end(errands: Errands) -> None:
    told = list[int]()

    async def later(one: Done) -> None:
        await asyncio.sleep(0)
        told.append(one.errand)

    def at_once(one: Done) -> None:
        told.append(one.errand)

    numbers = [errands.number_later(callback) for callback in (later, at_once, later)]
    for number in reversed(numbers):
        errands.ended(done(number))
    await errands.finish_later_ones(0)
    assert told == numbers[::-1]
