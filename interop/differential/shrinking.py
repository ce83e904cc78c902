"""The shortest history that still shows a difference: steps are left out as long as it does, many before few."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from interop.differential.steps import History

Shows = Callable[[History], Awaitable[int | None]]
"""The number of the step at which a history shows the difference, None if it does not."""


async def shrunk(history: History, shows: Shows) -> History | None:
    """None for a difference that does not come again. All that can be left out is tried at once: most of a run is
    waiting."""
    at = await shows(history)
    if at is None:
        return None
    history = _until(history, at)
    length = max(len(history.steps) // 2, 1)
    while len(history.steps) > 1:
        shorter = await _shorter(history, shows, length)
        if shorter is not None:
            history = shorter
        elif length == 1:
            break
        length = min(max(length // 2, 1), max(len(history.steps) // 2, 1))
    return history


async def _shorter(history: History, shows: Shows, length: int) -> History | None:
    """Without a stretch of this length, or without all those that it does not need one by one."""
    stretches = [range(start, start + length) for start in range(0, len(history.steps), length)]
    shown = await asyncio.gather(*[shows(_without(history, [stretch])) for stretch in stretches])
    spare = [stretch for stretch, at in zip(stretches, shown, strict=True) if at is not None]
    if not spare:
        return None
    tried = [_without(history, some) for some in (spare, spare[::2], spare[1::2]) if len(some) > 1]
    found = await asyncio.gather(*[shows(one) for one in tried])
    best = [_until(one, at) for one, at in zip(tried, found, strict=True) if at is not None]
    return min([*best, _without(history, spare[:1])], key=lambda one: len(one.steps))


def _without(history: History, stretches: list[range]) -> History:
    left_out = {number for stretch in stretches for number in stretch}
    steps = tuple([step for number, step in enumerate(history.steps) if number not in left_out])
    return replace(history, steps=steps)


def _until(history: History, at: int) -> History:
    return replace(history, steps=history.steps[: at + 1])
