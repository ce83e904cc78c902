"""Who answers Fetch: at once, or when there is enough to read.

What is read and not yet taken by the clients is memory: the fuller it is, the less one fetch is given, down to the one
batch that every reader needs to get on.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable

from coordinator.core import Core
from coordinator.fetching import DelayedFetch, FetchReady, each_once
from coordinator.gates import watch_gate
from coordinator.moment import Moment
from protocol.messages.data import Fetch, FetchReply
from protocol.session import RequestRef

_SHARE = 8
"""One fetch is given no more than the eighth of what there is room for."""
_ENTRIES_A_WAITING_FETCH = 20


def fetch(core: Core, ref: RequestRef, message: Fetch, moment: Moment) -> None:
    """Records out, at once or when there are enough."""
    message = each_once(message)
    if watch_gate(core):
        _answer(core, ref, message)  # as if its time were over
        return
    found = core.topics.fetch(ref, message, moment, _room(core))
    if not isinstance(found, DelayedFetch):
        _send(core, ref, found)
    elif core.fetches.watched + len(found.nudged_by) > core.config.max_watched_partitions:
        _answer(core, ref, message)
    else:
        core.fetches.add(ref, len(found.nudged_by))
        for ready in core.purgatory.try_complete_else_watch(found, found.nudged_by):
            fetch_ready(core, ready)


def fetch_ready(core: Core, ready: FetchReady) -> None:
    """One has waited long enough."""
    core.fetches.remove(ready.ref)
    _answer(core, ready.ref, ready.message)


def _answer(core: Core, ref: RequestRef, message: Fetch) -> None:
    _send(core, ref, core.topics.fetch_now(message, _room(core)))


def _send(core: Core, ref: RequestRef, reply: FetchReply) -> None:
    size = sum([len(part.records) for topic in reply.responses for part in topic.partitions])
    core.read_bytes += size
    core.unsent_bytes += size
    core.outbox.send(ref, reply)


def _room(core: Core) -> int:
    return max(core.config.max_total_unsent_bytes - core.unsent_bytes, 0) // _SHARE


class Nudged:
    """Fetches that wait for partitions with new records, and are yet to be looked at."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: OrderedDict[Hashable, None] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def add(self, keys: Iterable[Hashable]) -> None:
        self._keys.update(dict.fromkeys(keys))

    def go_on(self, core: Core, entries: int, most_bytes: int) -> None:
        """Answer those that have enough now, a slice a step: many may wait for one partition, and each for many."""
        keys = self._keys
        while keys and entries > 0 and core.read_bytes < most_bytes:
            key, _ = keys.popitem(last=False)
            waiting = core.purgatory.get(key)
            if isinstance(waiting, DelayedFetch):
                entries -= _ENTRIES_A_WAITING_FETCH + len(waiting.nudged_by)
                for ready in core.purgatory.check_and_complete(key):
                    fetch_ready(core, ready)
