"""Unread records over time, as looks have seen them: producers choose the timestamps of records, so an old one does not
show that its record has been there for long."""

from collections.abc import Mapping
from typing import NamedTuple

from diagnosis.assignments import Key
from diagnosis.problem import OVERDUE_MS, Evidence, Progress


class Backlog(NamedTuple):
    """End that a partition had at a wall time, when the group had not read all of it."""

    end: int
    at_ms: int


def is_there_for_long(one: Progress, before: Mapping[Key, Backlog], now_ms: int) -> bool:
    """Return true if looks show that the first unread record has been there for `OVERDUE_MS`. `before`: what earlier
    looks saw of the group."""
    was, start = before.get((one.topic, one.partition)), one.first_unread
    return was is not None and start is not None and start < was.end and now_ms - was.at_ms >= OVERDUE_MS


def backlogs(evidence: Evidence, before: Mapping[Key, Backlog]) -> dict[Key, Backlog]:
    """Return what the next look must know of each partition with unread records: the earliest end behind the first of
    them. Without members nobody reads."""
    found: dict[Key, Backlog] = {}
    for one in evidence.progress if evidence.group.members else ():
        key, start = (one.topic, one.partition), one.first_unread
        if start is None or one.end is None or not one.lag:
            continue
        was = before.get(key)
        if was is not None and start < was.end:
            found[key] = was
        else:
            # Overdue by its timestamp alone: no look was made before.
            found[key] = Backlog(one.end, evidence.now_ms - (OVERDUE_MS if one.is_overdue else 0))
    return found
