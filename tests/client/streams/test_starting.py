"""The start of streams: nothing is fetched before the registry, and then every partition at once
(docs/spec/consumer-client.md#E3.S8 to #E3.S13, #E4.V2, #E4.V6)."""

import pytest

from membership.topic_partition import TopicPartition
from muster.streams.queue import PartitionInfo
from protocol.messages import Message
from protocol.messages.data import Fetch
from protocol.messages.offsets import OffsetFetch
from tests.client.consumer_rig import LATENCY_MS, Never, P
from tests.client.streams.rig import ConnectorRig, Happened, SimApplication

WAIT_MS = 100
"""The fetch wait of a connector by default: fetch_wait_max_ms."""
AROUND_MS = 10 * LATENCY_MS
"""Round trips beside it: the lookup of leaders and the reset of an offset."""


def _fetched(fetches: list[Happened]) -> dict[TopicPartition, int]:
    """Time of the first fetch of each partition."""
    first: dict[TopicPartition, int] = {}
    for one in fetches:
        for topic in one.about.topics:
            for part in topic.partitions:
                first.setdefault(TopicPartition(topic.topic, part.partition), one.at_ms)
    return first


def _infos(player: SimApplication) -> dict[TopicPartition, PartitionInfo]:
    return {one: info for one, (info, _) in player.parts.holdings._registry.items()}


# --------------------------------------------------------------------------------------- the first rebalance, held back


@pytest.mark.parametrize("step", ["FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ClaimPartitions"])
def test_while_the_first_rebalance_is_held_back_there_are_streams_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 3)
    rig.append(*P[:3], count=2)
    rig.script = lambda _who, message: Never if type(message).__name__ == step else None
    player = rig.player("C1", request_timeout_ms=5_000)
    player.begins({"t": 2})
    rig.run(4_000)
    assert len(rig.of(step)) == 1, "this is where it is held back"
    assert len(player.streams) == 2
    assert player.owned == {}
    assert rig.owners() == ()
    assert player.take_all() == []
    assert rig.of("Fetch", "publish", "before_starting", "start") == []
    rig.script = lambda _who, _message: None
    rig.until(lambda: player.is_settled)
    rig.run(WAIT_MS + AROUND_MS)
    assert len(player.take_all()) == 6
    assert len(rig.owners()) == 3


def test_a_listener_that_is_told_of_the_start_holds_back_the_first_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 3)
    player = rig.player("C1")
    player.listener.does["before_starting"] = lambda: rig.run(2_000)
    player.reads(t=2)
    (told,) = rig.of("before_starting")
    (started,) = rig.of("start")
    assert started.at_ms - told.at_ms == 2_000
    rig.run(WAIT_MS)
    assert 0 <= min(_fetched(rig.of("Fetch")).values()) - started.at_ms <= AROUND_MS


# ------------------------------------------------------------------------------------------- every partition is fetched


def _is_in_time(rig: ConnectorRig, player: SimApplication, since: Happened) -> None:
    """All that the connector owns is asked for within one fetch wait of a step."""
    rig.run(WAIT_MS + AROUND_MS)
    later = [one for one in rig.of("Fetch", who=player.who) if one.at_ms >= since.at_ms]
    owned = {TopicPartition(topic, number) for topic, threads in player.owned.items() for number in threads}
    asked = _fetched(later)
    assert asked.keys() == owned
    assert max(asked.values()) - since.at_ms <= WAIT_MS + AROUND_MS


@pytest.mark.parametrize("committed", [0, 3, 12])
def test_every_partition_owned_is_fetched_within_one_fetch_wait(
    monkeypatch: pytest.MonkeyPatch, committed: int
) -> None:
    """Also with partitions for which a reset must find the offset, when a fetch of the others waits already."""
    rig = ConnectorRig(monkeypatch).make("s", 6).make("t", 6)
    everything = [TopicPartition(topic, number) for topic in "st" for number in range(6)]
    if committed:
        before = rig.player("C0").reads(s=1, t=1).iterates()
        rig.append(*everything[:committed])
        rig.until(lambda: len(rig.handed_out()) == committed)
        before.leave()
    player = rig.player("C1").reads(s=2, t=2).iterates()
    _is_in_time(rig, player, rig.of("start", who="C1")[-1])


def test_after_a_rebalance_every_partition_owned_is_fetched_within_one_fetch_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 7)
    first = rig.player("C1").reads(t=2).iterates()
    rig.run(1_000)
    second = rig.player("C2").reads(t=1).iterates()
    for player in (first, second):
        _is_in_time(rig, player, rig.of("start", who=player.who)[-1])
    second.leave()
    rig.until(lambda: len(first.owned.get("t", {})) == 7)
    rig.settled(first)
    _is_in_time(rig, first, rig.of("start", who="C1")[-1])


def test_a_queue_with_room_again_is_fetched_for_within_one_fetch_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    for _ in range(6):
        rig.append(P[0], count=10)
    player = rig.player("C1", fetch_message_max_bytes=1, queued_max_message_chunks=1).reads(t=2)
    rig.run(5_000)
    rig.log.clear()
    player.take(player.streams[0], at_most=11)
    rig.run(WAIT_MS + AROUND_MS)
    taken = rig.of("handed out")[-1]
    assert _fetched(rig.of("Fetch"))[P[0]] - taken.at_ms <= WAIT_MS + AROUND_MS


# ------------------------------------------------------------------------------------------------ the committed offsets


def test_a_rebalance_reads_the_offsets_of_exactly_its_own_partitions_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("s", 3).make("t", 4)
    players = [rig.player("C1").reads(t=1), rig.player("C2").reads(s=2, t=1), rig.player("C3").reads(t=2)]
    players[1].leave()
    rig.until(lambda: len(players[0].owned.get("t", {})) == 2)
    rig.settled(players[0], players[2])
    for player, rebalances in zip(players, (4, 2, 2), strict=True):
        log = rig.of("JoinGroup", "OffsetFetch", "ClaimPartitions", "publish", who=player.who)
        assert _check_reads(log) == rebalances


def _check_reads(log: list[Happened]) -> int:
    """Count the rebalances that read offsets. AssertionError unless each did so once, for what it then claimed and
    published."""
    read: list[set[TopicPartition]] = []
    rebalances = 0
    for one in log:
        match one.what:
            case "JoinGroup":
                read = []
            case "OffsetFetch":
                read.append(_named(one.about))
            case "ClaimPartitions":
                assert read == [{TopicPartition(item.topic, item.partition) for item in one.about.items}]
            case _ if one.about:
                assert read == [one.about.keys()]
                rebalances += 1
    return rebalances


def _named(message: OffsetFetch) -> set[TopicPartition]:
    (group,) = message.groups
    assert group.topics is not None
    named = [TopicPartition(topic.name, number) for topic in group.topics for number in topic.partition_indexes]
    assert len(named) == len(set(named))
    return set(named)


def test_a_member_that_gets_nothing_reads_no_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    first, second = rig.player("C1").reads(t=1), rig.player("C2").reads(t=1)
    rig.settled(first, second)
    assert second.owned == {}
    assert rig.of("OffsetFetch", "ClaimPartitions", "Fetch", who="C2") == []


# ---------------------------------------------------------------------------------------------------- fetched, consumed


@pytest.mark.parametrize("consumed_on", ["next", "return"])
def test_both_offsets_begin_at_the_stored_one_and_move_with_fetches_and_messages(
    monkeypatch: pytest.MonkeyPatch, consumed_on: str
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    rig.append(P[0], count=10)
    before = rig.player("C0").reads(t=1)
    rig.run(1_000)
    before.take(before.streams[0], at_most=3)
    before.leave()
    fetches: list[Fetch] = []

    def holds_back(_who: str, message: Message) -> type[Never] | None:
        if isinstance(message, Fetch) and not fetches:
            fetches.append(message)
            return Never
        return None

    rig.script = holds_back
    player = rig.player("C1", consumed_on=consumed_on, request_timeout_ms=500)
    published: list[tuple[int | None, int | None]] = []

    def looks() -> None:
        published.extend((info.fetched, info.consumed) for info in _infos(player).values())

    player.listener.does["before_starting"] = looks
    player.reads(t=1)
    assert published == [(3, 3)]
    rig.run(AROUND_MS)
    (info,) = _infos(player).values()
    assert (info.fetched, info.consumed) == (3, 3), "nothing came yet"
    (topic,) = fetches[0].topics
    assert topic.partitions[0].fetch_offset == 3
    rig.run(2_000)
    assert (info.fetched, info.consumed) == (10, 3)
    handed_out = 0
    in_hand = 1 if consumed_on == "next" else 0
    for number in (1, 2, 3):
        handed_out += len(player.take(player.streams[0], at_most=number))
        assert (info.fetched, info.consumed) == (10, 3 + handed_out - in_hand)
    player.take(player.streams[0])  # to the end, and asked for one more
    assert (info.fetched, info.consumed) == (10, 10)
