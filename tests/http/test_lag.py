"""Sums of a group's lag, against the lines that they are sums of."""

import random

from coordinator.http.lag import GroupPartitions, KnownEnds, LagTotal, PartitionEnd, lag_total, lags, oldest_ms
from protocol.messages.groups import DescribedGroup


def test_totals_are_the_sums_of_the_lines() -> None:
    chance = random.Random(7)
    unknown = 0
    for _ in range(500):
        keys = [("orders", number) for number in range(chance.randrange(6))]
        committed = {key: chance.randrange(90) for key in keys if chance.random() < 0.6}
        known = KnownEnds(ends={key: _end(chance) for key in keys}, begins={key: _end(chance) for key in keys})
        its = GroupPartitions(keys, committed)
        lines = list(lags(DescribedGroup("g"), its, known))
        counted = [line.lag for line in lines if line.lag is not None]
        lag = sum(counted) if counted or not lines else None
        assert lag_total(its, known) == LagTotal(len(lines), lag, oldest_ms(lines))
        unknown += lag is None
    assert 0 < unknown < 500


def _end(chance: random.Random) -> PartitionEnd | None:
    return chance.choice((None, PartitionEnd(None), PartitionEnd(60), PartitionEnd(120, chance.randrange(2_000))))
