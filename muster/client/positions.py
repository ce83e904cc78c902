"""Positions of a consumer in its partitions, seeking and pausing: the calls that do not wait."""

from typing import Any

from membership.events import TimePassed
from membership.topic_partition import TopicPartition
from muster.client.topics import TopicProcedures, ignore
from muster.core.consumer_state import ConsumerState, Partitions
from muster.core.metrics.measured import MeasuredCore
from muster.net.cores import Driven
from protocol.errors import ErrorCode


class PositionProcedures(TopicProcedures):
    """Procedures for positions, which need no group."""

    def __init__(self, runner: Any, consuming: ConsumerState) -> None:
        super().__init__(runner, consuming.lookups)
        self._consuming = consuming
        self._driven = Driven(MeasuredCore(consuming.fetcher, consuming.metrics), ignore)
        self._driver.add(self._driven)

    @property
    def client_id(self) -> str:
        """The name that servers show for this client."""
        name: str = self._runner.client_id
        return name

    @property
    def assignment(self) -> Partitions:
        """Partitions that are read: assigned by the group and not revoked since, or chosen by hand. Sorted."""
        with self._runner.locked():
            return tuple(sorted(self._consuming.subscription.assigned))

    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record to return, of each assigned partition that has one."""
        with self._runner.locked():
            return dict(self._consuming.positions())

    def troubles(self) -> dict[TopicPartition, tuple[int, ErrorCode]]:
        """The assigned partitions that cannot be read at present, with their position and the error: `poll` returns
        records of the others meanwhile, and of these as soon as they can be read.
        """
        with self._runner.locked():
            return self._consuming.subscription.troubles()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Offsets between the position and the end; None while the end is not known, which requests it."""
        with self._runner.entered(), self._runner.locked():
            lag = self._consuming.current_lag(partition)
            if lag is None:
                self._look()
            return lag

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the position. Raises ValueError for an offset below 0, or a partition that is not assigned."""
        with self._runner.entered(), self._runner.locked():
            self._consuming.subscription.seek(partition, offset)
            self._consuming.drop_unread((partition,))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Set the positions at the next poll; without arguments, of all partitions."""
        with self._runner.entered(), self._runner.locked():
            self._consuming.subscription.seek_to_beginning(partitions)
            self._consuming.drop_unread(partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Set the positions at the next poll; without arguments, of all partitions."""
        with self._runner.entered(), self._runner.locked():
            self._consuming.subscription.seek_to_end(partitions)
            self._consuming.drop_unread(partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these until `resume`; fetched records are kept. They stay paused while they are
        assigned. Raises ValueError for a partition that is not.
        """
        with self._runner.entered(), self._runner.locked():
            self._consuming.subscription.pause(partitions)
            self._consuming.give_back(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these again. Raises ValueError for a partition that is not assigned."""
        with self._runner.entered(), self._runner.locked():
            self._consuming.subscription.resume(partitions)
            self._driver.changed.notify_all()

    @property
    def paused(self) -> Partitions:
        """Partitions that were paused and not resumed since."""
        with self._runner.locked():
            return self._consuming.subscription.paused

    def _look(self) -> None:
        """Make the fetcher check which partitions it may fetch now."""
        self._driver.feed(self._driven, TimePassed())
