"""A world of client-balanced groups: the same daemon, disk, network and clock, other members and other checkers.

At no instant do two members hold a partition, each by its own clock; no epoch goes back; nothing that was confirmed is
lost or passed over; and once the faults stop, all that is there is read.

python -m tests.simulation.balanced_world --seeds 1000 --first 0
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import Random
from typing import Any

from msgspec.structs import replace

from coordinator.config.config import Config
from coordinator.node.events import Call
from membership.topic_partition import TopicPartition
from protocol.messages import Message
from protocol.messages.balanced import CLIENT_MODE, SERVER_MODE
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.partition_key import parse_key
from protocol.record_batch import encode_batch
from tests.groups.checks import check_kinds
from tests.simulation.balancer import SESSION_MS, Balancer, Late
from tests.simulation.daemon import TOPICS
from tests.simulation.errors import Broken
from tests.simulation.network import Link
from tests.simulation.plan import Plan, draw
from tests.simulation.replay import compare_with_replay
from tests.simulation.world import World

GROUP = "balancers"
FAULTS = (
    *("cut", "delay", "reorder", "deaf", "mute", "half-open", "reset in reply", "lose reply", "stall", "leave"),
    *("power", "power in job", "power in swap", "daemon killed", "restart", "pause", "slow disk", "full", "fail"),
    "clock",
)
_PRODUCE_MS, _PRODUCE_CALL = 300, 5_000
_PERIOD_MS = 2_000
_MOST_MEMBERS = 8


def draw_balanced(seed: int) -> Plan:
    """A swarm of the faults that befall any member, whatever it speaks of."""
    random = Random(f"balanced-{seed}")
    return draw(seed, on=tuple(kind for kind in FAULTS if random.random() < 0.6))


class BalancedWorld(World):
    """Watches its members itself."""

    def __init__(self, seed: int, plan: Plan | None = None, mode: str = CLIENT_MODE) -> None:
        super().__init__(seed, plan or draw_balanced(seed))
        self._mode = mode
        self._epochs: dict[str, int] = {}
        self._read_to: dict[str, int] = {}
        self._lives = 0
        self._people: dict[str, Balancer] = {}
        self._produced = _PRODUCE_CALL
        self._chance = Random(f"balanced world {seed}")
        self._largest = (0, SESSION_MS)
        self.after(_PRODUCE_MS, self._produce)
        self.after(500, self._look)
        for _ in range(self._chance.choice((0, 10, 40))):
            self.after(self._chance.randrange(2_000, self.plan.pace.until_ms), self._repeat_somebody)
        for _ in range(self._chance.randrange(4)):
            self.after(self._chance.randrange(2_000, self.plan.pace.until_ms), self._kill_somebody)

    def draw_config(self, random: Random) -> Config:
        return replace(super().draw_config(random), server_balance_interval_ms=_PERIOD_MS)

    # --- the people ---

    @property
    def _others(self) -> dict[str, Any]:
        return self.members  # where mishaps look for whom they befall

    def join(self, name: str, like: str | None = None, group_id: str | None = None) -> None:
        if self._is_quiet or sum(one.running for one in self._people.values()) >= _MOST_MEMBERS:
            return
        self._lives += 1
        instance = f"i-{name}" if Random(f"{self.seed} instance {name}").random() < 0.4 else None
        before = self._people.get(name)
        if before is not None:
            before.kill()  # an instance is only started again when its process is gone
        random = Random(f"{self.seed} balancer {name} {self._lives}")
        member = Balancer(f"{name}.{self._lives}", instance, self, random, self.open_link, self, self.seen, self._mode)
        self._people[name] = member
        self._others[name] = member
        member.start()

    def _kill_somebody(self) -> None:
        running = [name for name, one in self._people.items() if one.running]
        if running:
            name = self._chance.choice(running)
            self.seen.add("balancers killed")
            self._people[name].kill()
            self.after(self._chance.choice((0, 500, 4_000, 9_000)), lambda: self.join(name))

    def _repeat_somebody(self) -> None:
        """Send a member's last request once more, some time later."""
        running = [one for one in self._people.values() if one.running and one.last_request is not None]
        if running:
            message = self._chance.choice(running).last_request
            assert message is not None
            self.seen.add("requests that came again, late")
            self.after(self._chance.randrange(9_000), lambda: self._say(message))

    def _say(self, message: Message) -> None:
        if self.daemon.node is not None and not self._is_quiet:
            Late(self.open_link, message)

    def _produce(self) -> None:
        if not self._is_quiet:
            self.after(_PRODUCE_MS, self._produce)
        if self.daemon.node is None:
            return
        topic = self._chance.choice(sorted(TOPICS))
        partition = self._chance.randrange(TOPICS[topic])
        batch = encode_batch([(None, b"record")] * self._chance.randrange(1, 4), timestamp_ms=1)
        self._produced += 1
        message = Produce((ProduceTopic(topic, (ProducePartition(partition, batch),)),))
        self.daemon.step(Call(self._produced, message))

    # --- what is watched ---

    def known_epoch(self, key: str) -> int:
        return self._epochs.get(key, 0)

    def granted(self, member: Balancer, key: str, epoch: int, known: int) -> None:
        if epoch < known:
            raise Broken(f"{member.name} was granted {key} by epoch {epoch}, and {known} was known when it asked")
        self._epochs[key] = max(epoch, self.known_epoch(key))
        self.seen.add("grants")
        self._alone(member, key)

    def delivered(self, member: Balancer, key: str, first: int, up_to: int) -> None:
        self._alone(member, key)
        if first > self._read_to.get(key, 0):
            raise Broken(f"{member.name} begins {key} at {first}, and nobody has read beyond {self._read_to.get(key)}")
        self._read_to[key] = max(up_to, self._read_to.get(key, 0))
        self.seen.add("batches delivered")

    def confirmed(self, key: str, offset: int) -> None:
        parsed = parse_key(key)
        assert parsed is not None
        self.checkers.acknowledge(GROUP, TopicPartition(parsed.topic, parsed.partition), offset)
        self.seen.add("batches confirmed")

    def sent(self, message: Any, link: Link, now_ms: int) -> None:
        self.checkers.sent(message, link, now_ms)

    def _alone(self, member: Balancer, key: str) -> None:
        for other in self._people.values():
            if other is not member and other.leases and key in other.owned:
                raise Broken(f"{member.name} and {other.name} hold {key} at once")

    def _look(self) -> None:
        self.after(500, self._look)
        node = self.daemon.node
        if node is None or not node.is_loaded:
            return
        for shard in node.core.shards:
            for group in shard.groups.values():
                check_kinds(group, node.core.purgatory)

    # --- the quiet ---

    @property
    def bound_ms(self) -> int:
        """A lease, what is tried again after, and time to read what is there."""
        return 8 * SESSION_MS

    def _must_be_settled(self) -> None:
        node = self.daemon.node
        if node is None:
            raise Broken("the daemon did not come up again")
        held: dict[str, str] = {}
        for member in self._people.values():
            if not member.running:
                continue
            if member.epoch is not None and not member.leases:
                raise Broken(f"{member.name} is a member and has no lease")
            for key in member.owned:
                other = held.setdefault(key, member.name)
                if other != member.name:
                    raise Broken(f"{other} and {member.name} hold {key}")
        for topic, count in TOPICS.items():
            for partition in range(count):
                self._must_be_read(node, topic, partition, held)
        self.checkers.look_at_all(node)
        compare_with_replay(node)

    def _must_be_read(self, node: Any, topic: str, partition: int, held: dict[str, str]) -> None:
        key = f"1:{topic}:{partition}"
        log, _configs = node.core.embedded.log_and_configs(topic, partition)
        if self._read_to.get(key, 0) < log.flushed_offset:
            who = held.get(key, "nobody")
            raise Broken(f"{key} is {who}'s, read to {self._read_to.get(key, 0)} of {log.flushed_offset}")


def _tried(mode: str, seed: int) -> str:
    """Run a seed, and return the failure; empty if there is none."""
    try:
        BalancedWorld(seed, mode=mode).run()
    except Broken as error:
        return f"BROKEN {error}"
    return ""


def main() -> int:
    """So many seeds; which of them broke, and how."""
    parser = argparse.ArgumentParser(description="Worlds of client-balanced groups.")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--mode", choices=(CLIENT_MODE, SERVER_MODE), default=CLIENT_MODE)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers) as pool:
        said = list(
            filter(
                None, pool.map(partial(_tried, given.mode), range(given.first, given.first + given.seeds), chunksize=8)
            )
        )
    print("\n".join([*said, f"{given.seeds} worlds of client-balanced groups, {len(said)} broken"]))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
