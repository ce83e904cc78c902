"""Kill the daemon at random moments, again and again: `python -m bench.crash [--kills N] [--seed S]`.

Clients commit offsets and members rebalance while a real musterd dies by SIGKILL and is started again on the same
folder. After each start: every commit that was acknowledged is read back, and no generation that a member had synced
in has gone back. Exits 1 if one is broken.

A commit that was not acknowledged may have been stored or not: what is read back must be the last acknowledged offset
or the one that was under way.
"""

import argparse
import itertools
import random
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from bench.processes import QUICK_GROUPS, Daemon, scratch
from bench.wire import Refusal, Wire, WireMember

TOPIC = "flights"
PARTITIONS = 8
COMMITTERS = 8
CHURNING_GROUPS = 3
MEMBERS = 3
_RETRY = (14, 15, 16)  # loading, not available, not coordinator
_SESSION_MS = 300  # those that died with the daemon hold a rebalance up for so long

GroupReply = dict[str, list[dict[str, list[dict[str, int]]]]]


class Outcome(NamedTuple):
    """`violations` are sentences; there should be none."""

    kills: int
    committed: int
    generations: int
    restart_s: list[float]
    violations: list[str]


class Committer(threading.Thread):
    """Commits one offset after the other for all partitions of its group, until the connection breaks."""

    def __init__(self, address: tuple[str, int], group_id: str, first: int) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.group_id = group_id
        self.acknowledged = first
        self.under_way = first
        self.count = 0

    def run(self) -> None:
        try:
            with Wire(self.address) as wire:
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

    def __init__(self, address: tuple[str, int], group_id: str, synced: dict[str, int], seed: int) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.group_id = group_id
        self.synced = synced
        """The highest generation by group that a member was handed an assignment in."""
        self.chance = random.Random(seed)
        self.went_back: list[str] = []
        self.generations = 0

    def run(self) -> None:
        try:
            with Wire(self.address) as wire:
                member = WireMember(
                    wire, self.group_id, session_timeout_ms=_SESSION_MS, rebalance_timeout_ms=_SESSION_MS
                )
                while True:
                    self._live(wire, member)
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


def run(kills: int, seed: int, folder: Path, *, say: bool = False) -> Outcome:
    """Let it happen; what was seen."""
    chance, restart_s = random.Random(seed), []
    acknowledged = {f"commits-{number}": 0 for number in range(COMMITTERS)}
    under_way = dict(acknowledged)
    synced: dict[str, int] = {}
    violations: list[str] = []
    committed = generations = 0
    settings = {**QUICK_GROUPS, "group.min.session.timeout.ms": "100", "wal.checkpoint.bytes": str(2 << 20)}
    for kill in range(kills + 1):
        began = time.monotonic()
        with Daemon(folder, settings) as daemon:
            daemon.wait_until_loaded()
            restart_s.append(time.monotonic() - began)
            if not kill:
                daemon.create_topic(TOPIC, PARTITIONS)
            else:
                violations += _lost(daemon, acknowledged, under_way)
                violations += _gone_back(daemon, synced)
            if kill == kills:
                break
            committers = [Committer(daemon.native, group, offset) for group, offset in acknowledged.items()]
            churners = [
                Churner(daemon.native, f"churn-{number % CHURNING_GROUPS}", synced, chance.randrange(1 << 30))
                for number in range(CHURNING_GROUPS * MEMBERS)
            ]
            for thread in itertools.chain(committers, churners):
                thread.start()
            time.sleep(0.02 + chance.random() * 0.5)
            daemon.kill()
            for thread in itertools.chain(committers, churners):
                thread.join()
        acknowledged.update((committer.group_id, committer.acknowledged) for committer in committers)
        under_way.update((committer.group_id, committer.under_way) for committer in committers)
        committed += sum(committer.count for committer in committers)
        violations += [sentence for churner in churners for sentence in churner.went_back]
        generations += sum(churner.generations for churner in churners)
        if say and sys.stdout.isatty():
            print(f"\r{kill + 1}/{kills} kills, {committed} commits", end="", flush=True)
    return Outcome(kills, committed, generations, restart_s[1:], violations)


def _lost(daemon: Daemon, acknowledged: dict[str, int], under_way: dict[str, int]) -> list[str]:
    """What each group is found at. From then on that is acknowledged: a read promises as much as a commit."""
    found = []
    with Wire(daemon.native) as wire:
        for group_id, offset in list(acknowledged.items()):
            (reply,) = wire.call("OffsetFetch", groups=[{"group_id": group_id}])["groups"]
            found += wrong_in(group_id, reply, offset, under_way[group_id])
            acknowledged[group_id] = max((entry["committed_offset"] for entry in _entries(reply)), default=0)
    return found


def wrong_in(group_id: str, reply: GroupReply, acknowledged: int, under_way: int) -> list[str]:
    """Each partition must be at what was acknowledged last, or at what was under way when the daemon died; all at the
    same, since they were committed together."""
    kept = {entry["partition_index"]: entry["committed_offset"] for entry in _entries(reply)}
    if acknowledged and set(kept) != set(range(PARTITIONS)):
        return [f"{group_id}: partitions {sorted(kept)} have offsets, of {PARTITIONS}"]
    found = []
    if wrong := set(kept.values()) - {acknowledged, under_way}:
        found.append(f"{group_id}: at {sorted(wrong)}, acknowledged {acknowledged}, under way {under_way}")
    if len(set(kept.values())) > 1:
        found.append(f"{group_id}: one commit was torn: {kept}")
    return found


def _entries(reply: GroupReply) -> list[dict[str, int]]:
    return [entry for topic in reply["topics"] for entry in topic["partitions"]]


def _gone_back(daemon: Daemon, synced: dict[str, int]) -> list[str]:
    if not synced:
        return []
    with Wire(daemon.native) as wire:
        described = wire.call("DescribeGroups", groups=list(synced))["groups"]
    return [
        f"{group['group_id']}: in generation {group['generation_id']} after {synced[group['group_id']]} was synced"
        for group in described
        if group["generation_id"] < synced[group["group_id"]]
    ]


def main(arguments: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser("python -m bench.crash", description="kill -9 the daemon under commits.")
    parser.add_argument("--kills", type=int, default=50, help="at least 1 (50)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    given = parser.parse_args(arguments)
    with scratch() as folder:
        outcome = run(given.kills, given.seed, folder / "data", say=True)
    restarts = sorted(outcome.restart_s)
    print(f"\rkills                {outcome.kills:>10,}   (seed {given.seed})")
    print(f"commits acknowledged {outcome.committed:>10,}   of {PARTITIONS} partitions each")
    print(f"generations synced   {outcome.generations:>10,}   by members of {CHURNING_GROUPS} groups")
    print(f"lost or gone back    {len(outcome.violations):>10,}")
    print(f"restart until loaded {restarts[len(restarts) // 2]:>10.2f} s median, {restarts[-1]:.2f} s at most")
    for sentence in outcome.violations:
        print(f"VIOLATION: {sentence}", file=sys.stderr)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
