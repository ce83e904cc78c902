"""The shortest history that still shows a difference: steps are left out as long as it does."""

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
    while True:
        shorter = await _shorter(history, shows)
        if shorter is None:
            return history
        history = shorter


async def _shorter(history: History, shows: Shows) -> History | None:
    """Without one stretch of its steps, or without all the stretches that it does not need one by one."""
    stretches = _stretches(len(history.steps))
    shown = await asyncio.gather(*[shows(_without(history, [stretch])) for stretch in stretches])
    spare = [stretch for stretch, at in zip(stretches, shown, strict=True) if at is not None]
    if not spare:
        return None
    single = [stretch for stretch in spare if len(stretch) == 1]
    together = [spare, single, single[::2], single[1::2]]
    tried = [_without(history, stretches) for stretches in together if len(stretches) > 1]
    found = await asyncio.gather(*[shows(one) for one in tried])
    best = [_until(one, at) for one, at in zip(tried, found, strict=True) if at is not None]
    longest = max(spare, key=len)
    return min([*best, _without(history, [longest])], key=lambda one: len(one.steps))


def _stretches(count: int) -> list[range]:
    """Halves, quarters, and so on to single steps; never all of it."""
    stretches = []
    length = count // 2
    while length:
        stretches += [range(start, min(start + length, count)) for start in range(0, count, length)]
        length //= 2
    return stretches if count > 1 else []


def _without(history: History, stretches: list[range]) -> History:
    left_out = {number for stretch in stretches for number in stretch}
    steps = tuple([step for number, step in enumerate(history.steps) if number not in left_out])
    return replace(history, steps=steps)


def _until(history: History, at: int) -> History:
    return replace(history, steps=history.steps[: at + 1])
