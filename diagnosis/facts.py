"""Facts of groups, members and problems as JSON, with null for unknown values."""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from protocol.messages.groups import ListedNote

_UNKNOWN_IF_NEGATIVE: Final = frozenset(
    {
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "session_left_ms",
        "heard_ago_ms",
        "waiting_ms",
        "disconnected_ms",
        "client_port",
        "committed_ago_ms",
        "phase_ms",
        "phase_left_ms",
        "state_since_ms",
        "since_ms",
        "seen_ms",
        "generation_id",
        "target_epoch",
        "revoking_ms",
        "hold_left_ms",
        "reported_ago_ms",
    }
)
"""Fields that are -1 in messages if they are unknown."""
_UNKNOWN_IF_EMPTY: Final = frozenset(
    {
        "member_id",
        "client_id",
        "client_host",
        "waiting",
        "client_software_name",
        "client_software_version",
        "principal",
        "listener",
        "group_protocol",
        "command",
        "log",
    }
)


def known_facts(message: msgspec.Struct, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of the message; null for those that are unknown. The client host has no leading slash."""
    fields = msgspec.structs.asdict(message)
    return {name: _known(name, value) for name, value in fields.items() if name not in without}


def note_facts(note: ListedNote) -> dict[str, Any]:
    """Return the fields of the note. Hosts have no leading slash, in notes of older releases too."""
    facts: dict[str, Any] = msgspec.to_builtins(note)
    for field in ("origin", "slowest", "previous"):
        if (client := facts[field]) is not None:
            client["client_host"] = client["client_host"].removeprefix("/")
    return facts


def _known(name: str, value: Any) -> Any:
    if _is_unknown(name, value):
        return None
    return value.removeprefix("/") if name == "client_host" else value  # as Java writes addresses


def _is_unknown(name: str, value: Any) -> bool:
    return (name in _UNKNOWN_IF_NEGATIVE and value < 0) or (name in _UNKNOWN_IF_EMPTY and value == "")
