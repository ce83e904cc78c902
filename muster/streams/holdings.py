"""The partitions that a connector owns, and their streams (docs/spec/consumer-client.md#D2), which a rebalance stops,
clears, publishes and starts. The caller holds the connector's lock.
"""

from collections.abc import Mapping

from membership.events import Grant, OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.core.fetching.settings import Grants
from muster.streams.events import Owned
from muster.streams.queue import DeliveryLease, PartitionInfo, StreamQueue
from muster.streams.stream_fetcher import Registry, StreamFetcher


class Holdings:
    """Owned partitions and their queues. `queues` has those of each topic, by thread; with a pattern, all matching
    topics share those under None."""

    def __init__(
        self,
        group_id: str,
        lease: DeliveryLease,
        fetcher: StreamFetcher,
        queues: Mapping[str | None, tuple[StreamQueue, ...]],
    ) -> None:
        self._group_id = group_id
        self._lease = lease
        self._fetcher = fetcher
        self._queues = queues
        self._registry: Registry = {}
        self.is_published = False
        self.member_id = ""
        self.generation_id = -1

    # -- the steps of a rebalance, in the order of docs/spec/consumer-client.md#E3

    def stop(self) -> None:
        """S2: stop the queues, so that no more messages are added."""
        self._fetcher.stop()

    def clear(self) -> None:
        """S3: drop queued messages, so that none of the old epoch is returned."""
        self._lease.epoch += 1
        for queue in self._all():
            queue.clear()

    def end(self) -> None:
        """S3 for the last time: end the streams."""
        self._lease.epoch += 1
        for queue in self._all():
            queue.end()

    def forget(self) -> None:
        """S6: forget all owned partitions, which are released."""
        self._registry = {}
        self.is_published = False

    def publish(
        self,
        threads: Mapping[TopicPartition, int],
        grants: Mapping[TopicPartition, Grant],
        member_id: str,
        generation_id: int,
    ) -> None:
        """S9 and S11: attach granted partitions to the queues of their threads, each from the offset of its grant."""
        self._registry = {
            one: (
                PartitionInfo(one, thread, grants[one].epoch, grants[one].committed, grants[one].committed),
                self._queues_of(one.topic)[thread],
            )
            for one, thread in sorted(threads.items())
        }
        self.member_id, self.generation_id = member_id, generation_id
        self.is_published = True

    def start(self) -> None:
        """S13: let messages be returned."""
        self._fetcher.start(self._registry, Grants(self._group_id, self.member_id, self.epochs()))

    # -- queries

    def epochs(self) -> dict[TopicPartition, int]:
        """Return the epochs of the grants held."""
        return {one: info.epoch for one, (info, _) in self._registry.items()}

    def consumed(self) -> dict[TopicPartition, OffsetToCommit]:
        """Return the offsets to commit of owned partitions."""
        self._fetcher.settle()
        return {
            one: OffsetToCommit(info.consumed, owner_epoch=info.epoch)
            for one, (info, _) in self._registry.items()
            if info.consumed is not None
        }

    def owned(self) -> Owned:
        owned: dict[str, dict[int, int]] = {}
        for one, (info, _) in self._registry.items():
            owned.setdefault(one.topic, {})[one.partition] = info.thread
        return owned

    @property
    def has_in_hand(self) -> bool:
        """True if the application is still processing a message of an owned partition."""
        return any(
            (held := queue.in_hand) is not None and self._registry.get(held.partition, (None, None))[0] is held
            for queue in self._all()
        )

    def _all(self) -> list[StreamQueue]:
        return [queue for queues in self._queues.values() for queue in queues]

    def _queues_of(self, topic: str) -> tuple[StreamQueue, ...]:
        return self._queues[topic] if topic in self._queues else self._queues[None]
