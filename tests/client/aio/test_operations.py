"""Operations that are awaited in an event loop."""

import asyncio
from functools import partial

import pytest

from membership.events import CommitDone, NodeAddress
from muster import WokenUp
from muster.aio.runner import LoopRunner
from muster.client.operations import Operations
from muster.client.steps import call_application
from muster.core.completions import Done
from muster.net.bootstrap import Bootstrap
from protocol.errors import ErrorCode


@pytest.fixture
def runner() -> LoopRunner:
    return LoopRunner(Bootstrap((NodeAddress("nobody", 1),)), "c", "consumer")


@pytest.fixture
def operations(runner: LoopRunner) -> Operations:
    return Operations(runner.driver.changed.notify_all)


def done(number: int) -> CommitDone:
    return CommitDone(number, ErrorCode.NONE, {})


async def test_whoever_waits_is_given_what_became_of_it(operations: Operations, runner: LoopRunner) -> None:
    number = operations.number()
    waiting = asyncio.create_task(runner.run(operations.wait_for(number, CommitDone, 10)))
    await asyncio.sleep(0)
    operations.ended(done(number))
    operations.wake()
    with pytest.raises(WokenUp):
        await waiting
    assert not operations.is_done(number), "nobody will ask again"
    again = operations.number()
    operations.ended(done(again))
    assert await runner.run(operations.wait_for(again, CommitDone, 0)) == done(again)


@pytest.mark.parametrize("ends", [True, False])
async def test_a_wait_that_is_cancelled_leaves_nothing_behind(
    operations: Operations, runner: LoopRunner, *, ends: bool
) -> None:
    number = operations.number()
    waiting = asyncio.create_task(runner.run(operations.wait_for(number, CommitDone, 10)))
    await asyncio.sleep(0)
    if ends:
        operations.ended(done(number))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not ends:
        operations.ended(done(number))
    assert not operations.is_done(number)


async def test_callbacks_come_in_the_order_of_the_ends_and_each_to_its_end(
    operations: Operations, runner: LoopRunner
) -> None:
    told = list[int]()

    async def later(one: Done) -> None:
        await asyncio.sleep(0)
        told.append(one.operation)

    def at_once(one: Done) -> None:
        told.append(one.operation)

    numbers = [
        operations.number_with_callback(partial(call_application, callback)) for callback in (later, at_once, later)
    ]
    for number in reversed(numbers):
        operations.ended(done(number))
    await runner.run(operations.finish_later_ones(0))
    assert told == numbers[::-1]
