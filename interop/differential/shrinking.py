"""The shortest history that still shows a difference: steps are left out as long as it does."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from interop.differential.steps import History, Step

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
        shorter = _candidates(history.steps)
        shown = await asyncio.gather(*[shows(_with(history, steps)) for steps in shorter])
        found = [(steps[: at + 1]) for steps, at in zip(shorter, shown, strict=True) if at is not None]
        if not found:
            return history
        history = _with(history, min(found, key=len))


def _candidates(steps: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """All without one stretch of them: halves, quarters, and so on to single steps."""
    candidates = []
    length = max(len(steps) // 2, 1)
    while length:
        candidates += [steps[:start] + steps[start + length :] for start in range(0, len(steps), length)]
        length //= 2
    return [candidate for candidate in candidates if candidate]


def _until(history: History, at: int) -> History:
    return _with(history, history.steps[: at + 1])


def _with(history: History, steps: tuple[Step, ...]) -> History:
    return msgspec.structs.replace(history, steps=steps)
