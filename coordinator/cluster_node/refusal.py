"""Refusals in place of replies whose shard was lost before their records were durable."""

from typing import Any

import msgspec

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply

_MOVED = ErrorCode.NOT_COORDINATOR


def refusal_of(reply: Message) -> Message:
    """Return the reply with NOT_COORDINATOR wherever it has an error: its client looks for the coordinator again."""
    refused = _refused(reply)
    return refused if refused is not reply else ErrorReply(_MOVED, "another node serves the group now")


def _refused(one: Any) -> Any:
    """Return the object with errors set, itself if it has none."""
    if isinstance(one, tuple):
        members = tuple([_refused(member) for member in one])
        return members if any(new is not old for new, old in zip(members, one, strict=True)) else one
    if not isinstance(one, msgspec.Struct):
        return one
    changes = {}
    for name in one.__struct_fields__:
        value = getattr(one, name)
        changed = _MOVED if name == "error_code" else _refused(value)
        if changed is not value:
            changes[name] = changed
    return msgspec.structs.replace(one, **changes) if changes else one
