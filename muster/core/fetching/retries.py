"""Pauses before retries."""

from collections.abc import Callable

from membership.backoff import backoff_ms
from membership.topic_partition import TopicPartition
from muster.core.fetching.leaders import Leaders
from muster.core.fetching.settings import FetchSettings
from muster.core.positions import Position


class Retries:
    """Growing pauses, of each partition by itself (docs/spec/consumer-client.md#A1, retry.backoff.ms). `now_ms` is the
    fetcher's."""

    def __init__(self, settings: FetchSettings, leaders: Leaders, jitter: Callable[[], float]) -> None:
        self.now_ms = 0
        self._settings = settings
        self._leaders = leaders
        self._jitter = jitter

    def at_ms(self, failures: int) -> int:
        """Return the time of the next attempt after this number of earlier failures."""
        settings = self._settings
        return self.now_ms + backoff_ms(
            settings.retry_backoff_ms, settings.retry_backoff_max_ms, failures, self._jitter()
        )

    def later(self, position: Position) -> None:
        position.retry_at_ms = self.at_ms(position.failures)
        position.failures += 1

    def elsewhere(self, one: TopicPartition, position: Position) -> None:
        """Look up the leader again, and retry after a pause."""
        self._leaders.doubt(one)
        self.later(position)
