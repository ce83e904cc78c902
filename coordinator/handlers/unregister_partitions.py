"""Answer UnregisterPartitions."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.groups.client_balanced.events import Unregister
from coordinator.handlers.client_balanced import hand_over
from protocol.messages.balanced import UnregisterPartitions
from protocol.session import RequestRef


def unregister_partitions(
    core: Core, ref: RequestRef, message: UnregisterPartitions, found: Found, moment: Moment
) -> None:
    """End the member's grants of partitions."""
    hand_over(core, ref, message, found, [item.key for item in message.items], Unregister, moment)
