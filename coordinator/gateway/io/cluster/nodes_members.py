"""EDGE: counts the members of the nodes' group, for a node or a command outside of it."""

import asyncio
import time
from typing import Final

from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink, only
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.node import FindCoordinator, FindCoordinatorReply

_PAUSE_S: Final = 0.2


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
    coordinator = only(found.coordinators)
    if coordinator.error_code is not ErrorCode.NONE:
        return coordinator.error_code, 0
    address = coordinator.host, coordinator.port
    reply = await link.ask_at(address, DescribeGroups((group,), absent_is_error=False), DescribeGroupsReply)
    described = only(reply.groups)
    is_absent = described.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if is_absent else described.error_code, len(described.members)
