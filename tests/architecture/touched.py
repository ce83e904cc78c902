"""Files and functions that one JoinGroup and one expiry touch; `python -m tests.architecture.touched` lists them."""

import sys
from collections import defaultdict
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

from coordinator.clock import Moment
from coordinator.node.events import Event, Received, Woke
from protocol.messages import Message
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.native.client import NativeClient
from tests.architecture.tree import ROOT
from tests.node.node_rig import WALL_MS, NodeRig

GROUP, SESSION_MS = "group", 10_000
COORDINATOR = ("coordinator/", "purgatory/")
"""The counted folders; functions of the wire and the log are not counted."""


class Touched(NamedTuple):
    files: int
    functions: int


class Touching(dict[str, list[str]]):
    """Functions by file; a comprehension or a lambda counts as a function."""

    def within(self, *folders: str) -> Touched:
        chosen = [functions for path, functions in self.items() if path.startswith(folders)]
        return Touched(len(chosen), sum(map(len, chosen)))


def touched(act: Callable[[], object]) -> Touching:
    """Call the function; return the files and functions of the repository that ran."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            seen.add((frame.f_code.co_filename, frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    root, by_file = f"{ROOT}/", defaultdict(list)
    for path, name in sorted(seen):
        if path.startswith(root) and not path.startswith((f"{root}.", f"{root}tests/")):
            by_file[path.removeprefix(root)].append(name)
    return Touching(by_file)


class TwoMembers:
    """A Stable group of two members, the leader first, each on its connection."""

    def __init__(self) -> None:
        self.node_rig = NodeRig()
        self.ids = [self._ask(self.node_rig.connect(1), self._join()).member_id]
        assert not self.node_rig.ask(self.node_rig.connect(2), self._join())
        self._ask(1, self._join(self.ids[0]))
        self.ids.append(self._answer(2).member_id)
        assigned = tuple(SyncGroupAssignment(member_id, b"") for member_id in self.ids)
        for number, assignments in ((1, assigned), (2, ())):
            self.node_rig.ask(number, SyncGroup(GROUP, 2, self.ids[number - 1], assignments=assignments))
        self.node_rig.wait(0)
        assert self.state == "Stable"

    @property
    def state(self) -> str:
        return self.node_rig.node.core.directory[GROUP].classic.state.title

    def join(self) -> Touching:
        """A JoinGroup of the leader with other metadata: it is parked, and begins a rebalance."""
        data = NativeClient(1 << 20).encode_request(self._join(self.ids[0], b"new"))[1]
        return self._rebalancing(Received(1, data))

    def expire(self) -> Touching:
        """The session of the one that is not the leader ends, when no task is due."""
        self.node_rig.wait(SESSION_MS // 2)
        self.node_rig.ask(1, Heartbeat(GROUP, 2, self.ids[0]))
        self.node_rig.wait(SESSION_MS - SESSION_MS // 2 - 1)
        self.node_rig.now_ms += 1
        return self._rebalancing(Woke())

    def _rebalancing(self, event: Event) -> Touching:
        assert self.state == "Stable"
        moment = Moment(self.node_rig.now_ms, WALL_MS + self.node_rig.now_ms)
        seen = touched(lambda: self.node_rig.node.step(event, moment))
        assert self.state == "PreparingRebalance"
        return seen

    def _join(self, member_id: str = "", metadata: bytes = b"") -> JoinGroup:
        protocols = (JoinProtocol("range", metadata),)
        return JoinGroup(GROUP, SESSION_MS, member_id, "consumer", protocols, 60_000, wants_member_id_first=False)

    def _ask(self, number: int, message: JoinGroup) -> JoinGroupReply:
        replies = self.node_rig.ask(number, message)
        return self._answer(number, *replies)

    def _answer(self, number: int, *replies: Message) -> JoinGroupReply:
        if not replies:
            self.node_rig.wait(0)
            replies = tuple(self.node_rig.heard(number))
        return next(one for one in replies if isinstance(one, JoinGroupReply))


def main() -> None:
    """Print both paths, file by file."""
    for title, path in (("one JoinGroup", TwoMembers().join()), ("one expiry", TwoMembers().expire())):
        print(f"{title}: {path.within(*COORDINATOR)} in coordinator and purgatory, {path.within('')} in all")
        for file, functions in path.items():
            print(f"  {file} {len(functions)}: {' '.join(functions)}")


if __name__ == "__main__":
    main()
