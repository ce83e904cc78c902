"""Decisions of a seed before its world begins: a list, each with a time, a kind and a target.

A world carries the list out and draws nothing else from a common source: the details of a decision come from the seed
and its number, those of a member from the seed and its name. So a list can be cut, and the other decisions happen as
before, which shrinking relies on. Swarm testing: a seed draws the kinds of faults, and their numbers.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

import msgspec

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


class Decision(msgspec.Struct, frozen=True):
    """`number` is its index in the seed's list; the unit of `amount` depends on the kind: mostly milliseconds."""

    number: int
    at_ms: int
    kind: str
    who: str = ""
    amount: int = 0

    def words(self) -> str:
        """Return the decision as a line of the story."""
        text = ABOUT[self.kind].words.format(who=self.who, amount=self.amount, s=f"{self.amount / 1000:g} s")
        return f"{self.at_ms / 1000:9.3f} s  {text}"


Amount = Callable[[Random], int]


class Kind(NamedTuple):
    """`times` is how often it happens in a world that has it on; `of_member`: its target is a member."""

    words: str
    times: float
    amount: Amount = lambda random: 0
    of_member: bool = False
    always: bool = False


def _between(low: int, high: int) -> Amount:
    return lambda random: random.randrange(low, high)


def _one_of(*amounts: int) -> Amount:
    return lambda random: random.choice(amounts)


def _jump(random: Random) -> int:
    return random.choice((-1, 1)) * int(1_000 * 10 ** random.uniform(0, 4.9))


KINDS: dict[str, Kind] = {
    # The world itself: can be removed by shrinking like any fault.
    "weather": Kind("bytes come late and in pieces, and jobs of the disk take a while", 0),
    "ledger": Kind("producers commit offsets in transactions", 0),
    "member": Kind("{who} joins", 5, of_member=False),
    # The network.
    "cut": Kind("the connection of {who} breaks", 9, of_member=True),
    "delay": Kind("what {who} sends and is sent takes {s} longer", 4, _between(20, 5_000), of_member=True),
    "reorder": Kind("for {s} every connection has a delay of its own", 2, _between(500, 5_000)),
    "deaf": Kind("for {s} nothing reaches {who}", 3, _between(500, 20_000), of_member=True),
    "mute": Kind("for {s} nothing of {who} arrives", 3, _between(500, 20_000), of_member=True),
    "half-open": Kind("{who} is cut off; the daemon notices after {s}", 2, _between(5_000, 60_000), of_member=True),
    "reset in reply": Kind("the next answer to {who} breaks off in its middle", 4, of_member=True),
    "lose reply": Kind("the next answer to {who} is lost with its connection", 4, of_member=True),
    "resend": Kind("the last request of {who} is sent again on another connection", 4, of_member=True),
    # Members.
    "stall": Kind("{who} does nothing for {s}", 3, _between(1_000, 15_000), of_member=True),
    "kill": Kind("{who} is killed; {s} later a late commit of it arrives", 3, _between(5_000, 20_000), of_member=True),
    "leave": Kind("{who} leaves in good order", 3, of_member=True),
    "replace": Kind("{who}, if static, is back {s} later under a new id", 7, _one_of(0, 100, 2_000), of_member=True),
    "duplicate": Kind("a second member comes with the instance id of {who}", 1, of_member=True),
    "storm": Kind("{amount} members join at once", 0.5, _between(10, 30)),
    "leader dies": Kind("whoever next hears that it leads the group of {who} dies", 2, of_member=True),
    "never sync": Kind("for {s} {who} sends no SyncGroup", 4, _between(8_000, 25_000), of_member=True),
    "foreign": Kind("{who} next assigns to members that are none", 2, of_member=True),
    "oversized": Kind("{who} next assigns {amount} bytes", 1, _between(70_000, 200_000), of_member=True),
    # The daemon, its clock and its disk.
    "power": Kind("the machine stops; it is back after {s}", 2, _one_of(0, 100, 3_000)),
    "power in job": Kind("the machine stops before the disk's operation {amount} from now", 2, _between(1, 40)),
    "power in swap": Kind("the machine stops before operation {amount} of the next swap", 3, _between(1, 25)),
    "daemon killed": Kind("the daemon is killed, not the machine", 1),
    "restart": Kind("the daemon is stopped in good order and started with another config", 1),
    "pause": Kind("the daemon stands still for {s}", 0.7, _between(500, 12_000)),
    "slow disk": Kind("for {s} syncs take long", 3, _between(2_000, 10_000)),
    "full": Kind("for {s} the disk is full", 1, _between(1_000, 15_000)),
    "fail": Kind("an operation of the disk fails, number {amount} from now", 0.7, _between(1, 20)),
    "still": Kind("for {s} the file system stands still: what writes to it waits", 1, _between(1_000, 12_000)),
    "lost write": Kind(
        "a write to a log's file, {amount} others from now, is lost before its sync, and the system forgets the file",
        2,
        _between(0, 6),
    ),
    "lost sync": Kind("a sync of a log's file, {amount} others from now, finds what it syncs lost", 1, _between(0, 4)),
    "flip": Kind("a bit flips in a file while the machine is off", 0.7),
    "clock": Kind("the wall clock jumps by {s}", 1, _jump),
    "huge commit": Kind("one request commits {amount} partitions", 0.3, _one_of(1_000, 5_000, 30_000)),
    # Administrators and other users.
    "hold": Kind("the group of {who} is held for {s}", 3, _one_of(0, 1_000, 5_000, 20_000), of_member=True),
}
UPSTREAM: dict[str, Kind] = {
    # Between a node and the brokers it stands beside.
    "upstream cut": Kind("all connections to the brokers break", 3),
    "upstream away": Kind("for {s} no broker can be reached", 1.5, _between(500, 25_000)),
    "upstream silent": Kind(
        "for {s} what is sent to the brokers vanishes, and nothing comes", 1.5, _between(500, 25_000)
    ),
    "one broker away": Kind("for {s} one of the brokers cannot be reached", 1, _between(500, 20_000)),
    "one twin silent": Kind("a connection to a broker is half open from now on", 3),
    "one twin cut": Kind("a connection to a broker breaks", 6),
    "upstream delay": Kind("what goes to the brokers and comes from them takes {s} longer", 3, _between(20, 3_000)),
    "broken answer": Kind("the next answer of the brokers breaks off in its middle", 4),
    "broker power": Kind("the brokers' machine stops; it is back after {s}", 1.5, _one_of(0, 100, 3_000, 12_000)),
    "broker killed": Kind("the brokers are killed; they are back after {s}", 1.5, _one_of(0, 100, 3_000, 12_000)),
    "broker restart": Kind("the brokers are stopped in good order and started again", 1),
    "broker pause": Kind("the brokers stand still for {s}", 1, _between(500, 12_000)),
    "broker slow disk": Kind("for {s} the brokers' syncs take long", 1, _between(2_000, 10_000)),
    "topic late": Kind("a topic that members wait for is made", 1),
    "growth": Kind("a topic gets a partition more", 2),
    "phoenix": Kind("a topic is deleted and, {s} later, made anew", 3, _one_of(0, 10, 1_500, 6_000)),
    "flood": Kind("somebody sends {amount} requests behind a join", 1, _between(20, 60)),
    # Members at the brokers before a migration.
    "old member": Kind("{who} is a member of the group at the brokers for {s}", 0, _between(1_000, 25_000)),
    "old killed": Kind("{who}, a member of the group at the brokers, is killed", 0),
}
ABOUT = KINDS | UPSTREAM
AMBIENT = ("weather", "ledger")
OF_FILES = ("still", "lost write", "lost sync")
LATER = (*OF_FILES, "hold")
FAULTS = tuple(kind for kind in KINDS if kind not in (*AMBIENT, "member"))


class Pace(NamedTuple):
    """Length of a world, and a factor of `Kind.times`. `is_slow`: members send heartbeats every 3 s to 10 min, instead
    of every 1.5 s; times of faults grow in the same way. `members`: their largest number."""

    until_ms: int
    times: float
    members: int
    groups: tuple[str, ...]
    is_slow: bool


BRISK = Pace(MINUTE_MS, 1.0, 9, ("orders", "orders", "delays"), is_slow=False)
SLOW = Pace(3 * HOUR_MS, 20.0, 16, ("orders", "delays", "bags", "gates", "crews"), is_slow=True)


class Plan(msgspec.Struct, frozen=True):
    seed: int
    pace: Pace
    on: tuple[str, ...]
    decisions: tuple[Decision, ...]

    def only(self, numbers: Iterable[int]) -> "Plan":
        """Return the plan with only these decisions."""
        kept = frozenset(numbers)
        return self.with_decisions(decision for decision in self.decisions if decision.number in kept)

    def with_decisions(self, decisions: Iterable[Decision]) -> "Plan":
        return msgspec.structs.replace(self, decisions=tuple(decisions))

    def story(self) -> str:
        """Return the decisions in words."""
        return "\n".join(decision.words() for decision in self.decisions)


def draw(seed: int, pace: Pace = BRISK, on: Iterable[str] | None = None) -> Plan:
    """Draw the decisions of the seed; with `on`, these faults and no others."""
    random = Random(f"plan-{seed}")
    later = Random(f"files-{seed}")  # of their own: so the other faults of a seed stay the same
    drawn = tuple(kind for kind in FAULTS if (later if kind in LATER else random).random() < 0.55)
    chosen = drawn if on is None else tuple(on)
    found: list[tuple[int, str, str, int]] = [(0, kind, "", 0) for kind in AMBIENT]
    names = [f"m{index + 1}" for index in range(random.randrange(2, 6) * pace.members // 9)]
    found += [(random.randrange(0, 20), "member", name, 0) for name in names]
    for _ in range(_times(random, KINDS["member"].times * pace.times)):
        names.append(f"m{len(names) + 1}")
        found.append((random.randrange(1_000, pace.until_ms), "member", names[-1], 0))
    for kind in chosen:
        found += _draw_kind(random, kind, names, pace)
    found.sort(key=lambda line: line[0])
    decisions = tuple(Decision(number, *line) for number, line in enumerate(found))
    return Plan(seed, pace, chosen, decisions)


def _draw_kind(random: Random, kind: str, names: list[str], pace: Pace) -> list[tuple[int, str, str, int]]:
    about = ABOUT[kind]
    often = random.choice((0.4, 1, 1, 2.5)) * pace.times
    lines = []
    for _ in range(_times(random, about.times * often)):
        who = random.choice(names) if about.of_member else ""
        lines.append((random.randrange(1_000, pace.until_ms), kind, who, about.amount(random)))
    return lines


def _times(random: Random, expected: float) -> int:
    """Draw how often: `expected` on average."""
    most = expected * random.uniform(0.5, 1.5)
    return int(most) + (random.random() < most % 1)
