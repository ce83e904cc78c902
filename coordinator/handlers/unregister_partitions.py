"""Answer UnregisterPartitions."""

from coordinator.clock import Moment
from coordinator.groups.client_balanced.events import Unregister
from coordinator.handlers.admission import admit_write
from coordinator.handlers.client_balanced import admit_client_balanced, hand_over
from coordinator.handlers.core import Core
from protocol.messages.balanced import UnregisterPartitions, UnregisterPartitionsReply
from protocol.session import RequestRef


def unregister_partitions(core: Core, ref: RequestRef, message: UnregisterPartitions, moment: Moment) -> None:
    """End the member's grants of partitions."""
    if refused := admit_client_balanced(core, message.group_id) or admit_write(core):
        core.outbox.send(ref, UnregisterPartitionsReply(refused))
    else:
        hand_over(core, ref, message, [item.key for item in message.items], Unregister, moment)
