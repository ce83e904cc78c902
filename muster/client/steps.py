"""The steps of a client's procedure, which a runner carries out.

A procedure is a generator that makes the decisions. It yields a step to wait, or to call the application; the runner of
a thread or of an event loop carries the step out and sends back its result. A procedure runs under the client's lock,
if there is one: the runner releases the lock while it waits, and while the application's code runs.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar


class Wait(NamedTuple):
    """Wait until anything happens to the client, or for the timeout."""

    timeout_s: float | None


class WaitUntil(NamedTuple):
    """Wait until the condition holds, or for the timeout; the result is whether it holds."""

    holds: Callable[[], bool]
    timeout_s: float | None


class CallApplication(NamedTuple):
    """Call a function of the application without the lock; in an event loop an awaitable result is awaited."""

    function: Callable[..., object]
    arguments: tuple[object, ...]


class Shield(NamedTuple):
    """Run a procedure to its end, even if the caller is cancelled meanwhile."""

    procedure: "Procedure[None]"


class FinishShielded(NamedTuple):
    """Wait for a procedure that an earlier, cancelled caller left running, and raise its exception."""


class YieldToLoop(NamedTuple):
    """Let other tasks of the loop run."""


Step = Wait | WaitUntil | CallApplication | Shield | FinishShielded | YieldToLoop

R = TypeVar("R")
Procedure = Generator[Step, Any, R]

FINISH_SHIELDED = FinishShielded()
LET_OTHERS_RUN = YieldToLoop()


def call_application(function: Callable[..., object] | None, *arguments: object) -> Procedure[None]:
    """Call a listener or a callback, if there is one."""
    if function is not None:
        yield CallApplication(function, arguments)
