"""`muster groups list --verbose`: members, lag, time in the state, and problems."""

from typing import Any, Final

from diagnosis.gathering import problems_of
from diagnosis.people import duration
from diagnosis.problem import Evidence
from muster.admin.nodes import list_groups
from muster.blocking.cluster import ClusterClient
from muster.cli.operating.doctor import gathered
from muster.cli.showing import say_left_out, utc_time

COLUMNS: Final = ("GROUP", "STATE", "TYPE", "MEMBERS", "LAG", "SINCE", "PROBLEM")


def described_groups(cluster: ClusterClient, *, is_musterd: bool) -> list[dict[str, Any]]:
    """Return a document for each group. `since` and `problems` are as far as servers report them in one reply."""
    listed = list_groups(cluster, say_left_out)
    known, found = gathered(cluster, [one.group_id for one in listed], is_musterd=is_musterd)
    evidence = {one.group.group_id: one for one in found}
    return [
        _document(one.group_type, evidence[one.group_id], known.now_ms)
        for one in sorted(listed, key=lambda one: one.group_id)
        if one.group_id in evidence
    ]


def row(document: dict[str, Any]) -> tuple[object, ...]:
    """Return the line of the table."""
    for_ms = document["for_ms"]
    return (
        document["group_id"],
        document["state"],
        document["type"],
        document["members"],
        document["lag"],
        None if for_ms is None else f"{duration(for_ms)} ago",
        ", ".join(document["problems"]),
    )


def _document(kind: str, evidence: Evidence, now_ms: int) -> dict[str, Any]:
    group = evidence.group
    since_ms = group.state_since_ms
    return {
        "group_id": group.group_id,
        "state": group.group_state,
        "protocol_type": group.protocol_type,
        "type": kind,
        "members": len(group.members),
        "lag": sum(one.lag for one in evidence.progress),
        "since": utc_time(since_ms) if since_ms >= 0 else None,
        "for_ms": max(0, now_ms - since_ms) if since_ms >= 0 else None,
        "problems": [one.kind.value for one in problems_of((evidence,))],
    }
