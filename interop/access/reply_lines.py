"""Answers as lines: every error at its place, what lists contain, and authorized operations. Nothing else."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from interop.access.states import Names
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation

_KEYS: Final = (
    *("name", "topic", "topic_name", "group_id", "key", "user", "resource_name", "member_id"),
    *("partition_index", "index", "partition"),
)
_OF_SERVERS: Final = "__"
"""Prefix of the topics that servers make for themselves."""
_OPERATIONS: Final = "authorized_operations"
_LEFT_OUT: Final = frozenset(
    {
        *("brokers", "configs", "synonyms", "credential_infos", "matching_acls", "entries"),
        *("assignment", "target_assignment"),
    }
)
"""Fields whose content depends on the server, not on the principal."""


def reply_line(reply: Message | str, names: Names, topic_ids: Mapping[str, bytes]) -> str:
    """Return the answer in one line; names lose the state's tag, ids become names."""
    if isinstance(reply, str):
        return reply
    known = {topic_id: name for name, topic_id in topic_ids.items()}
    return "; ".join(sorted(_lines(reply, "", names, known))) or "served"


def _lines(value: Any, place: str, names: Names, known: Mapping[bytes, str]) -> Iterator[str]:
    if isinstance(value, tuple):
        for one in value:
            if isinstance(one, msgspec.Struct) and _is_ours(key := _key(one, known), names):
                yield from _lines(one, f"{place}/{key}" if place else key, names, known)
        return
    if not isinstance(value, msgspec.Struct):
        return
    shown = place.replace(names.tag, "") if names.tag else place
    if code := getattr(value, "error_code", ErrorCode.NONE):
        yield f"{shown} {code.name}".strip()
    elif shown:
        yield shown
    for field in value.__struct_fields__:
        inner = getattr(value, field)
        if field.endswith(_OPERATIONS):
            if inner > 0 or (inner == 0 and not code):
                yield f"{shown} may {_operations(inner)}".strip()
        elif field not in _LEFT_OUT:
            yield from _lines(inner, place, names, known)


def _key(part: msgspec.Struct, known: Mapping[bytes, str]) -> str:
    """Return the name of a part of an answer."""
    for field in _KEYS:
        found = getattr(part, field, None)
        if found not in (None, ""):
            return str(found)
    topic_id = getattr(part, "topic_id", None)
    return "" if topic_id is None else f"id of {known.get(topic_id, 'an unknown topic')}"


def _is_ours(key: str, names: Names) -> bool:
    """Return whether a part of a list is about this state: a server may have topics and groups of others."""
    if key.startswith(_OF_SERVERS):
        return False
    return not key.startswith(Names().all) or any(key == name or key.startswith(f"{name}-") for name in names.all)


def _operations(bits: int) -> str:
    return " ".join(one.name for one in AclOperation if bits >> one & 1) or "nothing"
