"""EDGE: ends the membership that a killed process of this node has left in the nodes' group.

The group counts a killed node as a member for a session, and nobody serves its shards meanwhile. The next process of
the node has locked the very file that the former one had locked, under the same kernel; hence that one has ended.
"""

import asyncio
import contextlib
from pathlib import Path

import msgspec
import structlog

from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink, only
from partition_log.store.recovery import LOCK_FILE
from protocol.errors import ErrorCode
from protocol.messages.groups import LeaveGroup, LeaveGroupReply, LeavingMember
from protocol.messages.node import FindCoordinator, FindCoordinatorReply

log = structlog.get_logger()

_FILE = "upstream-nodes-member"
_KERNEL = Path("/proc/sys/kernel/random/boot_id")
_REASON = "its process has ended, and was started again"
_WITHIN_S, _RETRY_S = 2.0, 0.1
_LATER = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)


class _Record(msgspec.Struct, frozen=True):
    """The newest membership of the node, and the lock that its process held: device and inode of the file, and the id
    of the kernel's boot."""

    group_id: str
    member_id: str
    lock: tuple[int, int]
    kernel: str


class Predecessor:
    """The process before this one. Its record may be lost or useless without harm: then its session ends by itself."""

    def __init__(self, folder: Path, group_id: str) -> None:
        self._folder = folder
        self._group_id = group_id

    def record(self, member_id: str) -> None:
        """Record the membership of this process for the next one."""
        half = self._folder / f"{_FILE}.new"
        with contextlib.suppress(OSError):
            half.write_bytes(msgspec.json.encode(self._record(member_id)))
            half.rename(self._folder / _FILE)

    async def evict(self, link: ClusterLink) -> None:
        """Remove the recorded member from the group, unless its process may live: one with a copy of this folder, or of
        another machine. If the group's coordinator does not answer in time, the session ends by itself."""
        last = self._last()
        if last is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WITHIN_S):
                if await self._removed(link, last.member_id):
                    log.info("a killed process of this node was still a member of the nodes' group: removed")

    async def _removed(self, link: ClusterLink, member_id: str) -> bool:
        """Return whether the member was in the group."""
        while True:
            with contextlib.suppress(RequestFailed):
                error = await self._leave(link, member_id)
                if error not in _LATER:
                    return error is ErrorCode.NONE
            await asyncio.sleep(_RETRY_S)

    async def _leave(self, link: ClusterLink, member_id: str) -> ErrorCode:
        found = await link.ask(FindCoordinator((self._group_id,)), FindCoordinatorReply)
        coordinator = only(found.coordinators)
        if coordinator.error_code:
            return coordinator.error_code
        leave = LeaveGroup(self._group_id, (LeavingMember(member_id, reason=_REASON),))
        reply = await link.ask_at((coordinator.host, coordinator.port), leave, LeaveGroupReply)
        return reply.error_code or next((one.error_code for one in reply.members), ErrorCode.NONE)

    def _record(self, member_id: str) -> _Record:
        """Raises OSError."""
        status = (self._folder / LOCK_FILE).stat()
        return _Record(self._group_id, member_id, (status.st_dev, status.st_ino), _KERNEL.read_text().strip())

    def _last(self) -> _Record | None:
        """Return the record of a process that has certainly ended."""
        try:
            last = msgspec.json.decode((self._folder / _FILE).read_bytes(), type=_Record)
            return last if last == self._record(last.member_id) else None
        except (OSError, ValueError, msgspec.DecodeError):
            return None
