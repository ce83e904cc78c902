"""The end of every shard's service, when the process stops."""

from coordinator.clock import Moment
from coordinator.groups.classic.events import Unloaded
from coordinator.groups.client_balanced import events as balanced_events
from coordinator.handlers.core import Core
from coordinator.runtime.shard import ShardState


def unload(core: Core, moment: Moment) -> None:
    """Unload every shard: parked joins and syncs, and requests from now on, are answered with NOT_COORDINATOR. Delayed
    fetches end with their connections."""
    for shard, group in list(core.directory.values()):
        shard.process(group, Unloaded(group.group_id), moment)
    for shard in core.shards:
        for balanced in list(shard.balanced.values()):
            shard.process(balanced, balanced_events.BalancedUnloaded(balanced.group_id), moment)
        shard.state = ShardState.UNLOADED
    core.loads.stop()
