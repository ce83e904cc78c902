"""A start ends as soon as it has failed, or a signal comes."""

import asyncio

import pytest

from coordinator.start.daemon import _either


async def test_the_error_of_a_start_ends_the_wait_for_a_signal() -> None:
    signalled = asyncio.Event()
    waiting = asyncio.create_task(_either(fail(), signalled.wait()))
    with pytest.raises(RuntimeError, match="no shard can be read"):
        await waiting


async def test_a_signal_cancels_a_start() -> None:
    signalled, was_cancelled = asyncio.Event(), asyncio.Event()

    async def load() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled.set()

    waiting = asyncio.create_task(_either(load(), signalled.wait()))
    await asyncio.sleep(0)
    signalled.set()
    await waiting
    await was_cancelled.wait()


async def fail() -> None:
    raise RuntimeError("no shard can be read")
