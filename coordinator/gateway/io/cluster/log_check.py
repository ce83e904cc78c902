"""EDGE: refuses a node with a log of its own beside nodes that share the cluster's log."""

import asyncio
from typing import Final

import structlog

from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC
from coordinator.config.cluster import OffsetsLog
from coordinator.config.config import Config, ConfigError
from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink
from coordinator.gateway.io.cluster.nodes_members import count_members, only
from coordinator.gateway.io.supervisor import Supervisor
from protocol.errors import ErrorCode
from protocol.words import counted

log = structlog.get_logger()

_PATIENCE_S: Final = 5.0
"""Time that the brokers have to answer."""
_AGAIN_S: Final = 5.0
"""Time after which brokers that did not know are asked again."""


class LogCheck:
    """Check of a node's log at its start and, if the brokers did not know then, as soon as they do."""

    def __init__(self, config: Config, beside: Supervisor | None) -> None:
        self._config, self._beside = config, beside
        self._is_over = config.offsets_log is not OffsetsLog.LOCAL or config.upstream_servers is None

    async def at_start(self, *, is_reached: bool) -> None:
        """Check it once, if a broker was reached; log a warning if nobody knows. Raises ConfigError."""
        if self._is_over:
            return
        try:
            if not is_reached:
                raise RequestFailed("no broker was reached")
            await self._check()
        except RequestFailed as failed:
            log.warning("unknown whether other nodes serve this cluster from its own log", why=str(failed))

    async def until_known(self) -> None:
        """Ask again until the brokers know, where that is needed. Raises ConfigError."""
        while not self._is_over:
            await asyncio.sleep(_AGAIN_S)
            try:
                await self._check()
            except RequestFailed as failed:
                log.debug("still unknown whether other nodes serve this cluster from its own log", why=str(failed))

    async def _check(self) -> None:
        assert self._beside is not None and self._config.upstream_servers is not None
        servers = self._config.upstream_servers.host_ports
        link = ClusterLink(servers, self._beside.open_client, self._beside.cluster_mismatch)
        try:
            await check_no_nodes(self._config, link)
        finally:
            await link.stop()
        self._is_over = True


async def check_no_nodes(config: Config, link: ClusterLink) -> None:
    """Log a warning if the cluster has a log of offsets, which a node with a log of its own does not read. Raises
    ConfigError if nodes serve from it, and RequestFailed if the brokers do not know."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            topic = only((await link.metadata(OFFSETS_LOG_TOPIC)).topics)
            if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return
            members = await count_members(link, config.upstream_nodes_group, _PATIENCE_S / 2)
    except TimeoutError:
        raise RequestFailed("no broker answers in time") from None
    if members:
        raise ConfigError(
            f"offsets.log = local: {counted(members, 'node')} of the group {config.upstream_nodes_group} already "
            f"serve this cluster from its log {OFFSETS_LOG_TOPIC}: start this one with offsets.log=cluster and a data "
            "folder of its own, or stop them. One that was killed counts until its session has ended"
        )
    if topic.error_code is not ErrorCode.NONE:
        raise RequestFailed(f"topic {OFFSETS_LOG_TOPIC}: {topic.error_code.name}")
    log.warning("the cluster has a log of offsets that offsets.log=local does not read", topic=OFFSETS_LOG_TOPIC)
