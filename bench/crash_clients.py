"""Clients of a daemon that is killed again and again (`bench.crash`): they note what was acknowledged."""

import random
import threading
import time
from collections.abc import Callable

from bench.wire import Refusal, Wire, WireMember

TOPIC = "flights"
PARTITIONS = 8
_RETRY = (14, 15, 16)  # loading, not available, not coordinator
_SESSION_MS = 300  # those that died with the daemon hold a rebalance up for so long
_PATIENCE_S = 0.01

OpenWire = Callable[[tuple[str, int]], Wire]


class Committer(threading.Thread):
    """Commits one offset after the other for all partitions of its group, until the connection breaks."""

    def __init__(self, address: tuple[str, int], open_wire: OpenWire, group_id: str, first: int) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.open = open_wire
        self.group_id = group_id
        self.acknowledged = first
        self.under_way = first
        self.count = 0

    def run(self) -> None:
        try:
            with self.open(self.address) as wire:
                while True:
                    self._commit(wire, self.acknowledged + 1)
        except OSError:
            pass  # the daemon was killed

    def _commit(self, wire: Wire, offset: int) -> None:
        self.under_way = offset
        entries = [{"partition_index": index, "committed_offset": offset} for index in range(PARTITIONS)]
        try:
            reply = wire.call("OffsetCommit", group_id=self.group_id, topics=[{"name": TOPIC, "partitions": entries}])
        except Refusal as refusal:
            if refusal.code in _RETRY:
                time.sleep(_PATIENCE_S)
                return
            raise
        codes = {entry["error_code"] for topic in reply["topics"] for entry in topic["partitions"]}
        if codes == {0}:
            self.acknowledged = offset
            self.count += 1
        else:
            assert codes <= set(_RETRY), reply


class Churner(threading.Thread):
    """A member that joins, lives for a moment in its generation, and leaves or stays: its group keeps rebalancing."""

    def __init__(
        self, address: tuple[str, int], open_wire: OpenWire, group_id: str, synced: dict[str, int], seed: int
    ) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.open = open_wire
        self.group_id = group_id
        self.synced = synced
        """The highest generation by group that a member was handed an assignment in."""
        self.chance = random.Random(seed)
        self.went_back: list[str] = []
        self.generations = 0

    def run(self) -> None:
        try:
            with self.open(self.address) as wire:
                member = WireMember(
                    wire, self.group_id, session_timeout_ms=_SESSION_MS, rebalance_timeout_ms=_SESSION_MS
                )
                while True:
                    try:
                        self._live(wire, member)
                    except Refusal as refusal:
                        if refusal.code not in _RETRY:
                            raise
                        time.sleep(_PATIENCE_S)  # it is being stopped
        except OSError:
            pass  # the daemon was killed

    def _live(self, wire: Wire, member: WireMember) -> None:
        before = self.synced.get(self.group_id, -1)
        member.join()
        self.generations += 1
        if member.generation_id < before:
            self.went_back.append(f"{self.group_id}: generation {member.generation_id} was handed out after {before}")
        self.synced[self.group_id] = max(self.synced.get(self.group_id, -1), member.generation_id)
        ends = time.monotonic() + self.chance.random() / 10
        try:
            while time.monotonic() < ends:
                member.heartbeat()
                time.sleep(0.005)
            if self.chance.random() < 0.5:
                wire.call("LeaveGroup", group_id=self.group_id, members=[{"member_id": member.member_id}])
                member.member_id = ""
        except Refusal:
            pass  # somebody else's rebalance: join again
