"""Many connectors on a world that goes wrong: docs/spec/consumer-client.md#H.96, and seeds of smaller ones with more of
it."""

from typing import Any

import pytest
from msgspec.structs import replace

from muster.errors import CommitRefused
from protocol.errors import ErrorCode
from protocol.messages.data import FetchPartition, FetchTopic
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.client.consumer_rig import GROUP, P
from tests.client.streams.connector_histories import MINUTE_MS, ends_well, live
from tests.client.streams.sim_connectors import SimConnectors
from tests.enumerations import share_of

MINUTES = share_of(10)


def test_h96_fifty_members_are_killed_and_join_for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    connectors = SimConnectors(monkeypatch, 96, {"a": 12, "b": 12, "c": 12})
    settings: dict[str, Any] = {"fetch_wait_max_ms": 20_000, "auto_commit_interval_ms": 10_000}

    def one_comes() -> None:
        connectors.comes(2_000, {"a": 1, "b": 1, "c": 1}, **settings)

    for _ in range(50):
        one_comes()
    killed, end_ms = 0, connectors.now_ms + MINUTES * MINUTE_MS
    while connectors.now_ms < end_ms:
        connectors.run(connectors.chance.randrange(2_000, 15_000))
        for _ in range(10):
            connectors.appends(connectors.chance.randint(1, 20))
        if connectors.chance.random() < 0.5:
            connectors.is_killed()
            killed += 1
        else:
            connectors.goes()
        while len(connectors.crew) < 50:
            one_comes()
    assert killed > 2 * MINUTES
    ends_well(connectors, 2 * MINUTE_MS)
    assert sum(connectors.appended.values()) > 100 * MINUTES


SEEDS = [*range(share_of(50)), 203, 301, 80_402, 81_842]
"""203: shut down as a rebalance begins; 301: tries used up; 80,402: a power failure makes a paused connector a member
again, without its grants; 81,842: no coordinator is known while a commit is due."""


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_goes_wrong_there_is_one_owner_and_nothing_is_skipped(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    live(monkeypatch, seed)


@pytest.mark.parametrize("seed", range(share_of(12)))
def test_whatever_goes_wrong_no_message_in_hand_is_stored(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    live(monkeypatch, seed, at_most=3)


def test_a_partition_granted_twice_or_fetched_twice_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of these worlds see what they are for."""
    connectors = SimConnectors(monkeypatch, 0, {"t": 1})
    player = connectors.comes(100, {"t": 1}, at_most=2)
    connectors.append(P[0], count=5)
    connectors.until(lambda: bool(connectors.handed_out()))
    (granted,) = connectors.owners_now
    assert granted.owner is not None
    with pytest.raises(AssertionError, match="two owners in epoch 1"):
        connectors.owners_now.apply(replace(granted, owner=replace(granted.owner, member_id="another")))
    fetch = connectors.of("Fetch")[-1].about
    again = FetchTopic("t", (FetchPartition(0, 3, owner_epoch=granted.epoch),))
    with pytest.raises(AssertionError, match="fetches t-0 from 3 on, 5 is next"):
        connectors.write(player.who, "Fetch", replace(fetch, topics=(again,)))
    (member,) = connectors.members()
    commit = OffsetCommitPartition(0, 2, owner_epoch=granted.epoch)
    with pytest.raises(AssertionError, match="stores t-0 to 2, consumed to 1"):
        connectors.write(
            player.who, "OffsetCommit", OffsetCommit(GROUP, (OffsetCommitTopic("t", (commit,)),), 1, member)
        )


def test_who_stood_still_for_longer_than_its_lease_hands_out_and_commits_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connectors = SimConnectors(monkeypatch, 0, {"t": 1})
    still = connectors.comes(10_000_000, {"t": 1}, auto_commit_enable=False)
    connectors.append(P[0], count=100)
    connectors.run(2_000)
    assert len(still.take(still.streams[0], at_most=10)) == 10
    connectors.stands_still(15_000)
    other = connectors.comes(100, {"t": 1}, auto_commit_interval_ms=200)
    connectors.run(14_900)
    assert other.owned == {"t": {0: 0}}
    assert connectors.reached[P[0]] == 100
    connectors.run(still.still_until_ms - connectors.now_ms)
    assert still.take(still.streams[0]) == [], "its queue is full, and the lease is over"
    with pytest.raises(CommitRefused) as refused:
        still.connector.commit_offsets(retry=False)
    assert refused.value.error_code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
    connectors.until(lambda: still.is_settled and other.is_settled)
    assert other.connector.member_id in connectors.owned().values() or still.owned == {"t": {0: 0}}
    other.leave()
    late = connectors.comes(100, {"t": 1})
    connectors.append(P[0], count=1)
    still.leave()
    connectors.until(lambda: bool(connectors.handed_out(late.who)))
    assert connectors.handed_out(late.who) == [("t", 0, 100)], "what the other committed stands"
