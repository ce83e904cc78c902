"""Kill the daemon at random moments, again and again: `python -m bench.crash [--torture] [--kills N] [--seed S]`.

Clients commit offsets and members rebalance while a real musterd dies by SIGKILL and is started again on the same
folder. After each start: every commit that was acknowledged is read back, and no generation that a member had synced
in has gone back. Exits 1 if one is broken.

A commit that was not acknowledged may have been stored or not: what is read back must be the last acknowledged offset
or the one that was under way.

Torture is the same with segments so small, and checkpoints and compaction so frequent, that a kill hits any phase; some
hit the start, and some lives end in good order instead, so that the next begins from what that leaves. After some kills
the folder is looked at from outside too, as `musterd log verify` does. And all clients log in there, and have ACLs: an
administrator changes users and ACLs meanwhile, which must be there after each start as they were acknowledged; a user
without ACLs tries to commit.
"""

import argparse
import itertools
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bench import crash_accounts
from bench.crash_accounts import Administrator, Intruder, Key
from bench.crash_clients import PARTITIONS, TOPIC, Churner, Committer, OpenWire
from bench.processes import QUICK_GROUPS, Daemon, scratch
from bench.wire import Wire
from partition_log.disk.disk import ReadOnlyDisk
from partition_log.inspection.findings import Severity
from partition_log.inspection.inspector import Inspector

COMMITTERS = 8
CHURNING_GROUPS = 3
MEMBERS = 3

GroupReply = dict[str, list[dict[str, list[dict[str, int]]]]]


class Outcome(NamedTuple):
    """`violations` are sentences; there should be none. `hits`: what kills came between, as the folder tells."""

    kills: int
    committed: int
    generations: int
    restart_s: list[float]
    violations: list[str]
    hits: Counter[str]
    changes: int
    """Changes of users and ACLs that were acknowledged."""
    refused: int
    """Commits of a user without ACLs."""


class Manner(NamedTuple):
    """Life of a daemon: its settings, its longest time of service, and the shares of starts that are killed, of clean
    stops, and of checks of the folder in between. `wants_logins`: all clients log in, and users and ACLs change."""

    settings: Mapping[str, str]
    life_s: float
    in_start: float = 0.0
    stopped: float = 0.0
    looked_at: float = 0.0
    wants_logins: bool = False


_SETTINGS = {**QUICK_GROUPS, "group.min.session.timeout.ms": "100"}
CRASH = Manner({**_SETTINGS, "wal.checkpoint.bytes": str(2 << 20)}, life_s=0.5)
TORTURE = Manner(
    {
        **_SETTINGS,
        **crash_accounts.SETTINGS,
        "offsets.topic.num.partitions": "4",
        "offsets.topic.segment.bytes": str(16 << 10),
        "offsets.topic.max.message.bytes": str(64 << 10),
        "message.max.bytes": str(64 << 10),
        "wal.segment.bytes": str(1 << 20),
        "wal.checkpoint.bytes": str(1 << 20),
        "log.cleaner.backoff.ms": "20",
        "log.cleaner.min.cleanable.ratio": "0.1",
        "journal.notes.per.group": "50",
    },
    life_s=0.4,
    in_start=0.15,
    stopped=0.05,
    looked_at=0.05,
    wants_logins=True,
)
_START_S = 1.0


class Story:
    """Lives and deaths of daemons on one folder, and what they have acknowledged."""

    def __init__(self, seed: int, folder: Path, manner: Manner) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.manner = manner
        self.open: OpenWire = crash_accounts.open_wire if manner.wants_logins else Wire
        self.accounts: dict[Key, int] = {}
        self.change_under_way: tuple[Key, int] | None = None
        self.changes = self.turn = self.refused = 0
        self.acknowledged = {f"commits-{number}": 0 for number in range(COMMITTERS)}
        self.under_way = dict(self.acknowledged)
        self.synced: dict[str, int] = {}
        self.violations: list[str] = []
        self.restart_s: list[float] = []
        self.hits: Counter[str] = Counter()
        self.committed = self.generations = self.kills = 0

    def live(self, *, is_last: bool) -> None:
        """One life: what was acknowledged is looked for first. The last one only looks."""
        began = time.monotonic()
        is_first = not self.folder.exists()
        with Daemon(self.folder, self.manner.settings) as daemon:
            daemon.wait_until_loaded()
            if is_first:
                if self.manner.wants_logins:
                    crash_accounts.make_first_users(daemon)
                daemon.create_topic(TOPIC, PARTITIONS, self.open)
            else:
                self.restart_s.append(time.monotonic() - began)
                with self.open(daemon.native) as wire:
                    self.violations += _lost(wire, self.acknowledged, self.under_way)
                    self.violations += _gone_back(wire, self.synced)
                self._compare_accounts(daemon)
            if is_last:
                return
            self._serve(daemon)
        self._look()

    def _compare_accounts(self, daemon: Daemon) -> None:
        if self.manner.wants_logins:
            found = crash_accounts.found_in(daemon)
            self.violations += crash_accounts.lost(found, self.accounts, self.change_under_way)
            self.accounts, self.change_under_way = found, None

    def _serve(self, daemon: Daemon) -> None:
        native, seeds = daemon.native, self.chance
        committers = [Committer(native, self.open, group, offset) for group, offset in self.acknowledged.items()]
        churners = [
            Churner(native, self.open, f"churn-{number % CHURNING_GROUPS}", self.synced, seeds.randrange(1 << 30))
            for number in range(CHURNING_GROUPS * MEMBERS)
        ]
        others: list[Administrator | Intruder] = []
        if self.manner.wants_logins:
            others = [Administrator(native, self.accounts, self.turn), Intruder(native, list(self.acknowledged), TOPIC)]
        for thread in itertools.chain(committers, churners, others):
            thread.start()
        time.sleep(0.02 + self.chance.random() * self.manner.life_s)
        if self.chance.random() < self.manner.stopped:
            if (code := daemon.stop()) != 0:
                self.violations.append(f"a daemon that was told to stop ended with {code}")
            self.hits["stopped in good order"] += 1
        else:
            daemon.kill()
            self.kills += 1
        for thread in itertools.chain(committers, churners, others):
            thread.join()
        self.acknowledged.update((committer.group_id, committer.acknowledged) for committer in committers)
        self.under_way.update((committer.group_id, committer.under_way) for committer in committers)
        self.committed += sum(committer.count for committer in committers)
        self.violations += [sentence for churner in churners for sentence in churner.went_back]
        self.generations += sum(churner.generations for churner in churners)
        for other in others:
            self.violations += other.failed
            if isinstance(other, Administrator):
                self.accounts, self.change_under_way, self.turn = other.acknowledged, other.under_way, other.turn
                self.changes += other.count
            else:
                self.refused += other.refused

    def die_young(self) -> None:
        """A start that is killed, perhaps before it has recovered, perhaps while it loads."""
        process = subprocess.Popen(
            Daemon.command(self.folder, self.manner.settings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            code = process.wait(self.chance.random() * _START_S)
            self.violations.append(f"a start ended with {code}")
        except subprocess.TimeoutExpired:
            self.hits["killed in the start"] += 1
            self.kills += 1
        finally:
            process.kill()
            process.wait()
        self._look()

    def _look(self) -> None:
        for path in self.folder.rglob("*"):
            kind = path.name.strip("-0123456789")  # of a log's file
            if kind in (".cleaned", ".swap", ".groups.new", "checkpoint.new", "making"):
                self.hits[f"left {kind}"] += 1
        if self.chance.random() < self.manner.looked_at:
            self.hits["looked at from outside"] += 1
            found = Inspector(ReadOnlyDisk(), str(self.folder)).verify()
            self.violations += [one.sentence for one in found if one.severity is Severity.DAMAGE]


def run(kills: int, seed: int, folder: Path, *, manner: Manner = CRASH, say: bool = False) -> Outcome:
    """Let it happen; what was seen."""
    story = Story(seed, folder, manner)
    while story.kills < kills:
        if story.kills and story.chance.random() < manner.in_start:
            story.die_young()
        else:
            story.live(is_last=False)
        if say and sys.stdout.isatty():
            print(f"\r{story.kills}/{kills} kills, {story.committed} commits", end="", flush=True)
    story.live(is_last=True)
    counts = story.kills, story.committed, story.generations
    return Outcome(*counts, story.restart_s, story.violations, story.hits, story.changes, story.refused)


def _lost(wire: Wire, acknowledged: dict[str, int], under_way: dict[str, int]) -> list[str]:
    """Compare each group's offset with the acknowledged ones. The offset read counts as acknowledged from now on, since
    a read promises as much as a commit."""
    found = []
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


def _gone_back(wire: Wire, synced: dict[str, int]) -> list[str]:
    if not synced:
        return []
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
    parser.add_argument("--torture", action="store_true", help="small segments, much cleaning, kills at any moment")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    given = parser.parse_args(arguments)
    with scratch() as folder:
        manner, began = TORTURE if given.torture else CRASH, time.monotonic()
        outcome = run(given.kills, given.seed, folder / "data", manner=manner, say=True)
    restarts = sorted(outcome.restart_s)
    print(f"\rkills                {outcome.kills:>10,}   in {time.monotonic() - began:,.0f} s (seed {given.seed})")
    print(f"commits acknowledged {outcome.committed:>10,}   of {PARTITIONS} partitions each")
    print(f"generations synced   {outcome.generations:>10,}   by members of {CHURNING_GROUPS} groups")
    if manner.wants_logins:
        print(f"changes of accounts  {outcome.changes:>10,}   acknowledged; {outcome.refused:,} commits without an ACL")
    print(f"lost or gone back    {len(outcome.violations):>10,}")
    print(f"restart until loaded {restarts[len(restarts) // 2]:>10.2f} s median, {restarts[-1]:.2f} s at most")
    for what, times in sorted(outcome.hits.items()):
        print(f"{what:<30} {times:,}")
    for sentence in outcome.violations:
        print(f"VIOLATION: {sentence}", file=sys.stderr)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
