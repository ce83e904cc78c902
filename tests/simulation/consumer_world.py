"""A world of server-driven consumer groups: the same daemon, disk, network and clock, other members and other checkers
(docs/spec/consumer-group-protocol.md#1.4).

At no instant do two members hold a partition, each by its own clock; no epoch goes back; and once the faults stop,
every member has its target, and every partition of a subscribed topic a member.

python -m tests.simulation.consumer_world --seeds 1000 --first 0
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import Any

from msgspec import structs

from coordinator.config.config import Config
from coordinator.config.keys import RebalanceProtocols
from coordinator.groups.consumer import target
from coordinator.groups.consumer.state import ConsumerGroup
from tests.groups.checks import check_kinds
from tests.simulation.consumer_member import GROUP, HEARTBEAT_MS, SESSION_MS, ConsumerSim
from tests.simulation.daemon import TOPICS
from tests.simulation.errors import Broken
from tests.simulation.network import Link
from tests.simulation.plan import Plan, draw
from tests.simulation.replay import compare_with_replay
from tests.simulation.world import World

FAULTS = (
    *("cut", "delay", "deaf", "mute", "half-open", "reset in reply", "lose reply", "stall", "leave"),
    *("power", "power in job", "power in swap", "daemon killed", "restart", "pause", "slow disk", "full", "fail"),
    "clock",
)
_MOST_MEMBERS = 8
_AT_ONCE_US = target.AT_ONCE_US


def draw_consumers(seed: int) -> Plan:
    """A swarm of the faults that befall any member, whatever it speaks of."""
    random = Random(f"consumers-{seed}")
    return draw(seed, on=tuple(kind for kind in FAULTS if random.random() < 0.6))


class ConsumerWorld(World):
    """Watches its members itself."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        target.AT_ONCE_US = 0 if seed % 2 else _AT_ONCE_US  # in odd worlds every group is a large one
        super().__init__(seed, plan or draw_consumers(seed))
        self._lives = 0
        self._people: dict[str, ConsumerSim] = {}
        self._known: tuple[ConsumerGroup | None, int] = (None, 0)
        self._chance = Random(f"consumer world {seed}")
        self._largest = (0, SESSION_MS)
        self.after(500, self._look)
        for _ in range(self._chance.randrange(4)):
            self.after(self._chance.randrange(2_000, self.plan.pace.until_ms), self._kill_somebody)
        for _ in range(self._chance.randrange(4)):
            self.after(self._chance.randrange(2_000, self.plan.pace.until_ms), self._restart_somebody)

    def draw_config(self, random: Random) -> Config:
        return structs.replace(
            super().draw_config(random),
            group_coordinator_rebalance_protocols=RebalanceProtocols(("classic", "consumer")),
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            group_consumer_assignment_interval_ms=random.choice((0, 0, 1_000, 3_000)),
        )

    # --- the people ---

    def join(self, name: str, like: str | None = None, group_id: str | None = None) -> None:
        if self._is_quiet or sum(one.running for one in self._people.values()) >= _MOST_MEMBERS:
            return
        self._lives += 1
        instance = f"i-{name}" if Random(f"{self.seed} instance {name}").random() < 0.4 else None
        before = self._people.get(name)
        if before is not None:
            before.kill()  # an instance is only started again when its process is gone
        random = Random(f"{self.seed} consumer {name} {self._lives}")
        member = ConsumerSim(f"{name}.{self._lives}", instance, self, random, self.open_link, self, self.seen)
        self._people[name] = member
        others: dict[str, Any] = self.members  # where mishaps look for whom they befall
        others[name] = member
        member.start()

    def _kill_somebody(self) -> None:
        running = [name for name, one in self._people.items() if one.running]
        if running:
            name = self._chance.choice(running)
            self.seen.add("consumers killed")
            self._people[name].kill()
            self.after(self._chance.choice((0, 500, 4_000, 9_000)), lambda: self.join(name))

    def _restart_somebody(self) -> None:
        """Let a member leave, and start it again within its session or later: an instance is replaced then."""
        running = [name for name, one in self._people.items() if one.running]
        if running:
            name = self._chance.choice(running)
            self.seen.add("consumers restarted")
            self._people[name].leave()
            self.after(self._chance.choice((1_500, 3_000, 9_000)), lambda: self.join(name))

    # --- what is watched ---

    def took(self, member: ConsumerSim) -> None:
        for other in self._people.values():
            both = member.owned & other.owned if other is not member and other.is_alive else None
            if both:
                raise Broken(f"{member.name} and {other.name} hold {sorted(both)} at once")

    def epoch_answered(self, member: ConsumerSim, before: int, after: int) -> None:
        if after < before:
            raise Broken(f"{member.name} was at epoch {before}, and is told {after}")

    def sent(self, message: Any, link: Link, now_ms: int) -> None:
        self.checkers.sent(message, link, now_ms)

    @property
    def is_quiet(self) -> bool:
        return self._is_quiet

    def topic_name(self, topic_id: bytes) -> str | None:
        node = self.daemon.node
        return None if node is None else node.core.topics.name_of(topic_id)

    def _look(self) -> None:
        self.after(500, self._look)
        node = self.daemon.node
        if node is None or not node.is_loaded:
            return
        for shard in node.core.shards:
            for group in shard.groups.values():
                check_kinds(group, node.core.purgatory)
        found = node.core.directory.get(GROUP)
        group_now = None if found is None else found.consumer
        known, epoch = self._known
        if group_now is not None:
            if group_now is known and group_now.epoch < epoch:
                raise Broken(f"the group epoch was {epoch}, and is {group_now.epoch}")
            self._known = group_now, group_now.epoch

    # --- the quiet ---

    @property
    def bound_ms(self) -> int:
        """Sessions that run out, revocations that time out, and what follows from both."""
        return 10 * SESSION_MS

    def _must_be_settled(self) -> None:
        node = self.daemon.node
        if node is None:
            raise Broken("the daemon did not come up again")
        running = {one.name: one for one in self._people.values() if one.running}
        found = node.core.directory.get(GROUP)
        group = None if found is None else found.consumer
        if group is not None and running:
            self._must_have_converged(group, running)
        self.checkers.look_at_all(node)
        compare_with_replay(node)

    def _must_have_converged(self, group: ConsumerGroup, running: dict[str, ConsumerSim]) -> None:
        if group.state.title != "Stable":
            states = {one.member_id: one.current for one in group.members.values()}
            raise Broken(f"the group is {group.state.title}: {group.epoch}/{group.target_epoch} {states}")
        if group.members.keys() != running.keys():
            raise Broken(f"members are {sorted(group.members)}, and {sorted(running)} run")
        owned = set()
        for name, member in running.items():
            target = {(topic_id, number) for topic_id, ns in group.targets.get(name, {}).items() for number in ns}
            if member.owned != target:
                raise Broken(f"{name} holds {sorted(member.owned)}, and its target is {sorted(target)}")
            owned |= target
        for topic, count in TOPICS.items():
            known = group.topics.find(topic)
            if topic in group.subscribed and known is not None:
                missing = {(known.topic_id, number) for number in range(count)} - owned
                if missing:
                    raise Broken(f"{topic}: nobody has {sorted(number for _, number in missing)}")


def _tried(seed: int) -> str:
    """Run a seed, and return the failure; empty if there is none."""
    try:
        ConsumerWorld(seed).run()
    except (Broken, AssertionError) as error:
        return f"BROKEN {seed} {error}"
    return ""


def main() -> int:
    """So many seeds; which of them broke, and how."""
    parser = argparse.ArgumentParser(description="Worlds of server-driven consumer groups.")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers) as pool:
        said = list(filter(None, pool.map(_tried, range(given.first, given.first + given.seeds), chunksize=8)))
    print("\n".join([*said, f"{given.seeds} worlds of consumer groups, {len(said)} broken"]))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
