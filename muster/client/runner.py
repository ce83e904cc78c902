"""The edge of a client: a driver for its cores, and a runner for its procedures."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from membership.events import MemberEffect, MemberEvent
from muster.client.steps import Procedure
from muster.net.cores import Driven
from muster.net.refusals import Refusals

R = TypeVar("R")


class Notified(Protocol):
    """A condition that a client's callers wait for."""

    def notify_all(self) -> None: ...


class CoreDriver(Protocol):
    """Connects cores with servers, and wakes them in time."""

    changed: Any
    """Notified whenever anything happens (`Notified`)."""
    has_ever_connected: bool
    last_failure: str
    refusals: Refusals
    on_failure: Callable[[], None]

    def time(self) -> float:
        """Seconds of a clock that goes on, whatever happens to the wall's."""

    def now_ms(self) -> int:
        """Milliseconds of the clock that cores are told."""

    def jitter(self) -> float:
        """A number in [0, 1), for backoffs."""

    @property
    def trouble(self) -> str: ...

    def add(self, driven: Driven) -> None: ...

    def feed(self, driven: Driven, event: MemberEvent) -> None: ...

    def carry_out(self, driven: Driven, action: Callable[[int], list[MemberEffect]]) -> None: ...


class Runner(Protocol):
    """Runs procedures for the application's thread or tasks, and guards who may call."""

    driver: Any

    def check_open(self) -> None:
        """Raises ClientClosed, where a procedure that goes on may find the client closed by somebody else."""

    @property
    def is_closing(self) -> bool:
        """True if another task wants the client closed, and the procedure that runs to end."""

    @property
    def is_closed(self) -> bool: ...

    def entered(self) -> AbstractContextManager[object]:
        """For a caller that does not wait, with the lock. Raises ClientClosed, ConcurrentUse."""

    def locked(self) -> AbstractContextManager[object]:
        """For what may be asked at any time, by anybody."""


class RunsProcedures(Protocol[R]):
    """A runner's `run`."""

    def __call__(self, procedure: Procedure[R]) -> R: ...
