"""A world of server-driven consumer groups: the same daemon, disk, network and clock, other members and other checkers
(docs/spec/consumer-group-protocol.md#1.4).

In most worlds some members speak the classic protocol, and fleets change their protocol one member at a time in the
middle of everything. Members of both protocols speak it in the native dialect or in Kafka's, drawn at each start. At no
instant do two members hold a partition, each by its own clock; no epoch goes back, nor with the protocol; nobody is
fenced for one lost reply, and no epoch is taken that a member does not have. Once the faults stop, every member has its
target, or what its leader assigned, and every partition of a subscribed topic has a member.

python -m tests.simulation.consumer_world --seeds 1000 --first 0
"""

import sys
from random import Random
from typing import Any

from msgspec import structs

from coordinator.config.config import Config
from coordinator.config.keys import MigrationPolicy
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.consumer import target
from coordinator.groups.consumer.state import ConsumerGroup
from protocol.consumer_protocol import decode_assignment
from tests.simulation.classic_sim import ClassicSim, draw_classic
from tests.simulation.consumer_member import GROUP, HEARTBEAT_MS, ConsumerSim, draw_dialect
from tests.simulation.daemon import TOPICS
from tests.simulation.errors import Broken
from tests.simulation.faults import Seen
from tests.simulation.native_member import SESSION_MS
from tests.simulation.native_world import FAULTS, NativeWorld, draw_faults
from tests.simulation.plan import Plan
from tests.simulation.seeds import run_seeds, seeds_parser

_BOTH_WAYS = MigrationPolicy.BIDIRECTIONAL
_FAULTS = (*(kind for kind in FAULTS if kind != "reorder"), "hold")
_KAFKA = (0.0, 0.4, 0.7)


class ConsumerWorld(NativeWorld[Any]):
    """`_classic`: the share of members that speak the classic protocol when they start. `kafka`: the share of the
    others that speak Kafka's dialect, drawn if it is not given; classic members draw theirs among their traits."""

    noun = "consumer"

    def __init__(self, seed: int, plan: Plan | None = None, kafka: float | None = None) -> None:
        super().__init__(seed, plan or draw_faults("consumers", seed, _FAULTS), self.noun)
        self._known: tuple[Any, frozenset[str], int] = (None, frozenset(), 0)
        self._names: dict[bytes, str] = {}
        self._classic = self._chance.choice((0.0, 0.3, 0.5, 0.8))
        self._is_cooperative = self._chance.random() < 0.5
        self._kafka = Random(f"dialects of consumers {seed}").choice(_KAFKA) if kafka is None else kafka
        self.sometimes(self._chance.randrange(4), self._kill_somebody)
        self.sometimes(self._chance.randrange(4), self._restart_somebody)
        self.sometimes(self._chance.choice((0, 1, 1, 2)), self._migrate)

    def run(self) -> Seen:
        at_once_us = target.AT_ONCE_US
        if self.seed % 2:
            target.AT_ONCE_US = 0  # every group is a large one
        try:
            return super().run()
        finally:
            target.AT_ONCE_US = at_once_us

    def draw_config(self, random: Random) -> Config:
        return structs.replace(
            super().draw_config(random),
            group_max_size=1_000,  # a member that a lowered limit expels holds its partitions until its next answer
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            group_consumer_assignment_interval_ms=random.choice((0, 0, 1_000, 3_000)),
            group_consumer_migration_policy=random.choice(
                (_BOTH_WAYS, _BOTH_WAYS, _BOTH_WAYS, MigrationPolicy.UPGRADE)
            ),
        )

    # --- the people ---

    def group_of(self, name: str) -> str | None:
        return GROUP

    def make_member(self, name: str, instance_id: str | None, random: Random) -> ConsumerSim | ClassicSim:
        member: ConsumerSim | ClassicSim
        if random.random() < self._classic:
            traits = draw_classic(GROUP, instance_id, random, is_cooperative=self._is_cooperative)
            member = ClassicSim(name, traits, self, random, self, self.seen)
        else:
            dialect = draw_dialect(random, self._kafka, is_static=instance_id is not None)
            member = ConsumerSim(name, instance_id, self, random, self.open_link, self, self.seen, dialect)
        self._count_change(self._people.get(name.rpartition(".")[0]), member)
        return member

    def _count_change(self, before: ConsumerSim | ClassicSim | None, after: ConsumerSim | ClassicSim) -> None:
        """Count what changes as a member starts again."""
        if before is None:
            return
        self.seen.add("members that changed their dialect", before.dialect.name != after.dialect.name)
        if type(before) is not type(after):
            way = "upgraded" if isinstance(after, ConsumerSim) else "downgraded"
            server_driven = after if isinstance(after, ConsumerSim) else before
            self.seen.add(f"{server_driven.dialect.name} members {way}")

    def _migrate(self) -> None:
        """Restart all members, one after the other, with another protocol than most have."""
        self._classic = 0.0 if self._classic > 0 else 1.0
        self.seen.add("fleets that changed their protocol")
        for number, name in enumerate(self.running_names):
            self.after(number * self._chance.choice((300, 1_500, 4_000)), lambda name=name: self._restart(name))  # type: ignore[misc]

    def _restart_somebody(self) -> None:
        """Let a member leave, and start it again within its session or later: an instance is replaced then."""
        if self.running_names:
            self._restart(self._chance.choice(self.running_names))

    def _restart(self, name: str) -> None:
        if name in self.running_names and not self._is_quiet:
            self.seen.add("consumers restarted")
            self._people[name].leave()
            self.after(self._chance.choice((1_500, 3_000, 9_000)), lambda: self.join(name))

    # --- what is watched ---

    def took(self, member: ConsumerSim | ClassicSim) -> None:
        if not member.is_alive:
            return  # what it was told is older than its session
        for other in self._people.values():
            both = member.places & other.places if other is not member and other.is_alive else None
            if both and not self._is_replaced(other):
                raise Broken(f"{member.name} and {other.name} hold {sorted(both)} at once")

    def _is_replaced(self, member: ConsumerSim | ClassicSim) -> bool:
        """Return true for a classic static member in whose place another process has joined by the consumer protocol,
        which may be a late request of a former one: the coordinator replaces a classic holder at once, and the holder
        learns of it by its next request (docs/spec/consumer-group-protocol.md#7.2)."""
        found = None if self.daemon.node is None else self.daemon.node.core.directory.get(GROUP)
        consumer = None if found is None else found.serving_consumer
        if consumer is None or not isinstance(member, ClassicSim):
            return False
        holder = consumer.static_members.get(member.traits.settings.group_instance_id or "")
        is_replaced = holder is not None and holder != member.member_id
        self.seen.add("holders replaced by another process", is_replaced)
        return is_replaced

    def epoch_answered(self, member: ConsumerSim, before: int, after: int) -> None:
        if after < before:
            raise Broken(f"{member.name} was at epoch {before}, and is told {after}")

    def wronged(self, member: ConsumerSim, how: str) -> None:
        raise Broken(f"{member.name} {how}")

    @property
    def is_quiet(self) -> bool:
        return self._is_quiet

    def topic_name(self, topic_id: bytes) -> str | None:
        node = self.daemon.node
        name = None if node is None else node.core.topics.name_of(topic_id)
        if name is not None:
            self._names[topic_id] = name
        return self._names.get(topic_id)

    def _look_at(self, node: Any) -> None:
        found = node.core.directory.get(GROUP)
        if found is None:
            return
        consumer = found.serving_consumer
        epoch = found.classic.generation_id if consumer is None else consumer.epoch
        members = frozenset(found.classic.members if consumer is None else consumer.members)
        known, before, last = self._known
        if node is known and members & before and epoch < last:
            raise Broken(f"the epoch or generation was {last}, and is {epoch}, for {sorted(members & before)}")
        self._known = node, members, epoch
        self._count_mixture(members)

    def _count_mixture(self, members: frozenset[str]) -> None:
        """Count looks at a group that has server-driven members of both dialects, and classic ones."""
        kinds = {(type(one), one.dialect.name) for one in self._people.values() if one.member_id in members}
        is_mixed = {(ConsumerSim, "native"), (ConsumerSim, "kafka")} < kinds
        self.seen.add("looks at groups of both dialects and protocols", is_mixed)

    # --- the quiet ---

    @property
    def bound_ms(self) -> int:
        """Return the time in which sessions expire, revocations time out, and the rebalances after both end."""
        return 15 * SESSION_MS

    def _must_have_settled(self, node: Any) -> None:
        running = {one.member_id: one for one in self._people.values() if one.running}
        group = node.core.directory.get(GROUP)
        if group is not None and running:
            consumer = group.serving_consumer
            shares = self._shares_of_classic(group.classic) if consumer is None else self._targets(consumer)
            self._must_have_converged(shares, running)

    def _targets(self, group: ConsumerGroup) -> dict[str, set[tuple[str, int]]]:
        if group.state.title != "Stable":
            states = {one.member_id: one.current for one in group.members.values()}
            raise Broken(f"the group is {group.state.title}: {group.epoch}/{group.target_epoch} {states}")
        return {
            one: {
                (self.topic_name(topic_id) or "", n) for topic_id, ns in group.targets.get(one, {}).items() for n in ns
            }
            for one in group.members
        }

    def _shares_of_classic(self, group: ClassicGroup) -> dict[str, set[tuple[str, int]]]:
        if group.state is not GroupState.STABLE:
            raise Broken(f"the group is {group.state.title}, of generation {group.generation_id}")
        self.seen.add("groups that ended as classic ones")
        return {
            one.member_id: {(t, n) for t, ns in decode_assignment(one.assignment).partitions for n in ns}
            for one in group.members.values()
        }

    def _must_have_converged(
        self, shares: dict[str, set[tuple[str, int]]], running: dict[str, ConsumerSim | ClassicSim]
    ) -> None:
        if shares.keys() != running.keys():
            raise Broken(f"members are {sorted(shares)}, and {sorted(running)} run")
        subscribed = set()
        for name, member in running.items():
            if member.places != shares[name]:
                raise Broken(f"{name} holds {sorted(member.places)}, and has been assigned {sorted(shares[name])}")
            subscribed |= member.subscribed
        for topic in sorted(subscribed):
            missing = {(topic, number) for number in range(TOPICS[topic])} - set().union(*shares.values())
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
