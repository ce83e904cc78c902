"""Commits and offset fetches of a blocking client: waited for, or heard of later in the application's own thread."""

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from muster.errors import CommitRefused, Refused, RequestTimedOut, WokenUp
from muster.events import CommitDone, OffsetsDone
from protocol.errors import ErrorCode

GRACE_S = 1.0
"""How much longer than its deadline an errand is waited for: the core ends it, in a thread that may come late."""

Done = CommitDone | OffsetsDone
D = TypeVar("D", CommitDone, OffsetsDone)


class Errands:
    """Guarded by `changed`, as the core is. Numbers are given once."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._made = 0
        self._done: dict[int, Done] = {}
        self._heard: dict[int, Callable[[Done], None]] = {}
        self._later: dict[int, Callable[[Done], None]] = {}
        self._finished: deque[tuple[Callable[[Done], None], Done]] = deque()
        self._is_woken = False

    def number(self) -> int:
        """For an errand that somebody waits for."""
        self._made += 1
        return self._made

    def number_heard(self, heard: Callable[[Done], None]) -> int:
        """For one that is heard of at once, in the thread that hears of it, under the lock."""
        number = self.number()
        self._heard[number] = heard
        return number

    def number_later(self, callback: Callable[[Done], None]) -> int:
        """For one that the application hears of in its own thread, from `run_callbacks`."""
        number = self.number()
        self._later[number] = callback
        return number

    def ended(self, done: Done) -> None:
        """In the thread, under the lock."""
        number = done.errand
        if number in self._heard:
            self._heard.pop(number)(done)
        elif number in self._later:
            self._finished.append((self._later.pop(number), done))
        else:
            self._done[number] = done

    def is_done(self, number: int) -> bool:
        return number in self._done

    def take(self, number: int) -> Done:
        """What became of it. KeyError if nothing has yet."""
        return self._done.pop(number)

    def wait_for(self, number: int, kind: type[D], timeout_s: float) -> D | None:
        """What became of it; None if nothing was heard in time. Raises WokenUp."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_woken or number in self._done, timeout_s + GRACE_S)
            self.raise_wakeup()
            done = self._done.pop(number, None)
        assert done is None or isinstance(done, kind)
        return done

    # -- commits nobody waits for

    @property
    def has_callbacks(self) -> bool:
        return bool(self._finished)

    def run_callbacks(self) -> None:
        """Of those that have ended, in that order; without the lock."""
        while True:
            with self._changed:
                if not self._finished:
                    return
                callback, done = self._finished.popleft()
            callback(done)

    def finish_later_ones(self, timeout_s: float) -> None:
        """Wait until all that were to be heard of later have ended, and run their callbacks."""
        with self._changed:
            self._changed.wait_for(lambda: not self._later, max(timeout_s, 0.0))
        self.run_callbacks()

    # -- being woken

    def wake(self) -> None:
        """From any thread: whoever waits, or waits next, is interrupted once."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def raise_wakeup(self) -> None:
        """Raises WokenUp, once a `wake`."""
        with self._changed:
            woken, self._is_woken = self._is_woken, False
        if woken:
            raise WokenUp("wakeup was called")

    @property
    def is_woken(self) -> bool:
        return self._is_woken

    def sleep_through(self) -> None:
        """Nobody is interrupted any more."""
        self._is_woken = False


def refusal(done: CommitDone) -> Refused:
    """Why nothing was stored, as what it is raised or handed over as."""
    match done.error_code:
        case ErrorCode.REBALANCE_IN_PROGRESS:
            sentence = "the group is rebalancing: poll, then commit what is still assigned"
        case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION | ErrorCode.FENCED_INSTANCE_ID:
            why = f" ({done.reason})" if done.reason else ""
            sentence = f"{done.error_code.name}: this member is no longer in the group{why}; poll to join again"
        case _:
            sentence = f"the commit was refused: {done.error_code.name}"
    return CommitRefused(done.error_code, sentence)


def raise_for(done: CommitDone | None, sentence: str) -> CommitDone:
    """It, if it went well. Raises RequestTimedOut with that sentence, or what `refusal` says."""
    if done is None or done.error_code == ErrorCode.REQUEST_TIMED_OUT:
        raise RequestTimedOut(sentence)
    if done.error_code != ErrorCode.NONE:
        raise refusal(done)
    return done
