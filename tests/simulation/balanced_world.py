"""A world of client-balanced groups: the same daemon, disk, network and clock, other members and other checkers.

At no instant do two members hold a partition, each by its own clock; no epoch goes back; nothing that was confirmed is
lost or passed over; and once the faults stop, all that is there is read.

python -m tests.simulation.balanced_world --seeds 1000 --first 0
"""

import sys
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
from tests.simulation.balancer import Balancer, Late
from tests.simulation.daemon import TOPICS
from tests.simulation.errors import Broken
from tests.simulation.native_member import SESSION_MS
from tests.simulation.native_world import FAULTS, NativeWorld, draw_faults
from tests.simulation.plan import Plan
from tests.simulation.seeds import run_seeds, seeds_parser

GROUP = "balancers"
_PRODUCE_MS, _PRODUCE_CALL = 300, 5_000
_PERIOD_MS = 2_000


class BalancedWorld(NativeWorld[Balancer]):
    noun = "balancer"

    def __init__(self, seed: int, plan: Plan | None = None, mode: str = CLIENT_MODE) -> None:
        super().__init__(seed, plan or draw_faults("balanced", seed, FAULTS), "balanced")
        self._mode = mode
        self._epochs: dict[str, int] = {}
        self._read_to: dict[str, int] = {}
        self._produced = _PRODUCE_CALL
        self.after(_PRODUCE_MS, self._produce)
        self.sometimes(self._chance.choice((0, 10, 40)), self._repeat_somebody)
        self.sometimes(self._chance.randrange(4), self._kill_somebody)

    def draw_config(self, random: Random) -> Config:
        return replace(super().draw_config(random), server_balance_interval_ms=_PERIOD_MS)

    # --- the people ---

    def make_member(self, name: str, instance_id: str | None, random: Random) -> Balancer:
        return Balancer(name, instance_id, self, random, self.open_link, self, self.seen, self._mode)

    def _repeat_somebody(self) -> None:
        """Send some member's last request once more, some time later."""
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

    def _alone(self, member: Balancer, key: str) -> None:
        for other in self._people.values():
            if other is not member and other.is_alive and key in other.owned:
                raise Broken(f"{member.name} and {other.name} hold {key} at once")

    # --- the quiet ---

    @property
    def bound_ms(self) -> int:
        """Return the longest time until all is read: a lease, the retries after it, and the reading."""
        return 8 * SESSION_MS

    def _end_faults(self) -> None:
        if not any(one.is_staying for one in self._people.values()):
            self.join("m1")  # somebody has to read what is left
        super()._end_faults()

    def _must_have_settled(self, node: Any) -> None:
        held: dict[str, str] = {}
        for member in self._people.values():
            if not member.running:
                continue
            if member.epoch is not None and not member.is_alive:
                raise Broken(f"{member.name} is a member and has no lease")
            for key in member.owned:
                other = held.setdefault(key, member.name)
                if other != member.name:
                    raise Broken(f"{other} and {member.name} hold {key}")
        for topic, count in TOPICS.items():
            for partition in range(count):
                self._must_be_read(node, topic, partition, held)

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
    parser = seeds_parser("Worlds of client-balanced groups.")
    parser.add_argument("--mode", choices=(CLIENT_MODE, SERVER_MODE), default=CLIENT_MODE)
    given = parser.parse_args()
    return run_seeds(given, "worlds of client-balanced groups", partial(_tried, given.mode))


if __name__ == "__main__":
    sys.exit(main())
