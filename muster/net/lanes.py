"""Choice of the connection for a request, if the server answers each connection in order
(docs/spec/consumer-client.md#A3).

Requests to the coordinator never wait behind a fetch, nor behind a pending JoinGroup or SyncGroup.
"""

import enum
from collections.abc import Iterable
from typing import Final

from muster.net.dialects import ClientDialect
from protocol.messages import Message
from protocol.messages.data import Fetch
from protocol.messages.groups import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from protocol.messages.offsets import OffsetCommit, OffsetFetch


class Lane(enum.Enum):
    """One connection to a node."""

    ANY = "any"
    """The only connection, to a server that replies out of order."""
    GROUP = "group"
    BESIDE = "beside"
    """Used only while the coordinator delays a reply in `GROUP`, so that a member's requests keep their order
    otherwise."""
    FETCH = "fetch"


_HELD_BACK: Final = (JoinGroup, SyncGroup)
_OF_GROUPS: Final = (JoinGroup, SyncGroup, Heartbeat, OffsetCommit, OffsetFetch, LeaveGroup)


def lane_of(message: Message, dialect: ClientDialect, unanswered: Iterable[Message]) -> Lane:
    """Return the lane of a request; `unanswered` are the pending requests in `GROUP`."""
    if not dialect.answers_in_order:
        return Lane.ANY
    if isinstance(message, Fetch):
        return Lane.FETCH
    if isinstance(message, _OF_GROUPS):
        return Lane.BESIDE if any(isinstance(one, _HELD_BACK) for one in unanswered) else Lane.GROUP
    return Lane.ANY
