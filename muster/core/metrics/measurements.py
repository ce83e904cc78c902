"""Measurements of one quantity: totals since the start, and statistics over the last half minute to minute."""

from math import nan

SAMPLE_MS = 30_000
"""Kafka's metrics.sample.window.ms; two samples are kept (metrics.num.samples)."""


class _Sample:
    __slots__ = ("began_ms", "count", "largest", "total")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.count = 0
        self.total = self.largest = 0


class Measurements:
    """Measured values. Statistics are over the newest two samples of thirty seconds, as in Kafka."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self._samples: list[_Sample] = []

    def record(self, value: int, now_ms: int) -> None:
        """Add a value, which must not be below 0."""
        self.count += 1
        self.total += value
        if not self._samples or now_ms - self._samples[-1].began_ms >= SAMPLE_MS:
            self._samples = [*self._samples[-1:], _Sample(now_ms)]
        sample = self._samples[-1]
        sample.count += 1
        sample.total += value
        sample.largest = max(sample.largest, value)

    def mean(self, now_ms: int) -> float:
        """Return the mean; NaN if nothing was measured lately, as in Kafka."""
        recent = self._recent(now_ms)
        return sum(one.total for one in recent) / sum(one.count for one in recent) if recent else nan

    def largest(self, now_ms: int) -> float:
        """Return the maximum; NaN if nothing was measured lately, as in Kafka."""
        return max((one.largest for one in self._recent(now_ms)), default=nan)

    def rate(self, now_ms: int, *, of_values: bool = False) -> float:
        """Return the number of measurements a second; with `of_values`, the sum of their values a second."""
        recent = self._recent(now_ms)
        if not recent:
            return 0.0
        # A sample that has just begun counts as a whole one, so that its rate is not too high.
        span_ms = max(now_ms - recent[0].began_ms, SAMPLE_MS)
        return sum(one.total if of_values else one.count for one in recent) * 1000 / span_ms

    def _recent(self, now_ms: int) -> list[_Sample]:
        return [one for one in self._samples if now_ms - one.began_ms < 2 * SAMPLE_MS]


def seconds_since(at_ms: int | None, now_ms: int) -> float:
    """Return the seconds since a time; -1 if there was none yet, as in Kafka."""
    return -1.0 if at_ms is None else (now_ms - at_ms) / 1000
