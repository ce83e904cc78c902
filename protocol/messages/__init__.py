"""Every request and reply, defined once for all versions and dialects. Field names are those of Kafka's own message
schemas in snake case; a message has the fields of all versions, and no version number. Where a version changes
behaviour the message carries a *fact* (`wants_member_id_first`). All messages are frozen; sequences are tuples. An
error is a reply with an `ErrorCode`, never an exception.
"""

from typing import Annotated, dataclass_transform

import msgspec

# Ranges of fields, checked when messages are decoded: they fit records of the log and Kafka's wire. A number or text
# that does not fit would stop the node.
Int8 = Annotated[int, msgspec.Meta(ge=-(2**7), le=2**7 - 1)]
Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Millis = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62 - 1)]
"""Milliseconds, bounded so that the sum of two fits an Int64."""
Text = Annotated[str, msgspec.Meta(max_length=8_000)]
"""Text of 8,000 characters at most: as UTF-8, even with an id made of it, it fits Kafka's longest string of 32,767
bytes."""
GroupId = str
"""Group id of any length on the wire; requests with one above `LONGEST_GROUP_ID` are answered with INVALID_GROUP_ID."""
LONGEST_GROUP_ID = 8_000
"""Most characters of a group id, as of any `Text`."""


# Subclasses inherit `frozen`, which type checkers do not see otherwise.
@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Message(msgspec.Struct, frozen=True, gc=False):
    """Base of all requests, replies and notifications."""
