"""Members of a world with one group of native members: they join, are killed and come again; and the checks
that hold for any kind of group.
"""

from abc import abstractmethod
from random import Random
from typing import Any, Generic, TypeVar

from tests.groups.checks import check_kinds
from tests.simulation.errors import Broken
from tests.simulation.native_member import SESSION_MS, NativeMember
from tests.simulation.network import Link
from tests.simulation.plan import Plan, draw
from tests.simulation.replay import compare_with_replay
from tests.simulation.world import World

FAULTS = (
    *("cut", "delay", "reorder", "deaf", "mute", "half-open", "reset in reply", "lose reply", "stall", "leave"),
    *("power", "power in job", "power in swap", "daemon killed", "restart", "pause", "slow disk", "full", "fail"),
    "clock",
)
_MOST_MEMBERS = 8

MemberT = TypeVar("MemberT", bound=NativeMember[Any])


def draw_faults(label: str, seed: int, kinds: tuple[str, ...]) -> Plan:
    """Draw a swarm of the faults that any member can meet, whatever its kind of group."""
    random = Random(f"{label}-{seed}")
    return draw(seed, on=tuple(kind for kind in kinds if random.random() < 0.6))


class NativeWorld(World, Generic[MemberT]):
    """Watches its members itself. `noun` names one in what was seen."""

    noun: str

    def __init__(self, seed: int, plan: Plan, label: str) -> None:
        super().__init__(seed, plan)
        self._lives = 0
        self._people: dict[str, MemberT] = {}
        self._chance = Random(f"{label} world {seed}")
        self._largest = (0, SESSION_MS)
        self.after(500, self._look)

    @abstractmethod
    def make_member(self, name: str, instance_id: str | None, random: Random) -> MemberT: ...

    def join(self, name: str, like: str | None = None, group_id: str | None = None) -> None:
        if self._is_quiet or sum(one.running for one in self._people.values()) >= _MOST_MEMBERS:
            return
        self._lives += 1
        instance = f"i-{name}" if Random(f"{self.seed} instance {name}").random() < 0.4 else None
        before = self._people.get(name)
        if before is not None:
            before.kill()  # an instance is only started again when its process is gone
        random = Random(f"{self.seed} {self.noun} {name} {self._lives}")
        member = self._people[name] = self.make_member(f"{name}.{self._lives}", instance, random)
        others: dict[str, Any] = self.members  # where mishaps look for whom they befall
        others[name] = member
        member.start()

    @property
    def running_names(self) -> list[str]:
        return [name for name, one in self._people.items() if one.running]

    def sometimes(self, often: int, act: Any) -> None:
        """Call `act` that often, at any time before the world is quiet."""
        for _ in range(often):
            self.after(self._chance.randrange(2_000, self.plan.pace.until_ms), act)

    def _kill_somebody(self) -> None:
        if self.running_names:
            name = self._chance.choice(self.running_names)
            self.seen.add(f"{self.noun}s killed")
            self._people[name].kill()
            self.after(self._chance.choice((0, 500, 4_000, 9_000)), lambda: self.join(name))

    # --- what is watched ---

    def sent(self, message: Any, link: Link, now_ms: int) -> None:
        self.checkers.sent(message, link, now_ms)

    @property
    def loaded_node(self) -> Any:
        """Return the node; None while it is down or loads."""
        node = self.daemon.node
        return None if node is None or not node.is_loaded else node

    def _look(self) -> None:
        self.after(500, self._look)
        node = self.loaded_node
        if node is not None:
            for shard in node.core.shards:
                for group in shard.groups.values():
                    check_kinds(group, node.core.purgatory)
            self._look_at(node)

    def _look_at(self, node: Any) -> None:
        """Check what holds for this kind of group."""

    @abstractmethod
    def _must_have_settled(self, node: Any) -> None:
        """Check that all has recovered from the faults."""

    def _must_be_settled(self) -> None:
        node = self.daemon.node
        if node is None:
            raise Broken("the daemon did not come up again")
        self._must_have_settled(node)
        self.checkers.look_at_all(node)
        compare_with_replay(node)
