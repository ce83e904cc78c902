"""Decisions of a seed in a world beside brokers."""

from random import Random

from tests.simulation.beside.watch import MOVED
from tests.simulation.plan import LATER, UPSTREAM, Decision, Pace, Plan, draw

BESIDE = Pace(40_000, 0.6, 6, ("orders", "orders", "delays", MOVED), is_slow=False)
NODE_FAULTS = (
    *("cut", "delay", "reorder", "deaf", "mute", "half-open", "reset in reply", "lose reply", "resend", "stall"),
    *("kill", "leave", "replace", "leader dies", "never sync", "power", "power in job", "power in swap"),
    *("daemon killed", "restart", "pause", "slow disk", "full", "fail", "clock"),
)
UPSTREAM_FAULTS = tuple(kind for kind in UPSTREAM if not kind.startswith("old"))
_OLD_FROM = 100_000


def draw_beside(seed: int, on: tuple[str, ...] | None = None) -> Plan:
    """Draw a swarm of faults of the node, the brokers and the network between them."""
    random, of_files = Random(f"beside-{seed}"), Random(f"beside-files-{seed}")
    if on is None:
        on = (
            *(kind for kind in NODE_FAULTS if random.random() < 0.3),
            *(kind for kind in UPSTREAM_FAULTS if random.random() < 0.5),
            *(kind for kind in LATER if of_files.random() < 0.3),
        )
    plan = draw(seed, BESIDE, on)
    return plan.with_decisions(sorted((*plan.decisions, *_old(random)), key=lambda one: one.at_ms))


def _old(random: Random) -> list[Decision]:
    """Draw the members at the brokers; sometimes there are none."""
    found = []
    for number in range(random.choice((0, 1, 1, 2))):
        who, at_ms = f"o{number + 1}", random.randrange(100)
        stays_ms = UPSTREAM["old member"].amount(random)
        found.append(Decision(_OLD_FROM + 2 * number, at_ms, "old member", who, stays_ms))
        if random.random() < 0.3:
            killed_ms = random.randrange(1_000, 1_000 + stays_ms)
            found.append(Decision(_OLD_FROM + 2 * number + 1, killed_ms, "old killed", who))
    return found
