"""`World(seed)`: the daemon, its disk, its network and its members, all from one seed and on one virtual clock.

The simulation is real: bytes travel, split anywhere, through the real sessions; nothing enters the node but `step`;
the disk forgets what was not synced; members are our own client core. One seed is one trace, and what goes wrong is a
list of decisions (`plan.py`) that can be cut and carried out again.
"""

import heapq
from collections.abc import Callable
from random import Random

from coordinator.config.config import Config
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.consumer.state import ConsumerGroupState
from coordinator.node.events import Opened
from coordinator.runtime.group import Group
from tests.simulation.begun import AnyGroup, counting_begun
from tests.simulation.bounds import FLUSHED_WITHIN_MS, compare_at_rest, compare_sizes
from tests.simulation.checkers import Checkers
from tests.simulation.configs import draw_config
from tests.simulation.daemon import Daemon
from tests.simulation.errors import Broken
from tests.simulation.faults import Seen
from tests.simulation.ledger import Ledger
from tests.simulation.members import SimMember, Traits, draw_traits
from tests.simulation.mishaps import befall
from tests.simulation.network import Link, Pipe
from tests.simulation.plan import Decision, Plan, draw
from tests.simulation.process import Process
from tests.simulation.replay import compare_with_replay
from tests.simulation.strangers import Caller

LOOK_AT_ALL_MS = 10_000
_AT_REST = (GroupState.EMPTY, GroupState.STABLE, ConsumerGroupState.EMPTY, ConsumerGroupState.STABLE)


class World:
    """A world from one seed. `run` runs the faults and the quiet time after them, with all checks."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        self.plan = plan or draw(seed)
        self.seen = Seen()
        self.now_ms = 0
        self.checkers = Checkers()
        self.members: dict[str, SimMember] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._next_link = 0
        self._random = Random(f"world-{seed}")
        self._ledger = Ledger(seed, self.checkers, self.seen)
        self._has_ledger = False
        self.daemon = self._make_daemon(self.draw_config(Random(f"config-{seed}")))
        self._largest = (0, 0)  # rebalance and session timeout of all members so far
        self._is_quiet = False

    def draw_config(self, random: Random) -> Config:
        """Draw the configuration of a start."""
        return draw_config(random)

    def _make_daemon(self, config: Config) -> Daemon:
        return Daemon(self.seed, self, config, self.checkers, self.seen, self._ledger)

    # --- the clock ---

    @property
    def steps(self) -> int:
        """Return the number of calls of `Node.step`."""
        return self.daemon.steps

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Let the action happen in so many milliseconds."""
        self._order += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms if delay_ms > 0 else self.now_ms, self._order, action))

    def stretch(self, amount_ms: int) -> int:
        """Return the duration of a fault, in proportion to the session timeouts of this world."""
        return amount_ms * 40 if self.plan.pace.is_slow else amount_ms

    def run(self) -> Seen:
        """Run faults, then a quiet time; then every group must be Stable or Empty. Raises Broken with the seed."""
        try:
            with counting_begun(self._process_of):
                self._live()
        except Exception as error:
            raise Broken(f"seed {self.seed}, {self.now_ms} ms, step {self.steps}: {_sentence(error)}") from error
        return self.seen

    def _process_of(self, group: AnyGroup) -> Process:
        return self.daemon

    def _begin(self) -> None:
        self.daemon.boot()

    def befall(self, decision: Decision) -> None:
        """Carry out the decision."""
        befall(self, decision)

    def _live(self) -> None:
        self._begin()
        for decision in self.plan.decisions:
            self.after(decision.at_ms, lambda decision=decision: self.befall(decision))  # type: ignore[misc]
        self.after(LOOK_AT_ALL_MS, self._look_at_all)
        self.advance_to(self.plan.pace.until_ms)
        self._end_faults()
        self.advance_to(self.now_ms + self.bound_ms)
        self._must_be_settled()

    def trace(self) -> str:
        """Return a digest of every byte sent and its time."""
        return self.daemon.trace()

    def advance_to(self, until_ms: int) -> None:
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(queue)
            action()
        self.now_ms = until_ms

    def _look_at_all(self) -> None:
        if self.daemon.node is not None:
            self.checkers.look_at_all(self.daemon.node)
        self.after(self.stretch(LOOK_AT_ALL_MS), self._look_at_all)

    # --- the network ---

    def open_link(self, who: Caller, received: Callable[[bytes], None], lost: Callable[[], None]) -> Link | None:
        """Open a connection to the daemon, if that is up."""
        return self.connect(self.daemon, who, received, lost)

    def connect(
        self,
        daemon: Process,
        who: Caller,
        received: Callable[[bytes], None],
        lost: Callable[[], None],
        broker: int | None = None,
        *,
        is_calm: bool = False,
    ) -> Link | None:
        """Open a connection to that process, if it is up; `broker`: by the listener in front of that broker."""
        if daemon.node is None:
            return None
        self._next_link += 1
        number = self._next_link

        def lost_by_daemon() -> None:
            if daemon.links.get(number) is link:
                del daemon.links[number]
                daemon.gone(number)

        def lost_by_client() -> None:
            if who.link is link:
                lost()

        random = self._random if daemon.has_weather and not is_calm else None
        link = Link(
            number,
            Pipe(self, random, lambda data: daemon.arrived(number, data)),
            Pipe(self, random, lambda data: received(data) if who.link is link else None),
            lost_by_daemon,
            lost_by_client,
        )
        daemon.links[number] = link
        daemon.step(Opened(number, who.dialect.name, self.host_of(who), broker))
        return link

    def host_of(self, who: Caller) -> str:
        """Return the address that the client comes from."""
        return "10.0.0.1"

    # --- the people ---

    def running(self, name: str) -> SimMember | None:
        """Return the member of that name, if it runs."""
        member = self.members.get(name)
        return member if member is not None and member.running else None

    def group_of(self, name: str) -> str | None:
        """Return the group of the member of that name, if there was one."""
        member = self.members.get(name)
        return None if member is None else member.settings.group_id

    def traits(self, name: str, group_id: str | None = None) -> Traits:
        """Return the traits that the seed gives a member of this name."""
        group_id = group_id or Random(f"{self.seed} group {name}").choice(self.plan.pace.groups)
        return draw_traits(self.seed, name, group_id, is_slow=self.plan.pace.is_slow)

    def join(self, name: str, like: str | None = None, group_id: str | None = None) -> None:
        """Start a member; with `like`, with the traits of the member of that name."""
        if self._is_quiet:
            return
        alive = sum(member.running for member in self.members.values())
        if alive >= self.plan.pace.members and group_id is None:
            return
        traits = self.traits(like or name, group_id)
        self.seen.add(f"{traits.dialect.name} members")
        member = self.members[name] = self._make_member(name, traits)
        settings = traits.settings
        self._largest = (
            max(self._largest[0], settings.max_poll_interval_ms),
            max(self._largest[1], settings.session_timeout_ms),
        )
        member.start()

    def _make_member(self, name: str, traits: Traits) -> SimMember:
        random = Random(f"{self.seed} life {name}")
        return SimMember(name, traits, self, random, self.open_link, self.checkers, self.seen)

    def leaders_live(self) -> None:
        """Let leaders survive from now on: none dies when it learns that it is one."""
        for member in self.members.values():
            member.dies_as_leader = False

    def let_weather(self) -> None:
        """Let bytes arrive split and late from now on."""
        self.daemon.has_weather = True

    def keep_ledger(self) -> None:
        """Run transactions from now on, one request of them a second."""
        if self._is_quiet:
            return
        self.after(self.stretch(1_000), self.keep_ledger)
        node = self.daemon.node
        if node is not None:
            self.daemon.step(self._ledger.next(node))

    # --- the quiet ---

    @property
    def bound_ms(self) -> int:
        """Return the time after the last fault within which every group must be Stable."""
        rebalance_ms, session_ms = self._largest
        return 2 * rebalance_ms + 2 * session_ms + self.daemon.config.group_initial_rebalance_delay_ms

    def _end_faults(self) -> None:
        daemon = self.daemon
        if not any(member.running for member in self.members.values()):
            self.join("m1")
        self._is_quiet = True
        daemon.make_room()
        daemon.loop_time.slow_until_ms = daemon.loop_time.still_until_ms = self.now_ms
        daemon.disk.heal()
        daemon.power_in = daemon.power_in_swap = daemon.fail_in = 0
        daemon.end_pause()
        self.leaders_live()
        for member in self.members.values():
            member.stalled_until_ms = min(member.stalled_until_ms, self.now_ms)
            member.syncs_after_ms, member.tamper = -1, None
        for link in list(daemon.links.values()):
            if link.is_troubled or link.on_reply is not None:
                link.cut(self, self._random)

    def _must_be_settled(self) -> None:
        """Check, long enough after the last fault, that every group is Stable or Empty, and that every running member
        is in one."""
        if self.daemon.node is None:
            # A disk reports a lost write at the next sync of its file, which may come long after the last fault.
            self.seen.add("lost writes told after the faults")
            self.advance_to(self.now_ms + self.bound_ms)
        node = self.daemon.node
        if node is None:
            raise Broken("the daemon did not come up again")
        for one in node.core.directory.values():
            group = one.classic if one.serving_consumer is None else one.serving_consumer
            if group.state not in _AT_REST:
                raise Broken(f"{group.group_id} is still {group.state.title}")
        for member in self.members.values():
            if member.running:
                self._must_be_in(node.core.find(member.settings.group_id)[1], member)
        self.checkers.notes_match(node, self.daemon.begun)
        self.checkers.look_at_all(node)
        compare_with_replay(node)
        compare_sizes(node, self.daemon.links)
        self._stop_the_people()
        written = node.core.store.position
        self.advance_to(self.now_ms + FLUSHED_WITHIN_MS)
        compare_at_rest(node, written)
        self.daemon.count_notes()

    def _must_be_in(self, group: Group | None, member: SimMember) -> None:
        served = None if group is None else group.serving_consumer or group.classic
        if served is None or member.membership.member_id not in served.members:
            raise Broken(f"{member.name} runs and is no member of {member.settings.group_id}")
        if not member.is_settled:
            raise Broken(f"{member.name} does not know where to read on")
        since_ms = member.waiting_since_ms
        if since_ms is not None and since_ms < self.now_ms - self.bound_ms // 2:
            raise Broken(f"{member.name} has waited for an answer since {since_ms} ms")

    def _stop_the_people(self) -> None:
        """Stop all clients; requests in flight end."""
        for member in self.members.values():
            member.running = False
        self.advance_to(self.now_ms + self.bound_ms)


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, AssertionError) and str(error) else repr(error)


def run_one(seed: int, plan: Plan | None = None, replay_every: int | None = None) -> tuple[Seen, str, World]:
    """Run a whole world; return its counts, its trace, and itself. The trace does not depend on how often the log is
    replayed."""
    world = World(seed, plan)
    if replay_every is not None:
        world.daemon.replay_every(replay_every)
    return world.run(), world.trace(), world
