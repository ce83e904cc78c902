"""Each trigger causes one rebalance, counted (docs/spec/consumer-client.md#D5, #E4.V7)."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from membership.topic_partition import TopicPartition
from tests.client.consumer_rig import P
from tests.client.streams.rig import ConnectorRig, SimApplication

SESSION_MS = 6_000


def _rebalances(rig: ConnectorRig, *players: SimApplication) -> list[int]:
    """Rebalances of each connector since the log was cleared. AssertionError if one has not gone through all steps."""
    steps = ("stop", "clear", "before_releasing", "publish", "before_starting", "start")
    counts = []
    for player in players:
        counted = Counter(one.what for one in rig.of(*steps, who=player.who))
        assert {counted[step] for step in steps} == {counted["start"]}, counted
        joins = [one for one in rig.of("JoinGroup", who=player.who) if one.about.member_id]
        assert len(joins) == counted["start"], "the others see a rebalance that ends before its start as well"
        counts.append(counted["start"])
    return counts


def _steady(rig: ConnectorRig, *counts: int, **settings: Any) -> list[SimApplication]:
    """Connectors that share topic t and have nothing to do; the log is cleared."""
    players = []
    for number, count in enumerate(counts, 1):
        player = rig.player(f"C{number}", fetch_wait_max_ms=2_000, **settings)
        players.append(player.reads(t=count).iterates(every_ms=50))
    rig.run(5_000)
    rig.settled(*players)
    rig.log.clear()
    return players


def _goes_silent(rig: ConnectorRig, player: SimApplication) -> None:
    """Its process is gone; nobody leaves the group for it."""
    player.has_stopped = True
    rig.left(next(hand for hand in rig._hands if hand.who == player.who))


@pytest.mark.parametrize("pushes", [True, False])
def test_a_session_that_expires_causes_one_rebalance_in_each_of_the_others(
    monkeypatch: pytest.MonkeyPatch, *, pushes: bool
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 7)
    rig.pushes = pushes
    first, second, third = _steady(rig, 2, 1, 2)
    _goes_silent(rig, second)
    began_ms = rig.now_ms
    rig.until(lambda: len({one.member_id for one in rig.owners()}) == 2 and len(rig.owners()) == 7)
    assert SESSION_MS - 2_000 <= rig.now_ms - began_ms <= SESSION_MS + 2_000 + 500
    rig.run(60_000)
    assert _rebalances(rig, first, third) == [1, 1]
    assert sum(len(one.owned["t"]) for one in (first, third)) == 7


def test_its_own_session_expires_and_a_connector_rebalances_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stood still: on waking it forgets what it had, and joins anew. Nobody else is there."""
    rig = ConnectorRig(monkeypatch).make("t", 3)
    rig.append(*P[:3], count=4)
    (player,) = _steady(rig, 2)
    before = player.connector.member_id
    hand = next(hand for hand in rig._hands if hand.who == "C1")
    rig._hands.remove(hand)
    rig.run(2 * SESSION_MS)
    assert rig.members() == []
    rig._hands.append(hand)
    rig.run(60_000)
    assert _rebalances(rig, player) == [1]
    assert player.connector.member_id != before
    assert len(rig.owners()) == 3
    (told,) = rig.of("before_releasing")
    assert told.about == {"t": {0: 0, 1: 0, 2: 1}}, "what it had, it lost"
    assert rig.of("ReleasePartitions") == [] or rig.of("ReleasePartitions")[0].about.member_id == before


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_partitions_that_are_added_cause_one_rebalance_and_each_message_comes_once(
    monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 4)
    players = _steady(rig, 2, 2, 2, metadata_max_age_ms=5_000, partition_assignment_strategy=strategy)
    counts = Counter[TopicPartition]()

    def goes_on(*partitions: TopicPartition) -> None:
        rig.append(*partitions, count=3)
        counts.update(dict.fromkeys(partitions, 3))
        if rig.now_ms < began_ms + 20_000:
            rig.after(50, partial(goes_on, *partitions))

    began_ms = rig.now_ms
    goes_on(*P[:4])
    rig.run(1_000)
    rig.grow("t", 9)
    goes_on(*P[4:9])
    rig.run(30_000)
    assert _rebalances(rig, *players) == [1, 1, 1]
    assert sorted(number for player in players for number in player.owned["t"]) == list(range(9))
    assert Counter(TopicPartition(topic, number) for topic, number, _ in rig.handed_out()) == counts
    assert len(set(rig.handed_out())) == len(rig.handed_out()), "once each"


def test_a_topic_that_appears_causes_one_rebalance_in_each_connector_of_a_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConnectorRig(monkeypatch).make("ta", 3)
    players = []
    for number in range(4):
        players.append(rig.player(f"C{number}", metadata_max_age_ms=5_000, fetch_wait_max_ms=2_000))
        players[-1].reads_all("t.*", 2).iterates(every_ms=50)
        rig.run(700)
    rig.settled(*players)
    rig.log.clear()
    rig.make("tb", 5)
    rig.append(*(TopicPartition("tb", number) for number in range(5)))
    rig.run(30_000)
    assert _rebalances(rig, *players) == [1] * 4
    assert sorted(rig.handed_out()) == [("tb", number, 0) for number in range(5)]
