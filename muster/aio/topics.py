"""What there is to read, assigned or not. Part of `Consumer` and `GroupMember`."""

from collections.abc import Iterable, Mapping

from muster.aio.driver import Driver
from muster.aio.one_user import OneUser
from muster.driven import Driven
from muster.events import Effect, Woke
from muster.lookups import BEGIN, END, Found, Lookups, times_in_ms
from muster.outcomes import Partitions
from muster.topic_partition import TopicPartition


class Topics:
    """Asks the leaders of partitions, from any task of the loop."""

    def __init__(self, lookups: Lookups, driver: Driver, one_user: OneUser) -> None:
        self._lookups = lookups
        self._driver = driver
        self._one_user = one_user
        self._looking_up = Driven(lookups, _ignore)
        driver.add(self._looking_up)

    async def partitions_for(self, topic: str, timeout_s: float = 30.0) -> Partitions:
        """All there are of this topic, for `assign`. Raises `Refused` for a topic that does not exist, `CannotConnect`,
        `RequestTimedOut`.
        """
        count = (await self._look_up((topic,), {}, timeout_s)).counts[topic]
        return tuple(TopicPartition(topic, number) for number in range(count))

    async def begin_offsets(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 30.0
    ) -> dict[TopicPartition, int]:
        """The first offset each partition still has. Raises as `partitions_for` does."""
        return dict((await self._look_up((), dict.fromkeys(partitions, BEGIN), timeout_s)).offsets)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 30.0
    ) -> dict[TopicPartition, int]:
        """The offset the next record of each partition will have; "read_committed": that of the first record of the
        oldest transaction that is open, if one is. Raises as `partitions_for` does.
        """
        return dict((await self._look_up((), dict.fromkeys(partitions, END), timeout_s)).offsets)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_s: float = 30.0
    ) -> dict[TopicPartition, int | None]:
        """The offset of the first record at or after each time, in milliseconds since 1970; None where no record is so
        late. Raises as `partitions_for` does, and ValueError.
        """
        found = (await self._look_up((), times_in_ms(times), timeout_s)).offsets
        return {one: None if offset < 0 else offset for one, offset in found.items()}

    async def _look_up(self, topics: Iterable[str], times: Mapping[TopicPartition, int], timeout_s: float) -> Found:
        self._one_user.check_open()
        lookups, refusals = self._lookups, self._driver.refusals
        number = lookups.ask(topics, times)
        self._driver.feed(self._looking_up, Woke())
        try:
            await self._driver.changed.wait_for(
                lambda: lookups.is_over(number) or self._one_user.is_closed or not refusals.is_told, timeout_s
            )
            self._one_user.check_open()
            if not lookups.is_over(number):
                refusals.raise_last()
        except BaseException:
            lookups.forget(number)
            raise
        return lookups.take(number, self._driver.trouble)


def _ignore(_effect: Effect) -> None:
    """Lookups ask for calls only."""
