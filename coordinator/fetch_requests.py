"""Who answers Fetch: at once, or when there is enough to read.

What is read and not yet taken by the clients is memory: the fuller it is, the less one fetch is given, down to the one
batch that every reader needs to get on.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable

import msgspec

from coordinator.core import Core
from coordinator.fetching import DelayedFetch, FetchReady, each_once
from coordinator.gates import watch_gate
from coordinator.groups.ownership import Key
from coordinator.moment import Moment
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchPartitionReply, FetchReply, FetchTopicReply
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
    if lost_grants(core, message):
        _answer(core, ref, message)
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
    lost = lost_grants(core, message)
    reply = core.topics.fetch_now(_without(message, lost) if lost else message, _room(core))
    if lost:
        refused = tuple(
            FetchTopicReply(topic, (FetchPartitionReply(number, ErrorCode.NOT_OWNER),)) for topic, number in lost
        )
        reply = msgspec.structs.replace(reply, responses=reply.responses + refused)
    _send(core, ref, reply)


def lost_grants(core: Core, message: Fetch) -> dict[Key, None]:
    """Of the grants by which it wants to read, those that do not hold (consumer-client E2)."""
    if not message.group_id:
        return {}
    group = core.find(message.group_id)[1]
    owners = group.owners if group is not None else None
    return {
        (topic.topic, part.partition): None
        for topic in message.topics
        for part in topic.partitions
        if part.owner_epoch >= 0
        and (
            owners is None or not owners.is_held_by((topic.topic, part.partition), message.member_id, part.owner_epoch)
        )
    }


def _without(message: Fetch, lost: dict[Key, None]) -> Fetch:
    topics = [
        msgspec.structs.replace(
            topic, partitions=tuple([part for part in topic.partitions if (topic.topic, part.partition) not in lost])
        )
        for topic in message.topics
    ]
    return msgspec.structs.replace(message, topics=tuple([topic for topic in topics if topic.partitions]))


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
