"""Every request and reply, once, for all versions and dialects.

Field names are those of Kafka's own message schemas in snake case; a message holds the union over all versions and
never a version number. Where a version changes behaviour the message carries a *fact* (`wants_member_id_first`).
All messages are frozen; sequences are tuples. A refusal is a reply with an `ErrorCode`, never an exception.
"""

from typing import dataclass_transform

import msgspec


# Subclasses inherit `frozen`; type checkers have to be told.
@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Message(msgspec.Struct, frozen=True, gc=False):
    """Base of all requests, replies and notifications."""
