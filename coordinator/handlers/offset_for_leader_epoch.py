"""Answer OffsetForLeaderEpoch."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.messages.data import OffsetForLeaderEpoch
from protocol.session import RequestRef


def offset_for_leader_epoch(core: Core, ref: RequestRef, message: OffsetForLeaderEpoch, moment: Moment) -> None:
    """Return the end offsets of leader epochs."""
    core.outbox.send(ref, core.embedded.end_offsets(message))
