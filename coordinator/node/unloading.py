"""The end of every shard's service, when the process stops."""

from coordinator.clock import Moment
from coordinator.handlers.core import Core
from coordinator.runtime.kinds.group_kinds import unloaded
from coordinator.runtime.shard import ShardState


def unload(core: Core, moment: Moment) -> None:
    """Unload every shard: parked joins and syncs, and requests from now on, are answered with NOT_COORDINATOR. Delayed
    fetches end with their connections."""
    for group in list(core.directory.values()):
        for event in unloaded(group):
            group.shard.process(group, event, moment)
    for shard in core.shards:
        shard.state = ShardState.UNLOADED
    core.loads.stop()
