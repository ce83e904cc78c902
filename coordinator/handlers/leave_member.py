"""Answer LeaveMember."""

from coordinator.clock import Moment
from coordinator.groups.client_balanced.events import BalancedLeave
from coordinator.handlers.admission import admit_write
from coordinator.handlers.client_balanced import admit_client_balanced, hand_over
from coordinator.handlers.core import Core
from protocol.messages.balanced import LeaveMember, LeaveMemberReply
from protocol.session import RequestRef


def leave_member(core: Core, ref: RequestRef, message: LeaveMember, moment: Moment) -> None:
    """Remove a member."""
    if refused := admit_client_balanced(core, message.group_id) or admit_write(core):
        core.outbox.send(ref, LeaveMemberReply(refused))
    else:
        hand_over(core, ref, message, [one.key for one in message.released], BalancedLeave, moment)
