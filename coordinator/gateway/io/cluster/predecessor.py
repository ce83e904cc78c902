"""EDGE: ends the membership that a killed process of this node has left in the nodes' group.

The group counts a killed node as a member for a session, and its shards are not served meanwhile. The next process of
the node has locked the same data folder, listens at the same address, and so knows that the one before has ended.
"""

import asyncio
import contextlib
from pathlib import Path

import msgspec
import structlog

from coordinator.gateway.io.broker_client import HostPort, RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink
from protocol.errors import ErrorCode
from protocol.messages.groups import LeaveGroup, LeaveGroupReply, LeavingMember
from protocol.messages.node import FindCoordinator, FindCoordinatorReply

log = structlog.get_logger()

_FILE = "upstream-nodes-member"
_REASON = "the process has ended, and was started again"
_WITHIN_S, _RETRY_S = 2.0, 0.1
_LATER = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)


class _Record(msgspec.Struct, frozen=True):
    """The newest membership of this data folder's node. `kafka`: address of its Kafka listener."""

    group_id: str
    member_id: str
    kafka: HostPort


class Predecessor:
    """The process before this one. The record is lost without harm: then its session ends by itself."""

    def __init__(self, folder: Path, group_id: str) -> None:
        self._file = folder / _FILE
        self._group_id = group_id

    def record(self, member_id: str, kafka: HostPort) -> None:
        """Record the membership of this process for the next one."""
        half = self._file.with_suffix(".new")
        with contextlib.suppress(OSError):
            half.write_bytes(msgspec.json.encode(_Record(self._group_id, member_id, kafka)))
            half.rename(self._file)

    async def evict(self, link: ClusterLink, kafka: HostPort) -> None:
        """Remove the recorded member from the group. A copy of the folder that serves elsewhere removes nobody. If the
        group's coordinator does not answer in time, the session ends by itself."""
        last = self._read()
        if last is None or last.group_id != self._group_id or last.kafka != kafka:
            return
        with contextlib.suppress(TimeoutError, RequestFailed):
            async with asyncio.timeout(_WITHIN_S):
                if await self._removed(link, last.member_id):
                    log.info("a killed process of this node was still a member of the nodes' group: removed")

    async def _removed(self, link: ClusterLink, member_id: str) -> bool:
        """Return whether the member was in the group."""
        while True:
            error = await self._leave(link, member_id)
            if error not in _LATER:
                return error is ErrorCode.NONE
            await asyncio.sleep(_RETRY_S)

    async def _leave(self, link: ClusterLink, member_id: str) -> ErrorCode:
        found = await link.ask(FindCoordinator((self._group_id,)), FindCoordinatorReply)
        (coordinator,) = found.coordinators
        if coordinator.error_code:
            return coordinator.error_code
        leave = LeaveGroup(self._group_id, (LeavingMember(member_id, reason=_REASON),))
        reply = await link.ask_at((coordinator.host, coordinator.port), leave, LeaveGroupReply)
        return reply.error_code or next((one.error_code for one in reply.members), ErrorCode.NONE)

    def _read(self) -> _Record | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError):
            return None
