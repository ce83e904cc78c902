"""EDGE: counts the members of the nodes' group, for a node or a command outside of it."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final, TypeVar

import structlog

from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC
from coordinator.config.config import Config, ConfigError
from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.node import FindCoordinator, FindCoordinatorReply
from protocol.words import counted

log = structlog.get_logger()
T = TypeVar("T")

_PAUSE_S: Final = 0.2
_PATIENCE_S: Final = 5.0
"""Time that a start waits for an answer."""


async def count_members(link: ClusterLink, group: str, patience_s: float) -> int:
    """Return the number of members of the group. Raises RequestFailed if no broker answers, or none knows within
    `patience_s`."""
    until_s = time.monotonic() + patience_s
    while True:
        error, members = await _describe(link, group)
        if error is ErrorCode.NONE:
            return members
        if not error.retriable or time.monotonic() > until_s:
            raise RequestFailed(f"the members of group {group} are unknown: {error.name}")
        await asyncio.sleep(_PAUSE_S)


async def _describe(link: ClusterLink, group: str) -> tuple[ErrorCode, int]:
    found = await link.ask(FindCoordinator((group,)), FindCoordinatorReply)
    coordinator = _only(found.coordinators)
    if coordinator.error_code is not ErrorCode.NONE:
        return coordinator.error_code, 0
    address = coordinator.host, coordinator.port
    reply = await link.ask_at(address, DescribeGroups((group,), absent_is_error=False), DescribeGroupsReply)
    described = _only(reply.groups)
    is_absent = described.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if is_absent else described.error_code, len(described.members)


def _only(answers: Sequence[T]) -> T:
    """Return the answer about the one thing that was asked. Raises RequestFailed if a broker answers otherwise."""
    if len(answers) != 1:
        raise RequestFailed(f"a broker gave {len(answers)} answers to one question")
    return answers[0]


async def check_no_nodes(config: Config, link: ClusterLink) -> None:
    """Log a warning if the cluster has a log of offsets, which a node with a log of its own does not read. Raises
    ConfigError if nodes serve from it."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            topic = _only((await link.metadata(OFFSETS_LOG_TOPIC)).topics)
            if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return
            members = await count_members(link, config.upstream_nodes_group, _PATIENCE_S / 2)
            if topic.error_code is not ErrorCode.NONE and not members:
                raise RequestFailed(f"topic {OFFSETS_LOG_TOPIC}: {topic.error_code.name}")
    except (RequestFailed, TimeoutError) as failed:
        warn_unknown(str(failed) or "no broker answers in time")
        return
    if members:
        raise ConfigError(
            f"offsets.log = local: {counted(members, 'node')} of the group {config.upstream_nodes_group} already "
            f"serve this cluster from its log {OFFSETS_LOG_TOPIC}: start this one with offsets.log=cluster and a data "
            "folder of its own, or stop them. One that was killed counts until its session has ended"
        )
    log.warning("the cluster has a log of offsets that offsets.log=local does not read", topic=OFFSETS_LOG_TOPIC)


def warn_unknown(why: str) -> None:
    """Log that a node with a log of its own starts without the check."""
    log.warning("unknown whether other nodes serve this cluster from its own log", why=why)
