"""Answer ConfirmConsumed."""

from coordinator.clock import Moment
from coordinator.groups.client_balanced.events import Confirm
from coordinator.handlers.admission import admit_write
from coordinator.handlers.client_balanced import admit_client_balanced, hand_over
from coordinator.handlers.core import Core
from protocol.messages.balanced import ConfirmConsumed, ConfirmConsumedReply
from protocol.session import RequestRef


def confirm_consumed(core: Core, ref: RequestRef, message: ConfirmConsumed, moment: Moment) -> None:
    """Store the confirmed offsets of the owners."""
    if refused := admit_client_balanced(core, message.group_id) or admit_write(core):
        core.outbox.send(ref, ConfirmConsumedReply(refused))
    else:
        hand_over(core, ref, message, [item.key for item in message.items], Confirm, moment)
