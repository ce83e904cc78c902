"""Unloading of a shard, and of all shards when the process stops."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.runtime.kinds.group_kinds import unloaded
from coordinator.runtime.shard import Shard, ShardState


def unload(core: Core, moment: Moment) -> None:
    """Unload every shard. Delayed fetches end with their connections."""
    for shard in core.shards:
        unload_shard(shard, moment)
    core.loads.stop()


def unload_shard(shard: Shard, moment: Moment) -> None:
    """End the service of the shard: parked joins and syncs, and requests from now on, are answered with
    NOT_COORDINATOR."""
    for group in list(shard.groups.values()):
        for event in unloaded(group):
            shard.process(group, event, moment)
    shard.state = ShardState.UNLOADED
