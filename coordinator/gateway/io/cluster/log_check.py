"""EDGE: refuses a node with a log of its own beside nodes that share the cluster's log."""

import asyncio
from enum import Enum
from typing import Final

import structlog

from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC
from coordinator.config.cluster import OffsetsLog
from coordinator.config.config import Config, ConfigError
from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink, only
from coordinator.gateway.io.cluster.nodes_members import count_members
from coordinator.gateway.io.supervisor import Supervisor
from protocol.errors import ErrorCode
from protocol.words import counted

log = structlog.get_logger()

_PATIENCE_S: Final = 5.0
"""Time that the brokers have to answer."""
_AGAIN_S, _LONGEST_S = 5.0, 600.0
"""Time after which the brokers are asked again, which doubles while they do not know, and the longest: some never tell
a principal that lacks a permission."""
_SESSIONS: Final = 3
"""Sessions for which there must be no nodes: after an outage of the brokers, nodes take some time to join again."""


class _Nodes(Enum):
    """Other nodes that serve the cluster from its log, as far as its brokers know."""

    UNKNOWN = "unknown"
    NONE = "none"
    SOME = "some"


class LogCheck:
    """Check of a node's log at its start and, if the brokers did not know then, once they do."""

    def __init__(self, config: Config, beside: Supervisor | None) -> None:
        self._config, self._beside = config, beside
        self._session_s = config.upstream_nodes_session_timeout_ms / 1_000
        self._is_over = config.offsets_log is not OffsetsLog.LOCAL or beside is None

    async def at_start(self, *, is_reached: bool) -> None:
        """Check it once, if a broker was reached; log a warning if nobody knows. Raises ConfigError."""
        if self._is_over:
            return
        try:
            if not is_reached:
                raise RequestFailed("no broker was reached")
            self._end(has_log=await self._check())
        except RequestFailed as failed:
            log.warning("unknown whether other nodes serve this cluster from its own log", why=str(failed))

    async def until_known(self) -> None:
        """Ask again, where the start did not learn it, until it is certain. Raises ConfigError if nodes were there for
        a session, since a killed one counts as long."""
        pause_s, known, since_s = _AGAIN_S, _Nodes.UNKNOWN, 0.0
        while not self._is_over:
            await asyncio.sleep(pause_s)
            before, has_log, refusal = known, False, None
            try:
                has_log = await self._check()
                known = _Nodes.NONE
            except RequestFailed:
                known = _Nodes.UNKNOWN
            except ConfigError as some:
                known, refusal = _Nodes.SOME, some
            now_s = asyncio.get_running_loop().time()
            since_s = since_s if known is before else now_s
            pause_s = min(2 * pause_s, _LONGEST_S) if known is _Nodes.UNKNOWN else _AGAIN_S
            if refusal is not None and now_s - since_s >= self._session_s:
                raise refusal
            if known is _Nodes.NONE and now_s - since_s >= _SESSIONS * self._session_s:
                self._end(has_log=has_log)

    def _end(self, *, has_log: bool) -> None:
        self._is_over = True
        if has_log:
            log.warning(
                "the cluster has a log of offsets that offsets.log=local does not read", topic=OFFSETS_LOG_TOPIC
            )

    async def _check(self) -> bool:
        assert self._beside is not None and self._config.upstream_servers is not None
        servers = self._config.upstream_servers.host_ports
        link = ClusterLink(servers, self._beside.open_client, self._beside.cluster_mismatch)
        try:
            return await check_no_nodes(self._config, link)
        finally:
            await link.stop()


async def check_no_nodes(config: Config, link: ClusterLink) -> bool:
    """Return whether the cluster has a log of offsets, which a node with a log of its own does not read. Raises
    ConfigError if nodes serve from it, and RequestFailed if the brokers do not know."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            topic = only((await link.metadata(OFFSETS_LOG_TOPIC)).topics)
            if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return False
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
    return True
