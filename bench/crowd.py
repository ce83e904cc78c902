"""Many members in one thread: they join, sync and rejoin when they are told to, until every group stands.

A member has a connection of its own. What comes in is decoded as a whole, so this is for forming groups and for
rebalances, where a member sends two requests; `load.py` is for what is sent all the time.
"""

import select
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgpack

from bench.frames import FIRST_NUMBER, UnexpectedReply
from bench.load import Line

_JOIN, _SYNC = 0, 1
_UNKNOWN_MEMBER_ID, _ILLEGAL_GENERATION, _REBALANCE_IN_PROGRESS = 25, 22, 27
_REJOIN = (_ILLEGAL_GENERATION, _REBALANCE_IN_PROGRESS)
_ASSIGNMENT = bytes(range(48))
_METADATA = bytes(32)


class CrowdMember:
    """`synced` is the generation whose assignment it has."""

    __slots__ = ("asked", "assignment", "generation_id", "group", "line", "member_id", "rejoins", "synced", "unpacker")

    def __init__(self, line: Line, group: "CrowdGroup") -> None:
        self.line = line
        self.group = group
        self.member_id = ""
        self.generation_id = -1
        self.assignment = b""
        self.synced = -1
        self.asked: int | None = None
        self.rejoins = False
        self.unpacker = msgpack.Unpacker()


class CrowdGroup:
    """`stands` once all its members have been handed an assignment in one generation."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: list[CrowdMember] = []
        self.decided: set[bytes] = set()
        """Assignments that the leader decided on."""
        self.generation_id = -1
        self.synced = 0
        self.last_join_sent = 0.0
        self.last_synced = 0.0

    @property
    def stands(self) -> bool:
        return self.synced == len(self.members)


class Crowd:
    """All members of all groups on one server."""

    def __init__(
        self,
        address: tuple[str, int],
        session_timeout_ms: int = 300_000,
        *,
        protocol_of: Callable[[str], bytes] = lambda group_id: _METADATA,
        assigned: Callable[[str, int], bytes] = lambda group_id, place: _ASSIGNMENT,
    ) -> None:
        """`protocol_of` says what the members of a group offer, `assigned` what the leader gives to each place of the
        group."""
        self.address = address
        self._protocol_of, self._assigned = protocol_of, assigned
        self.session_timeout_ms = session_timeout_ms
        self.members: list[CrowdMember] = []
        self.groups: dict[str, CrowdGroup] = {}
        self._poll = select.epoll()
        self._by_fileno: dict[int, CrowdMember] = {}

    def add(self, group_id: str, count: int = 1) -> list[CrowdMember]:
        """Connect new members; they have not asked to join yet."""
        group = self.groups.setdefault(group_id, CrowdGroup(group_id))
        added = []
        for _ in range(count):
            member = CrowdMember(Line(self.address, FIRST_NUMBER + len(self.members)), group)
            member.line.socket.setblocking(False)
            group.members.append(member)
            self.members.append(member)
            self._by_fileno[member.line.fileno] = member
            self._poll.register(member.line.fileno, select.EPOLLIN)
            added.append(member)
        return added

    def join(self, members: Sequence[CrowdMember]) -> None:
        for member in members:
            self._join(member)

    def run(self, groups: Sequence[CrowdGroup], seconds: float = 60.0) -> None:
        """Until these stand. Raises TimeoutError if they do not in time."""
        ends = time.monotonic() + seconds
        while not all(group.stands for group in groups):
            for fileno, _ in self._poll.poll(0.2):
                self._receive(self._by_fileno[fileno])
            if time.monotonic() > ends:
                missing = [f"{group.group_id}: {group.synced}/{len(group.members)}" for group in groups]
                raise TimeoutError(f"groups did not form: {missing[:5]}")

    def form(self, sizes: dict[str, int]) -> None:
        """Connect, join and wait until all groups stand."""
        for group_id, size in sizes.items():
            # The first member alone, then the others at once: two rebalances instead of one a member.
            self.join(self.add(group_id))
            self.run([self.groups[group_id]])
            if size > 1:
                self.join(self.add(group_id, size - 1))
        self.run(list(self.groups.values()))
        self.settle()

    def settle(self, seconds: float = 0.05) -> None:
        """Take in notifications that are still on their way."""
        while ready := self._poll.poll(seconds):
            for fileno, _ in ready:
                self._receive(self._by_fileno[fileno])

    def close(self) -> None:
        for member in self.members:
            member.line.close()
        self._poll.close()

    # --- one member ---

    def _join(self, member: CrowdMember) -> None:
        params = {
            "group_id": member.group.group_id,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": 60_000,
            "member_id": member.member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": self._protocol_of(member.group.group_id)}],
            "wants_member_id_first": False,
        }
        member.rejoins = False
        self._ask(member, _JOIN, "JoinGroup", params)
        member.group.last_join_sent = time.perf_counter()

    def _ask(self, member: CrowdMember, what: int, method: str, params: dict[str, Any]) -> None:
        member.asked = what
        data = msgpack.packb([0, FIRST_NUMBER + what, method, [params]])
        sent = member.line.socket.send(data)
        if sent < len(data):  # a leader's assignments for thousands
            member.line.socket.setblocking(True)
            member.line.socket.sendall(data[sent:])
            member.line.socket.setblocking(False)

    def _receive(self, member: CrowdMember) -> None:
        data = member.line.socket.recv(1 << 20)
        if not data:
            raise UnexpectedReply("the server closed a member's connection")
        member.unpacker.feed(data)
        for value in member.unpacker:
            if value[0] == 2:
                self._pushed(member, value[1])
            elif value[1] == FIRST_NUMBER + _JOIN:
                self._joined(member, value[2], value[3])
            else:
                self._synced(member, value[2], value[3])

    def _pushed(self, member: CrowdMember, method: str) -> None:
        if method != "RebalanceStarted":
            return
        if member.asked is None:
            self._join(member)
        else:
            member.rejoins = True

    def _joined(self, member: CrowdMember, error: Any, joined: dict[str, Any]) -> None:
        member.asked, member.rejoins = None, False
        if error is not None:
            self._again(member, error)
            return
        member.member_id, member.generation_id = joined["member_id"], joined["generation_id"]
        group_id = member.group.group_id
        assignments = [
            {"member_id": other["member_id"], "assignment": self._assigned(group_id, place)}
            for place, other in enumerate(joined["members"])
        ]
        if assignments:
            member.group.decided = {one["assignment"] for one in assignments}
        params = {
            "group_id": group_id,
            "generation_id": member.generation_id,
            "member_id": member.member_id,
            "assignments": assignments,
        }
        self._ask(member, _SYNC, "SyncGroup", params)

    def _synced(self, member: CrowdMember, error: Any, synced: dict[str, Any]) -> None:
        member.asked = None
        if error is not None:
            self._again(member, error)
            return
        group = member.group
        if synced["assignment"] not in group.decided:
            raise UnexpectedReply("a member's assignment is not what its leader decided")
        member.assignment = synced["assignment"]
        if member.generation_id > group.generation_id:
            group.generation_id, group.synced = member.generation_id, 0
        if member.generation_id == group.generation_id and member.synced != member.generation_id:
            group.synced += 1
        member.synced = member.generation_id
        group.last_synced = time.perf_counter()
        if member.rejoins:
            self._join(member)

    def _again(self, member: CrowdMember, error: Any) -> None:
        if error[0] == _UNKNOWN_MEMBER_ID:
            member.member_id = ""
        elif error[0] not in _REJOIN:
            raise UnexpectedReply(f"a member was refused: {error!r}")
        self._join(member)
