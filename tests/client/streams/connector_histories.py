"""Random histories of many connectors, one for each seed; at the end everything must have recovered.

python -m tests.client.streams.connector_histories --seeds 1000 --first 0
"""

import sys

import pytest

from tests.client.streams.order import check_order
from tests.client.streams.sim_connectors import SimConnectors
from tests.simulation.seeds import run_seeds, seeds_parser

MINUTE_MS = 60_000


def live(monkeypatch: pytest.MonkeyPatch, seed: int, at_most: int = 1_000) -> None:
    """Run half a minute of random events, and a quiet period after it. Applications take up to `at_most` messages at a
    time, and hold the last of them until their next turn. Raises AssertionError."""
    connectors = SimConnectors(monkeypatch, seed, {"s": 3, "t": 4})
    chance = connectors.chance
    connectors.pushes = chance.random() < 0.7
    strategy = chance.choice(("range", "range", "roundrobin"))
    end_ms = connectors.now_ms + 30_000
    while connectors.now_ms < end_ms:
        connectors.appends(chance.randint(1, 12))
        what = chance.choices(("come", "go", "kill", "cut", "still", "restart", "rest"), (8, 4, 2, 4, 3, 1, 20), k=1)[0]
        match what:
            case "come" if len(connectors.crew) < 5:
                counts = {"s": 2, "t": 2} if strategy == "roundrobin" else _counts(connectors)
                connectors.comes(
                    chance.choice((20, 100, 400)),
                    counts,
                    at_most=at_most,
                    partition_assignment_strategy=strategy,
                    rebalance_backoff_ms=200,
                    rebalance_timeout_ms=chance.choice((4_000, 15_000)),
                    auto_commit_interval_ms=chance.choice((300, 5_000, MINUTE_MS)),
                    auto_commit_enable=chance.random() < 0.9,
                    fetch_message_max_bytes=chance.choice((1, 200, 1 << 20)),
                    fetch_wait_max_ms=chance.choice((200, 2_000)),
                    request_timeout_ms=3_000,
                )
            case "go":
                connectors.goes()
            case "kill":
                connectors.is_killed()
            case "cut":
                connectors.is_cut()
            case "still":
                connectors.stands_still(chance.choice((300, 3_000, 9_000, 20_000)))
            case "restart":
                connectors.restart(chance.choice((0, 200, 8_000)), loses_power=chance.random() < 0.7)
        connectors.run(chance.choice((1, 30, 300, 1_500)))
    connectors.run(20_000)  # stopped connectors and the daemon run again
    connectors.comes(100, {"s": 2, "t": 2}, partition_assignment_strategy=strategy)
    ends_well(connectors, 3 * MINUTE_MS)


def _counts(connectors: SimConnectors) -> dict[str, int]:
    topics = connectors.chance.choice((("s",), ("t",), ("s", "t"), ("s", "t")))
    return {topic: connectors.chance.randint(1, 3) for topic in topics}


def ends_well(connectors: SimConnectors, within_ms: int) -> None:
    """Check the end, without further faults: everything is read and owned, and all connectors are at rest."""
    connectors.until(lambda: connectors.is_at_rest and connectors.is_all_read, for_ms=within_ms)
    owned = connectors.owned()
    assert owned.keys() == connectors.appended.keys()
    assert set(owned.values()) <= {one.connector.member_id for one in connectors.crew}
    for player in connectors.players:
        check_order(one for one in connectors.log if one.who == player.who)


def _tried(seed: int) -> str:
    """Return the failure; an empty text if there was none."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        try:
            live(monkeypatch, seed)
        except AssertionError as error:
            return f"BROKEN seed {seed}: {error}"
    return ""


def main() -> int:
    given = seeds_parser("Crowds of streams on a world that goes wrong.").parse_args()
    return run_seeds(given, "crowds of streams", _tried)


if __name__ == "__main__":
    sys.exit(main())
