"""A world beside brokers: a node without topics of its own, in front of brokers that are another node; both have disks
that fail, and the network between them is cut, silent or slow at times. Members read through the node what producers
write through it.

What was acknowledged is lost by neither; nobody skips a record or is told of another in its place; groups go on while
the brokers are away; the brokers' own coordinator hears of no group but the one that was there before, which goes on
where it was, once its members are gone; and when all is well again everybody reads everything.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec

from coordinator.config.config import Config
from coordinator.config.keys import RebalanceProtocols, UpstreamOffsets
from coordinator.core.budget import BYTES_A_STEP
from coordinator.gateway.session import session
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from tests.simulation.begun import AnyGroup
from tests.simulation.beside.broker import BROKER_HOST, LATE, Brokers
from tests.simulation.beside.callers import Keeper, Pulse
from tests.simulation.beside.front import Front
from tests.simulation.beside.mishaps import MISHAPS
from tests.simulation.beside.network import Between
from tests.simulation.beside.people import Producer, Reader
from tests.simulation.beside.plan import draw_beside
from tests.simulation.beside.port import Port
from tests.simulation.beside.watch import MOST_UNFINISHED, MOVED, AtBroker, Watch
from tests.simulation.beside.wires import of_records, server_driven, with_records
from tests.simulation.checkers import Checkers
from tests.simulation.configs import draw_config
from tests.simulation.daemon import TOPICS, Daemon
from tests.simulation.errors import Broken
from tests.simulation.faults import Seen
from tests.simulation.ledger import Ledger
from tests.simulation.members import Traits, draw_traits
from tests.simulation.mishaps import befall
from tests.simulation.network import Link
from tests.simulation.plan import Decision, Plan
from tests.simulation.process import Process
from tests.simulation.replay import compare_with_replay
from tests.simulation.strangers import Caller
from tests.simulation.world import World

_BROKER_SEED = 1_000_000
_SILENCE_MS = 4_000
PROMISE_MS = _SILENCE_MS + 3_500
"""Time for which a client of a proxied listener waits for a reply, and the time to check."""
_AGAIN_MS, _REST_MS = 2_000, 15_000
_ASK_MS = (500, 1_500)
_MOVES_AFTER_MS = 1_500
_DRIVEN_SESSION_MS = 6_000
_DRIVEN_MS = 30_000
"""Time in which a pattern finds new topics: they are listed every ten seconds, and matched every ten seconds."""


class BesideWorld(World):
    """`front` is the node, `broker` what it stands beside."""

    checkers: Watch

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        super().__init__(seed, plan or draw_beside(seed))
        random = self._chance = Random(f"beside world {seed}")
        watch = self.checkers
        self.old: dict[str, Reader] = {}
        self._limits = random.choice((100, 1_000, session.SPLICE_MIN_BYTES)), random.choice((1 << 16, 1 << 18, 1 << 20))
        watch.most_held = self._limits[1] + MOST_UNFINISHED + BYTES_A_STEP  # as much is read ahead of a Pause
        self._at_broker = Checkers()
        self._of_broker = Seen()
        self._ids = random.choice(((1,), (1, 2, 3)))
        self.broker = self._make_broker()
        self.between = Between(self, random, self._ids)
        self.front.between, self.front.watch, self.broker.watch = self.between, watch, watch
        watch.broker = self.broker
        self.producers = [
            Producer(
                f"p{number}", of_records(random), self, self.open_link, watch, self.seen, Random(f"{seed} p{number}")
            )
            for number in range(1, 3)
        ]
        self._pulse, self._keeper = Pulse(self, random), Keeper(self, random)

    def draw_config(self, random: Random) -> Config:
        """Draw the config anew: only what a restart may change differs."""
        fixed = Random(f"{self.seed} upstream")
        driven: dict[str, Any] = {
            "group_coordinator_rebalance_protocols": RebalanceProtocols(("classic", "consumer")),
            "group_consumer_session_timeout_ms": _DRIVEN_SESSION_MS,
            "group_consumer_heartbeat_interval_ms": 1_500,
            "group_consumer_assignment_interval_ms": Random(f"{self.seed} interval").choice((0, 1_000)),
        }
        return msgspec.structs.replace(
            draw_config(random),
            upstream_offsets=fixed.choice((UpstreamOffsets.ADOPT, UpstreamOffsets.ADOPT, UpstreamOffsets.IGNORE)),
            upstream_refresh_ms=random.choice((500, 2_000)),
            upstream_metadata_max_age_ms=random.choice((1_000, 10_000)),
            upstream_ask_timeout_ms=random.choice(_ASK_MS),
            group_max_size=1_000,
            upstream_request_timeout_ms=_SILENCE_MS,
            **(driven if self.driven else {}),
        )

    def _make_daemon(self, config: Config) -> Daemon:
        self.checkers = Watch()
        self.checkers.driven = self.driven
        self.checkers.adopts = config.upstream_offsets is UpstreamOffsets.ADOPT
        self.front = Front(self.seed, self, config, self.checkers, self.seen, self._ledger)
        self.front.has_authorizer = Random(f"authorizer {self.seed}").random() < 0.5
        return self.front

    def _make_broker(self) -> Brokers:
        config = msgspec.structs.replace(
            draw_config(Random(f"broker-{self.seed}")),
            group_initial_rebalance_delay_ms=0,
            auto_create_topics_enable=False,
        )
        seed = self.seed + _BROKER_SEED
        ledger = Ledger(seed, self._at_broker, self._of_broker)
        brokers = Brokers(seed, self, config, self._at_broker, self._of_broker, ledger)
        brokers.ids = self._ids
        return brokers

    def _process_of(self, group: AnyGroup) -> Process:
        node = self.broker.node
        known = None if node is None else node.core.find(group.group_id)[1]
        return self.broker if known is not None and group in (known.classic, known.consumer) else self.front

    def run(self) -> Seen:
        """Run as any world, with limits that are reached."""
        passing, waiting = self._limits
        with patch.multiple(session, SPLICE_MIN_BYTES=passing, MAX_WAITING_BYTES=waiting):
            return super().run()

    def befall(self, decision: Decision) -> None:
        mishap = MISHAPS.get(decision.kind)
        if mishap is None:
            befall(self, decision)
        else:
            mishap(self, decision, Random(f"{self.seed} decision {decision.number}"))

    def _begin(self) -> None:
        self.broker.boot()
        self.front.boot()
        places = [TopicPartition(topic, index) for topic, count in TOPICS.items() for index in range(count + 2)]
        places += [TopicPartition(LATE, index) for index in range(2)]
        for producer in self.producers:
            producer.start(places)
        self._pulse.look()
        self._keeper.act()
        self.after(500, self._look)

    def let_weather(self) -> None:
        super().let_weather()
        self.broker.has_weather = True

    def keep_ledger(self) -> None:
        """Keep none: there are no transactions."""

    @property
    def steps(self) -> int:
        return self.front.steps + self.broker.steps

    def trace(self) -> str:
        return f"{super().trace()} {self.broker.trace()}"

    # --- connections ---

    def open_link(self, who: Caller, received: Callable[[bytes], None], lost: Callable[[], None]) -> Link | None:
        """Open a connection to the node's native listener, or to one in front of a broker."""
        if who.dialect.name != "kafka":
            return super().open_link(who, received, lost)
        edge = self.front.edge
        broker = edge.any_broker() if edge is not None else None
        return None if broker is None else self.connect(self.front, who, received, lost, broker)

    def _open_broker_link(
        self, who: Caller, received: Callable[[bytes], None], lost: Callable[[], None]
    ) -> Link | None:
        """Open a connection to a broker itself, as clients do that know its address: for records of native members, and
        for members of the group that was there before."""
        return self.connect(self.broker, who, received, lost)

    # --- the people ---

    def traits(self, name: str, group_id: str | None = None) -> Traits:
        traits = self._with_records(name, super().traits(name, group_id))
        return self._driven(name, traits) if traits.settings.group_id in self.driven else traits

    def _driven(self, name: str, traits: Traits) -> Traits:
        """Return the same member, in a group that the node balances."""
        random = Random(f"{self.seed} {name} driven")
        regex = "|".join(traits.topics) if random.random() < 0.3 else ""
        settings = msgspec.structs.replace(traits.settings, group_protocol=random.choice(("consumer", "auto")))
        dialect = server_driven(traits.dialect, random, has_regex=bool(regex))
        return traits._replace(settings=settings, dialect=dialect, regex=regex)

    @property
    def driven(self) -> frozenset[str]:
        """Groups that the node balances."""
        random = Random(f"{self.seed} driven groups")
        return frozenset(group for group in ("orders", "delays", MOVED) if random.random() < 0.35)

    def _with_records(self, name: str, traits: Traits) -> Traits:
        random = Random(f"{self.seed} {name} records")
        topics = (*traits.topics, LATE) if random.random() < 0.4 else traits.topics
        settings = msgspec.structs.replace(traits.settings, metadata_max_age_ms=random.choice((1_000, 4_000)))
        return traits._replace(topics=topics, settings=settings, dialect=with_records(traits.dialect, random))

    def join(self, name: str, like: str | None = None, group_id: str | None = None) -> None:
        """Add a member; none joins a migrated group before the others are there."""
        if self.now_ms < _MOVES_AFTER_MS and self.traits(like or name, group_id).settings.group_id == MOVED:
            self.after(_MOVES_AFTER_MS, partial(self.join, name, like, group_id))
        else:
            super().join(name, like, group_id)

    def _make_member(self, name: str, traits: Traits) -> Reader:
        random = Random(f"{self.seed} life {name}")
        records: Any = None
        if not traits.dialect.versions:
            records = of_records(random), self._open_broker_link
        elif random.random() < 0.6:
            records = of_records(random), self.open_link
        given = (name, traits, self, random, self.open_link, self.checkers, self.seen)
        return Reader(*given, watch=self.checkers, records=records)

    def join_at_broker(self, name: str) -> None:
        """Add a member of the group that will be migrated."""
        traits = draw_traits(self.seed, name, MOVED, is_slow=False)
        while not traits.dialect.versions:
            name += "'"
            traits = draw_traits(self.seed, name, MOVED, is_slow=False)
        traits = self._with_records(name, traits)
        random = Random(f"{self.seed} old life {name}")
        told = AtBroker(self._at_broker, self.checkers)
        given = (name, traits, self, random, self._open_broker_link, told, self._of_broker)
        old = self.old[name.rstrip("'")] = Reader(*given, watch=self.checkers, records=None, is_beside=False)
        old.start()

    def leave_broker(self, name: str) -> None:
        old = self.old.get(name)
        if old is not None and old.running:
            old.leave()

    # --- what is looked at ---

    def _look(self) -> None:
        self.after(500, self._look)
        for member in list(self.members.values()):
            if isinstance(member, Reader) and member.fatal is not None:
                self._fell_out(member)
        ports = [one.port for one in (*self.producers, *self.members.values()) if isinstance(one, Producer | Reader)]
        for port in filter(None, ports):
            self._must_not_wait(port)

    def _fell_out(self, member: Reader) -> None:
        """Restart a member that was refused because of the members at the brokers, from time to time, as an operator
        does."""
        error, member.fatal = member.fatal, None
        if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise Broken(f"{member.name} is refused a topic, and the brokers permit everything")
        if error is ErrorCode.NON_EMPTY_GROUP:
            if not self.checkers.adopts:
                raise Broken(f"{member.name} is refused for members that are not to count")
            self.seen.add("refused for members at the brokers")
            self.after(_AGAIN_MS, partial(self.join, member.name))

    def _must_not_wait(self, port: Port) -> None:
        """Check that in front of a broker each request is answered in time, or its connection closed."""
        link = port.link
        if port.asked_ms is None or link is None or not link.open or link.is_troubled:
            return
        if self.front.links.get(link.number) is not link or self._pulse.hindered_ms >= port.asked_ms:
            return
        if self.now_ms - port.arrives_ms > PROMISE_MS:
            raise Broken(f"{port.name} has waited since {port.asked_ms} ms for a broker")

    # --- the quiet ---

    @property
    def bound_ms(self) -> int:
        return super().bound_ms + PROMISE_MS + (_DRIVEN_MS if self.driven else 0)

    def _end_faults(self) -> None:
        # A static leader that returned keeps the earlier assignment: it does not know a partition that was added
        # meanwhile (KIP-814). Another member makes it assign again.
        for group_id in {one.settings.group_id: None for one in self.members.values() if one.running}:
            names = (f"n{number} of {group_id}" for number in count())
            self.join(next(name for name in names if self._is_dynamic(name, group_id)), group_id=group_id)
        super()._end_faults()
        broker = self.broker
        self.between.heal()
        for old in self.old.values():
            if old.running:
                old.stalled_until_ms = min(old.stalled_until_ms, self.now_ms)
                old.leave()
        broker.loop_time.slow_until_ms = broker.loop_time.still_until_ms = self.now_ms
        broker.end_pause()
        self.after(self.bound_ms // 4, self._stop_writing)

    def _is_dynamic(self, name: str, group_id: str) -> bool:
        return self.traits(name, group_id).settings.group_instance_id is None

    def _stop_writing(self) -> None:
        for producer in self.producers:
            producer.is_stopped = True

    def _stop_the_people(self) -> None:
        for member in self.members.values():
            member.running = False
        self._pulse.is_stopped = self._keeper.is_stopped = True
        self.advance_to(self.now_ms + _REST_MS)

    def _must_be_settled(self) -> None:
        node = self.broker.node
        if node is None:
            raise Broken("the brokers did not come up again")
        for producer in self.producers:
            if producer.pending is not None:
                raise Broken(f"{producer.port.name} cannot write to {producer.pending[0]}")
        self._all_must_be_there(node)
        for member in self.members.values():
            if member.running:
                self._all_must_be_read(node, member)
        for group_id in self.driven:
            self._must_have_converged(group_id)
        if any(set(shard.offsets.groups()) - {MOVED} for shard in node.core.shards):
            raise Broken("the brokers' own coordinator has offsets of other groups")
        super()._must_be_settled()
        compare_with_replay(node)
        self._front_must_be_at_rest()
        for what, times in self._of_broker.counts.items():
            self.seen.add(f"brokers: {what}", times)

    def _all_must_be_there(self, node: Any) -> None:
        for partition, records in self.checkers.log.items():
            log, _configs = node.core.embedded.log_and_configs(partition.topic, partition.partition)
            if max(records, default=-1) >= log.flushed_offset:
                raise Broken(f"{partition} ends at {log.flushed_offset}, and somebody was told of more")

    def _all_must_be_read(self, node: Any, member: Any) -> None:
        group_id = member.settings.group_id
        for topic in member.traits.topics:
            for index in range(node.core.topics.partition_count(topic) or 0):
                log, _configs = node.core.embedded.log_and_configs(topic, index)
                read_to = self.checkers.read_to(group_id, TopicPartition(topic, index))
                if read_to < log.flushed_offset:
                    raise Broken(f"{group_id} has read {topic}-{index} to {read_to} of {log.flushed_offset}")

    def _must_have_converged(self, group_id: str) -> None:
        """Check that every member of a group that the node balances holds its target, and that no partition is left
        over."""
        node = self.front.node
        running = {
            one.membership.member_id: one
            for one in self.members.values()
            if one.running and one.settings.group_id == group_id
        }
        found = None if node is None else node.core.directory.get(group_id)
        group = None if found is None else found.serving_consumer
        if not running:
            return
        if group is None or group.members.keys() != running.keys():
            raise Broken(f"{sorted(running)} run, and {group_id} is {group and sorted(group.members)}")
        held: set[TopicPartition] = set()
        for member_id, member in running.items():
            target = {
                TopicPartition(group.topics.name_of(topic_id) or "", number)
                for topic_id, numbers in group.targets.get(member_id, {}).items()
                for number in numbers
            }
            if set(member.held) != target:
                raise Broken(f"{member_id} holds {sorted(member.held)}, and its target is {sorted(target)}")
            held |= target
        for topic in map(group.topics.find, sorted(group.subscribed)):
            missing = {TopicPartition(topic.name, number) for number in range(topic.partitions)} - held if topic else ()
            if missing:
                raise Broken(f"nobody in {group_id} has {sorted(missing)}")

    def _front_must_be_at_rest(self) -> None:
        node = self.front.node_beside
        assert node is not None
        if not node.brokers.is_reachable or len(node.brokers.known) != len(self._ids):
            raise Broken(f"the brokers are there, and {sorted(node.brokers.known)} are known")
        if node.migration._waiting:
            raise Broken(f"{sorted(node.migration._waiting)} wait to be met")
        if set(node.proxied.timeouts.watched) - node.core.connections.keys():
            raise Broken("connections are watched that are gone")
        if any(broker.advertised_host == BROKER_HOST for broker in node.brokers.known.values()):
            raise Broken("clients are told of the brokers themselves")
