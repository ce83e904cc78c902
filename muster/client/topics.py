"""Requests for topics and offsets, assigned or not; shared by consumers and members."""

from collections.abc import Iterable, Mapping
from typing import Any

from membership.events import MemberEffect, TimePassed
from membership.topic_partition import TopicPartition
from muster.client.steps import Procedure, WaitUntil
from muster.core.completions import Partitions
from muster.core.fetching.settings import Isolation, isolation
from muster.core.lookups import BEGIN, END, LookedUp, Lookups, times_in_ms
from muster.net.cores import Driven


class TopicProcedures:
    """Sends requests to the partitions' leaders."""

    def __init__(self, runner: Any, lookups: Lookups) -> None:
        self._runner = runner
        self._driver = runner.driver
        self._lookups = lookups
        self._looking_up = Driven(lookups, ignore)
        self._driver.add(self._looking_up)

    def _partitions_for(self, topic: str, timeout_s: float) -> Procedure[Partitions]:
        found = yield from self._look_up((topic,), {}, timeout_s)
        return tuple(TopicPartition(topic, number) for number in range(found.counts[topic]))

    def _begin_offsets(
        self, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> Procedure[dict[TopicPartition, int]]:
        return dict((yield from self._look_up((), dict.fromkeys(partitions, BEGIN), timeout_s)).offsets)

    def _end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_s: float, isolation_level: str | None = None
    ) -> Procedure[dict[TopicPartition, int]]:
        level = None if isolation_level is None else isolation(isolation_level)
        return dict((yield from self._look_up((), dict.fromkeys(partitions, END), timeout_s, (), level)).offsets)

    def _offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_s: float
    ) -> Procedure[dict[TopicPartition, int | None]]:
        found = (yield from self._look_up((), times_in_ms(times), timeout_s)).offsets
        return {one: None if offset < 0 else offset for one, offset in found.items()}

    def _look_up(
        self,
        topics: Iterable[str],
        times: Mapping[TopicPartition, int],
        timeout_s: float,
        led: Iterable[TopicPartition] = (),
        level: Isolation | None = None,
    ) -> Procedure[LookedUp]:
        runner, lookups, refusals = self._runner, self._lookups, self._driver.refusals
        number = lookups.ask(topics, times, led, level)
        try:
            self._driver.feed(self._looking_up, TimePassed())
            yield WaitUntil(lambda: lookups.is_over(number) or runner.is_closed or not refusals.is_clear, timeout_s)
            runner.check_open()
            if not lookups.is_over(number):
                refusals.raise_last()
        except BaseException:
            lookups.forget(number)
            raise
        return lookups.take(number, self._driver.trouble)


def ignore(_effect: MemberEffect) -> None:
    """Ignore an effect: lookups and fetchers have only requests."""
