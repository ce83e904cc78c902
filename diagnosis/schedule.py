"""Times at which a group must be checked although it has not changed, for problems that arise with time."""

from typing import Final

from diagnosis.consumption import EXPIRES_MS, IDLE_MS, UNOWNED_MS
from diagnosis.growth import NEW_MS
from diagnosis.problem import OVERDUE_MS, Evidence

QUIET_MS: Final = 3_600_000
"""Interval of checks of groups without members, whose committed records may be deleted."""
ACTIVE_MS: Final = 600_000
SOON_MS: Final = 60_000
"""Interval of checks while unread records are not overdue yet."""


def next_look_ms(evidence: Evidence) -> int:
    """Return the wall time of the next check of a group that has no problem and does not change."""
    now_ms, group = evidence.now_ms, evidence.group
    if not group.members:
        due_ms = now_ms + QUIET_MS
        return min(due_ms, evidence.expires_ms - EXPIRES_MS) if evidence.expires_ms >= 0 else due_ms
    times = [now_ms + ACTIVE_MS]
    if group.state_since_ms >= 0:
        times += (group.state_since_ms + after for after in (UNOWNED_MS, IDLE_MS))
    times += (growth.at_ms + NEW_MS for growth in evidence.grown.values())
    for one in evidence.progress:
        began_ms = now_ms if one.committed_ms is None or not one.lag else one.committed_ms
        times.append(max(began_ms + OVERDUE_MS, now_ms + SOON_MS))
    return min(at for at in times if at > now_ms)
