"""Completion of delayed fetches, of both kinds of request."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable

from coordinator.core.budget import COST_A_STEP
from coordinator.core.core import Core
from coordinator.handlers.fetch import answer
from coordinator.handlers.fetch_registered import answer_registered
from coordinator.topics.fetch import DelayedFetch, FetchReady
from protocol.messages.balanced import FetchRegistered

_COST_OF_A_WAITING_FETCH = 20


def fetch_ready(core: Core, ready: FetchReady) -> None:
    """Answer a delayed fetch that is complete or overdue."""
    core.fetches.remove(ready.ref)
    if isinstance(ready.message, FetchRegistered):
        answer_registered(core, ready.ref, ready.message)
    else:
        answer(core, ready.ref, ready.message)


class WokenFetches:
    """Woken fetches: delayed fetches of partitions with new records, whose conditions are yet to be checked."""

    __slots__ = ("keys",)

    def __init__(self) -> None:
        self.keys: OrderedDict[Hashable, None] = OrderedDict()

    def add(self, keys: Iterable[Hashable]) -> None:
        self.keys.update(dict.fromkeys(keys))

    def continue_checks(self, core: Core) -> None:
        """Answer those that have enough now, a slice a step: many may wait for one partition, and each for many."""
        keys, entries = self.keys, COST_A_STEP
        while keys and entries > 0 and not core.budget.has_read_enough:
            key, _ = keys.popitem(last=False)
            waiting = core.purgatory.get(key)
            if isinstance(waiting, DelayedFetch):
                entries -= _COST_OF_A_WAITING_FETCH + len(waiting.notified_by)
                for ready in core.purgatory.check_and_complete(key):
                    fetch_ready(core, ready)
