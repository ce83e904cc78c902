"""One member is added to a group that stands: how long until everybody has an assignment again."""

from typing import NamedTuple

from bench.crowd import Crowd
from bench.processes import Daemon, scratch
from bench.report import Options, Sheet, Value, median

SIZES = (10, 100, 1_000)
HUGE = 5_000
GOALS_MS = {10: 2.0, 100: 8.0, 1_000: 50.0, 5_000: 300.0}


class Rebalanced(NamedTuple):
    coordinator_ms: float
    whole_ms: float
    cpu_ms: float


def measure(options: Options) -> list[Sheet]:
    rows: list[tuple[Value, ...]] = []
    for size in (*SIZES, HUGE) if options.huge else SIZES:
        rounds = _rebalance(size, options.rounds + (0 if options.quick else 2))
        rows.append(
            (
                size,
                median([rebalanced.coordinator_ms for rebalanced in rounds]),
                GOALS_MS[size],
                median([rebalanced.whole_ms for rebalanced in rounds]),
                median([rebalanced.cpu_ms for rebalanced in rounds]),
                median([rebalanced.cpu_ms for rebalanced in rounds]) / (size + 1) * 1e3,
            )
        )
    return [
        Sheet(
            "Rebalances: one member is added to a group that stands",
            ("members", "coordinator ms", "goal ms", "from the first join, ms", "server CPU ms", "CPU us a member"),
            rows,
            (
                "Coordinator ms: from the last JoinGroup sent to the last SyncGroup answered, the assignments durable.",
                "It holds what the generator needs in between: to read the roster, to decide, and to send every sync.",
            ),
        )
    ]


def _rebalance(size: int, rounds: int) -> list[Rebalanced]:
    with scratch() as folder, Daemon(folder / "data", http=False) as daemon:
        crowd = Crowd(daemon.native)
        try:
            crowd.form({"group": size})
            return [_add_one(crowd, daemon) for _ in range(rounds)]
        finally:
            crowd.close()


def _add_one(crowd: Crowd, daemon: Daemon) -> Rebalanced:
    group = crowd.groups["group"]
    added = crowd.add("group")
    cpu_s = daemon.cpu_s()
    crowd.join(added)
    began = group.last_join_sent
    crowd.run([group])
    crowd.settle()
    return Rebalanced(
        (group.last_synced - group.last_join_sent) * 1e3,
        (group.last_synced - began) * 1e3,
        (daemon.cpu_s() - cpu_s) * 1e3,
    )
