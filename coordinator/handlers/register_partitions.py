"""Answer RegisterPartitions."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.groups.client_balanced.events import LeaseOverdue, Register
from coordinator.handlers.client_balanced import refreshed
from coordinator.handlers.client_balanced_topics import places
from protocol.messages.balanced import RegisterPartitions
from protocol.session import RequestRef


# --- partitions ---
def register_partitions(core: Core, ref: RequestRef, message: RegisterPartitions, found: Found, moment: Moment) -> None:
    """Grant partitions to the first member that asks (docs/spec/client-balanced-groups.md#7, #8)."""
    shard = found.shard
    kept = found.group_or_new(message.group_id)
    group = refreshed(core, kept, moment)
    keys = [item.key for item in message.items]
    for key in keys:
        place = group.place_of(key)
        owner = None if place is None else group.owner(place)
        if owner is not None and owner.deadline_ms <= moment.monotonic_ms:
            shard.process(kept, LeaseOverdue(group.group_id, owner.consumer_id), moment)
    shard.process(kept, Register(ref, message, places(core, shard, message.group_id, keys)), moment)
