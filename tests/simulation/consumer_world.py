"""A world of server-driven consumer groups: the same daemon, disk, network and clock, other members and other checkers
(docs/spec/consumer-group-protocol.md#1.4).

At no instant do two members hold a partition, each by its own clock; no epoch goes back; and once the faults stop,
every member has its target, and every partition of a subscribed topic a member.

python -m tests.simulation.consumer_world --seeds 1000 --first 0
"""

import sys
from random import Random
from typing import Any

from msgspec import structs

from coordinator.config.config import Config
from coordinator.config.keys import RebalanceProtocols
from coordinator.groups.consumer import target
from coordinator.groups.consumer.state import ConsumerGroup
from tests.simulation.consumer_member import GROUP, HEARTBEAT_MS, ConsumerSim
from tests.simulation.daemon import TOPICS
from tests.simulation.errors import Broken
from tests.simulation.native_member import SESSION_MS
from tests.simulation.native_world import FAULTS, NativeWorld, draw_faults
from tests.simulation.plan import Plan
from tests.simulation.seeds import run_seeds, seeds_parser

_AT_ONCE_US = target.AT_ONCE_US
_FAULTS = tuple(kind for kind in FAULTS if kind != "reorder")


class ConsumerWorld(NativeWorld[ConsumerSim]):
    noun = "consumer"

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        target.AT_ONCE_US = 0 if seed % 2 else _AT_ONCE_US  # in odd worlds every group is a large one
        super().__init__(seed, plan or draw_faults("consumers", seed, _FAULTS), self.noun)
        self._known: tuple[ConsumerGroup | None, int] = (None, 0)
        self.sometimes(self._chance.randrange(4), self._kill_somebody)
        self.sometimes(self._chance.randrange(4), self._restart_somebody)

    def draw_config(self, random: Random) -> Config:
        return structs.replace(
            super().draw_config(random),
            group_coordinator_rebalance_protocols=RebalanceProtocols(("classic", "consumer")),
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            group_consumer_assignment_interval_ms=random.choice((0, 0, 1_000, 3_000)),
        )

    # --- the people ---

    def make_member(self, name: str, instance_id: str | None, random: Random) -> ConsumerSim:
        return ConsumerSim(name, instance_id, self, random, self.open_link, self, self.seen)

    def _restart_somebody(self) -> None:
        """Let a member leave, and start it again within its session or later: an instance is replaced then."""
        if self.running_names:
            name = self._chance.choice(self.running_names)
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

    @property
    def is_quiet(self) -> bool:
        return self._is_quiet

    def topic_name(self, topic_id: bytes) -> str | None:
        node = self.daemon.node
        return None if node is None else node.core.topics.name_of(topic_id)

    def _look_at(self, node: Any) -> None:
        found = node.core.directory.get(GROUP)
        group_now: ConsumerGroup | None = None if found is None else found.consumer
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

    def _must_have_settled(self, node: Any) -> None:
        running = {one.name: one for one in self._people.values() if one.running}
        found = node.core.directory.get(GROUP)
        group = None if found is None else found.consumer
        if group is not None and running:
            self._must_have_converged(group, running)

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
    given = seeds_parser("Worlds of server-driven consumer groups.").parse_args()
    return run_seeds(given, "worlds of consumer groups", _tried)


if __name__ == "__main__":
    sys.exit(main())
