"""A day of groups, minute by minute, as samples of the table `ends`: the speeds of all are known, so the figures of a
report are too.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)
MINUTES: Final = 24 * 60
PRODUCED: Final = (40, 10)
"""Records a minute of each partition."""


def _steady(minute: int) -> int:
    return 1_000


def _off_at_night(minute: int) -> int:
    """Sleeps from 1:30 to 3:00, and then reads twice what is written."""
    return 0 if 90 <= minute < 180 else 80


def _falls_behind(minute: int) -> int:
    """Reads half from 20:00 on."""
    return 20 if minute >= 1_200 else 1_000


def _comes_back(minute: int) -> int:
    """Stops for the last twelve hours but one, and reads three times what is written in the last."""
    return 0 if 720 <= minute < 1_380 else 120


GROUPS: Final[Mapping[str, Callable[[int], int]]] = {
    "steady": _steady,
    "off-at-night": _off_at_night,
    "falls-behind": _falls_behind,
    "comes-back": _comes_back,
}
"""Records that a group may read of each partition in a minute."""


WORKERS: Final = ("worker-1", "worker-2", "worker-3")
"""Clients that take turns in beginning a rebalance of each group, once an hour."""


class Moment(NamedTuple):
    """A partition of a group at the end of a minute."""

    offset: int
    end: int

    @property
    def lag(self) -> int:
        return self.end - self.offset


def history(group: str) -> list[list[Moment]]:
    """Return the minutes of each partition, from 0 to the day's last."""
    found = []
    for produced in PRODUCED:
        moments, offset, end = [Moment(0, 0)], 0, 0
        for minute in range(1, MINUTES + 1):
            end += produced
            offset = min(end, offset + GROUPS[group](minute))
            moments.append(Moment(offset, end))
        found.append(moments)
    return found


def samples() -> list[dict[str, Any]]:
    """Return the rows of the day."""
    return [
        {
            "time": BEGIN + timedelta(minutes=minute),
            "group": group,
            "topic": "orders",
            "partition": partition,
            "offset": at.offset,
            "log_end": at.end,
            "lag": at.lag,
        }
        for group in GROUPS
        for partition, moments in enumerate(history(group))
        for minute, at in enumerate(moments)
    ]


def lags(group: str) -> list[int]:
    """Return the group's lag, minute by minute."""
    return [sum(at.lag for at in partitions) for partitions in zip(*history(group), strict=True)]


def late_minutes(group: str, after: int) -> list[bool]:
    """Return by minute whether the oldest record that is not read has been there for so many minutes or longer."""
    late = [False] * (MINUTES + 1)
    for moments in history(group):
        arrived = 0
        for minute, at in enumerate(moments):
            while moments[arrived].end <= at.offset and arrived < minute:
                arrived += 1
            late[minute] |= at.lag > 0 and minute - arrived >= after
    return late


def rebalance_ms(hour: int) -> int:
    """Return the duration of the rebalance of this hour."""
    return 1_000 + 100 * hour


def moved(hour: int) -> tuple[int, int] | None:
    """Return the partitions that moved in the rebalance of this hour, and those that did not; None of the first."""
    return (hour % 5, 10 - hour % 5) if hour else None


def notes() -> list[dict[str, Any]]:
    """Return the notes of the day: a worker is restarted seven minutes past each hour, and awaited half of the time."""
    found: list[dict[str, Any]] = []
    for group in GROUPS:
        for hour in range(24):
            worker, began = WORKERS[hour % len(WORKERS)], BEGIN + timedelta(hours=hour, minutes=7)
            ended = began + timedelta(milliseconds=rebalance_ms(hour))
            common = {"group": group, "times": 1, "generation": hour + 1, "members": len(WORKERS)}
            begun = {"kind": "rebalance", "cause": "member joined", "client": worker, "host": "10.0.0.1"}
            completed = {"kind": "completed", "cause": "rebalance completed", "duration_ms": rebalance_ms(hour)}
            awaited = {"awaited_client": worker, "awaited_host": "10.0.0.1", "awaited_ms": rebalance_ms(hour) // 2}
            found.append(common | begun | {"number": 3 * hour, "time": began, "since": began})
            found.append(common | completed | awaited | {"number": 3 * hour + 1, "time": ended, "since": ended})
            if (partitions := moved(hour)) is not None:
                shared = dict(zip(("moved_partitions", "kept_partitions"), partitions, strict=True))
                assigned = {"kind": "assigned", "cause": "partitions assigned"} | shared
                found.append(common | assigned | {"number": 3 * hour + 2, "time": ended, "since": ended})
    return found


def commits() -> list[dict[str, Any]]:
    """Return the offsets as they are at the end of the day. Those of the last group expire in two days; one more has
    lost its partition."""
    read_at = BEGIN + timedelta(minutes=MINUTES)
    found: list[dict[str, Any]] = []
    for group in GROUPS:
        for partition, moments in enumerate(history(group)):
            at = moments[-1]
            place = {"group": group, "topic": "orders", "partition": partition, "read_at": read_at}
            logs = {"offset": at.offset, "exists": True, "log_start": 0, "log_end": at.end, "lag": at.lag}
            goes = {"expires_at": read_at + timedelta(days=2)} if group == "comes-back" else {}
            found.append(place | logs | goes)
    gone = {"group": "steady", "topic": "gone", "partition": 0, "offset": 1, "exists": False, "read_at": read_at}
    return [*found, gone]


def topics() -> list[dict[str, Any]]:
    """Return the topics: besides that of the groups two that nobody reads, and one of the cluster's own."""
    sizes = {"orders": MINUTES * sum(PRODUCED), "spare": 0, "audit": 5_000, "__consumer_offsets": 9_000}
    return [
        {"topic": name, "internal": name.startswith("__"), "partitions": 2, "records": records}
        for name, records in sizes.items()
    ]
