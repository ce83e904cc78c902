"""Moves messages from the fetcher into the queues, for owned partitions (docs/spec/consumer-client.md#D2, #D3).

Messages are put into queues only here, in a step under the connector's lock: once `stop` has returned no more are put
(docs/spec/consumer-client.md#E3.S2). A partition whose queue is full is not fetched, without delaying the others.
"""

from collections.abc import Callable, Mapping

from membership.events import MemberEffect, MemberEvent, TimePassed
from membership.topic_partition import TopicPartition
from muster.core.fetching.buffer import TakenRecords
from muster.core.fetching.fetcher import Fetcher
from muster.core.fetching.settings import FetchSettings, Grants
from muster.core.positions import ConsumerPositions
from muster.streams.events import GrantsLost
from muster.streams.queue import Chunk, DeliveryLease, PartitionInfo, StreamQueue
from protocol.errors import ErrorCode

Registry = Mapping[TopicPartition, tuple[PartitionInfo, StreamQueue]]


class StreamFetcher:
    """A fetcher whose records go into queues. `step` and `next_deadline_ms` are those of a core."""

    def __init__(self, settings: FetchSettings, lease: DeliveryLease, jitter: Callable[[], float]) -> None:
        self._subscription = ConsumerPositions()
        self._fetcher = Fetcher(self._subscription, settings, jitter)
        self._lease = lease
        self._registry: Registry = {}
        self._is_running = False

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        """Step the fetcher; may also return `GrantsLost`."""
        self._hold_back()
        effects = self._fetcher.step(event, now_ms)
        if self._move():
            effects += self._fetcher.step(TimePassed(), now_ms)
        lost = [one for one, at in self._subscription.items() if at.trouble == ErrorCode.NOT_OWNER]
        if lost:
            effects.append(GrantsLost(tuple(lost)))
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        return self._fetcher.next_deadline_ms

    def start(self, registry: Registry, grants: Grants) -> None:
        """Read these partitions from their consumed offsets, or by the reset policy. Call `step` with `TimePassed`
        next."""
        self._registry, self._is_running = registry, True
        self._fetcher.grants = grants
        self._fetcher.assign(registry)
        self._fetcher.begin({one: info.consumed for one, (info, _) in registry.items()})

    def stop(self) -> None:
        """Stop adding messages; consumed offsets are kept."""
        self.settle()
        self._is_running = False
        self._fetcher.assign(())

    def close(self, now_ms: int) -> list[MemberEffect]:
        """Close the fetcher."""
        return self._fetcher.close(now_ms)

    def settle(self) -> None:
        """Move consumed offsets to the positions of partitions whose queued messages are all consumed: past records
        that are not for the application, and to the target of a reset (docs/spec/consumer-client.md#D3), so that the
        next owner begins there, too.
        """
        if not self._is_running:
            return
        for info, _ in self._registry.values():
            position = self._subscription.at(info.partition)
            if not info.waiting and position is not None and position.offset is not None:
                info.consumed = info.fetched = position.offset

    def _hold_back(self) -> None:
        for info, queue in self._registry.values():
            position = self._subscription.at(info.partition)
            if position is not None:
                position.is_paused = queue.is_full or info.is_failed

    def _move(self) -> bool:
        """Move records into the queues; return true if there were any."""
        has_moved = False
        while (taken := self._fetcher.take_one()) is not None:
            has_moved = True
            info, queue = self._registry[taken.partition]
            if taken.records or taken.error is not None:
                self._put(info, queue, taken)
            elif info.fetched == taken.offset:
                info.fetched = taken.next_offset
            self._hold_back()
        return has_moved

    def _put(self, info: PartitionInfo, queue: StreamQueue, taken: TakenRecords) -> None:
        is_elsewhere = info.fetched is not None and taken.offset != info.fetched
        info.is_failed = taken.error is not None
        info.fetched = taken.next_offset
        info.waiting += 1
        if info.consumed is None:
            info.consumed = taken.offset
        chunk = Chunk(
            info, self._lease.epoch, taken.offset, taken.next_offset, taken.records, taken.error, is_elsewhere
        )
        queue.put(chunk)
