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
    """The only one, of a server that answers out of order."""
    GROUP = "group"
    BESIDE = "beside"
    """Only used while the coordinator holds something back in `GROUP`: else a member's requests keep their order."""
    FETCH = "fetch"


_HELD_BACK: Final = (JoinGroup, SyncGroup)
_OF_GROUPS: Final = (JoinGroup, SyncGroup, Heartbeat, OffsetCommit, OffsetFetch, LeaveGroup)


def lane_of(message: Message, dialect: ClientDialect, unanswered: Iterable[Message]) -> Lane:
    """`unanswered` is what waits in `GROUP` for its answer."""
    if not dialect.answers_in_order:
        return Lane.ANY
    if isinstance(message, Fetch):
        return Lane.FETCH
    if isinstance(message, _OF_GROUPS):
        return Lane.BESIDE if any(isinstance(one, _HELD_BACK) for one in unanswered) else Lane.GROUP
    return Lane.ANY
