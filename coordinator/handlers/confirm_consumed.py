"""Answer ConfirmConsumed."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.groups.client_balanced.events import ConfirmOffsets
from coordinator.handlers.client_balanced import hand_over
from protocol.messages.balanced import ConfirmConsumed
from protocol.session import RequestRef


def confirm_consumed(core: Core, ref: RequestRef, message: ConfirmConsumed, found: Found, moment: Moment) -> None:
    """Store the confirmed offsets of the owners."""
    hand_over(core, ref, message, found, [item.key for item in message.items], ConfirmOffsets, moment)
