"""Facts of a group's members, for people and for scripts: times, connections, software."""

from typing import Any, Final

from diagnosis.facts import known_facts
from diagnosis.people import duration, member_epoch
from protocol.messages.groups import DescribedMember

VERBOSE_COLUMNS: Final = (
    "MEMBER",
    "ADDRESS",
    "HEARD",
    "SESSION LEFT",
    "REBALANCE TIMEOUT",
    "WAITING",
    "CONNECTION",
    "SOFTWARE",
    "LAST COMMIT",
    "ASSIGNORS",
    "SUBSCRIPTION",
)
REPORTED_COLUMNS: Final = ("MEMBER", "REPORTED", "TO DRAIN", "SAYS OF ITSELF")
EPOCH_COLUMNS: Final = ("MEMBER", "PROTOCOL", "EPOCH", "TARGET", "TO REVOKE", "FOR")
_SHOWN: Final = frozenset(
    {
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "session_left_ms",
        "heard_ago_ms",
        "waiting",
        "waiting_ms",
        "is_connected",
        "disconnected_ms",
        "client_port",
        "client_software_name",
        "client_software_version",
        "principal",
        "listener",
        "committed_ago_ms",
        "protocols",
        "group_protocol",
        "topics",
        "is_draining",
        "reported_ago_ms",
    }
)


def verbose_row(member: DescribedMember) -> tuple[object, ...]:
    """Return a line of the verbose table; only musterd reports these facts."""
    port = f":{member.client_port}" if member.client_port >= 0 else ""
    waiting = f"{member.waiting} for {duration(member.waiting_ms)}" if member.waiting else None
    return (
        member.member_id,
        member.client_host.lstrip("/") + port,
        _ago(member.heard_ago_ms),
        _time(member.session_left_ms),
        _time(member.rebalance_timeout_ms),
        waiting,
        _connection(member),
        " ".join(part for part in (member.client_software_name, member.client_software_version) if part),
        _ago(member.committed_ago_ms),
        ", ".join(member.protocols),
        ", ".join(member.topics),
    )


def epoch_row(member: DescribedMember, target: str, to_revoke: str) -> tuple[object, ...]:
    """Return a line of the table of epochs, of a server-driven group."""
    since = f"{duration(member.revoking_ms)}" if member.revoking_ms >= 0 else None
    return member.member_id, member.group_protocol, member_epoch(member), target, to_revoke, since


def facts_document(member: DescribedMember) -> dict[str, Any]:
    """Return the facts as JSON, for scripts, with null for unknown ones."""
    facts = {name: value for name, value in known_facts(member).items() if name in _SHOWN}
    return facts | {"reported": {one.name: one.text for one in member.reported}}


def reported_row(member: DescribedMember) -> tuple[object, ...]:
    """Return a line of the table of facts that applications report."""
    told = ", ".join(f"{one.name} {one.text}" for one in member.reported)
    return member.member_id, _ago(member.reported_ago_ms), "yes" if member.is_draining else None, told


def _connection(member: DescribedMember) -> str | None:
    if member.is_connected is None:
        return None
    return "open" if member.is_connected else f"closed {duration(member.disconnected_ms)} ago"


def _time(ms: int) -> str | None:
    return duration(ms) if ms >= 0 else None


def _ago(ms: int) -> str | None:
    return f"{duration(ms)} ago" if ms >= 0 else None
