"""EDGE: waits until all shards are loaded, and logs the progress."""

import asyncio
import gc
from collections.abc import Mapping

import structlog

from coordinator.config.config import Config
from coordinator.gateway.io.cluster.from_config import ClusterPart
from coordinator.gateway.io.cluster_identity import ClusterIdentity
from coordinator.gateway.io.supervisor import Supervisor
from coordinator.io.server import Server
from coordinator.runtime.loader import Loadings

log = structlog.get_logger()

_TELL_EVERY_S = 2.0


async def until_served(
    config: Config,
    server: Server,
    beside: Supervisor | None,
    part: ClusterPart,
    addresses: Mapping[str, tuple[str, int]],
    identity: ClusterIdentity,
) -> None:
    """Wait until it is known which groups are served. Nodes that share a log are one cluster, with the id of the Kafka
    cluster that has it, unless they are given another."""
    await _until_loaded(server, beside)
    await part.join(addresses)
    if part.shards is not None and config.cluster_id is None and identity.recorded_cluster_id:
        server.node.core.cluster_id = identity.recorded_cluster_id


async def _until_loaded(server: Server, beside: Supervisor | None) -> None:
    """Wait until all shards are loaded, and log the progress."""
    loads = server.node.core.loads
    progress = loads.progress()
    log.info("loading", shards=len(server.node.core.shards), bytes=progress.bytes_total)
    gc.disable()  # all objects made while loading stay: collections make it take half as long again
    reporting = asyncio.ensure_future(_report_progress(loads))
    try:
        await server.until_loaded()
        if beside is not None:
            await beside.start()
    finally:
        reporting.cancel()
        gc.enable()
    for note in loads.notes:
        log.warning(note.text, shard=note.shard)
    for shard in server.node.core.shards:
        if shard.failure:
            log.error("a shard is not served; its groups answer NOT_COORDINATOR", shard=shard.index, why=shard.failure)
    progress = loads.progress()
    log.info(
        "loaded",
        records=progress.records,
        bytes=progress.bytes_done,
        seconds=progress.elapsed_ms / 1000,
        from_snapshots=progress.from_snapshots,
    )


async def _report_progress(loads: Loadings) -> None:
    while True:
        await asyncio.sleep(_TELL_EVERY_S)
        progress = loads.progress()
        log.info(
            "loading",
            records=progress.records,
            bytes=progress.bytes_done,
            of_bytes=progress.bytes_total,
            bytes_per_second=progress.bytes_per_second,
            seconds_left=None if progress.left_ms < 0 else round(progress.left_ms / 1000, 1),
        )
