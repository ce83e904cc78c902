"""Answer LeaveMember."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.groups.client_balanced.events import BalancedLeave
from coordinator.handlers.client_balanced import hand_over
from protocol.messages.balanced import LeaveMember
from protocol.session import RequestRef


def leave_member(core: Core, ref: RequestRef, message: LeaveMember, found: Found, moment: Moment) -> None:
    """Remove a member."""
    hand_over(core, ref, message, found, [one.key for one in message.released], BalancedLeave, moment)
