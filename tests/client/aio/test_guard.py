"""Tasks that may call an asyncio client, and the work that ends though they are cancelled."""

import asyncio

import pytest

from muster import ClientClosed, ConcurrentUse
from muster.aio.guard import TaskGuard, said_to
from muster.net.notification import Changed


@pytest.fixture
def user() -> TaskGuard:
    return TaskGuard("consumer", Changed())


async def ready(task: "asyncio.Task[None]") -> None:
    """Let it come to where it waits."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()


async def test_a_second_task_is_refused_until_the_first_has_left(user: TaskGuard) -> None:
    leave = asyncio.Event()

    async def stay() -> None:
        with user.alone(), user.alone():
            await leave.wait()

    first = asyncio.create_task(stay())
    await ready(first)
    with pytest.raises(ConcurrentUse, match="in use by another task"), user.alone():
        pass
    user.check_open()
    leave.set()
    await first
    with user.alone():
        pass


async def test_whoever_closes_waits_for_whoever_is_inside_and_nobody_else_comes_in(user: TaskGuard) -> None:
    leave = asyncio.Event()

    async def stay() -> None:
        with user.alone():
            await leave.wait()
            with pytest.raises(ClientClosed):
                user.check_open()

    inside = asyncio.create_task(stay())
    await ready(inside)
    closing = asyncio.create_task(user.begin_to_close(10))
    await ready(closing)  # type: ignore[arg-type]
    with pytest.raises(ClientClosed), user.alone():
        pass
    second = asyncio.create_task(user.begin_to_close(10))
    await ready(second)  # type: ignore[arg-type]
    leave.set()
    assert await closing
    assert not second.done()
    user.closed()
    assert not await second
    assert not await user.begin_to_close(10)
    with pytest.raises(ClientClosed):
        user.check_open()
    await inside


async def test_whoever_closes_may_still_call(user: TaskGuard) -> None:
    assert await user.begin_to_close(1)
    user.check_open()


async def test_what_was_begun_goes_on_when_its_caller_is_cancelled_and_the_next_waits_for_it(user: TaskGuard) -> None:
    go_on, done = asyncio.Event(), list[str]()

    async def work() -> None:
        await go_on.wait()
        done.append("work")
        raise LookupError("once")

    caller = asyncio.create_task(user.call(work()))
    await ready(caller)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    waiting = [asyncio.create_task(user.finish()) for _ in range(2)]
    await ready(waiting[1])
    go_on.set()
    heard = await asyncio.gather(*waiting, return_exceptions=True)
    assert done == ["work"]
    assert sorted(type(one).__name__ for one in heard) == ["LookupError", "NoneType"], "it is raised once"
    await user.finish()


async def test_what_is_called_may_call_back_while_another_task_is_inside_or_closes(user: TaskGuard) -> None:
    done = list[str]()

    async def inner() -> None:
        done.append("inner")

    async def work() -> None:
        with user.alone():
            await user.finish()
            await user.call(inner())
        assert not await user.begin_to_close(1), "another is at it: a listener does not wait for it"
        done.append("work")

    with user.alone():
        assert await user.begin_to_close(1)
        await user.call(work())
    assert done == ["inner", "work"]


async def test_a_listener_that_closes_does_not_wait_for_the_poll_that_called_it(user: TaskGuard) -> None:
    async def work() -> None:
        assert await user.begin_to_close(30)
        user.closed()

    with user.alone():
        await user.call(work())
    assert user.is_closed


async def test_functions_and_coroutine_functions_are_both_listeners() -> None:
    told = list[object]()

    async def later(one: object) -> None:
        await asyncio.sleep(0)
        told.append(one)

    await said_to(None, 1)
    await said_to(told.append, 2)
    await said_to(later, 3)
    assert told == [2, 3]


async def test_a_wait_ends_with_the_next_change_or_the_time() -> None:
    changed = Changed()
    waiting = asyncio.create_task(changed.wait())
    await ready(waiting)
    changed.notify_all()
    await waiting
    await changed.wait(0)
    assert not await changed.wait_for(lambda: False, 0)
    assert await changed.wait_for(lambda: True)
    seen = list[int]()
    holds = asyncio.create_task(changed.wait_for(lambda: len(seen) == 2, 10))
    for number in range(2):
        await ready(holds)  # type: ignore[arg-type]
        seen.append(number)
        changed.notify_all()
    assert await holds
