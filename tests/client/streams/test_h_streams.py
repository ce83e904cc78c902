"""Streams as applications have them: docs/spec/consumer-client.md#H.73 to #H.77 and #H.90 to #H.95."""

from typing import Any

import pytest

from membership.topic_partition import TopicPartition
from muster.errors import ClientClosed, ConsumerTimeout, GroupRefused, StreamsExist
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch
from protocol.messages.topics import DeletableTopic, DeleteTopics
from tests.client.consumer_rig import P
from tests.client.streams.rig import ConnectorRig


def test_h73_a_thread_without_a_partition_waits_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 3)
    first, second = rig.player("C1").reads(t=2), rig.player("C2", consumer_timeout_ms=5_000).reads(t=2)
    rig.settled(first, second)
    assert (first.owned, second.owned) == ({"t": {0: 0, 1: 1}}, {"t": {2: 0}})
    rig.append(*P[:3])
    began_ms = rig.now_ms
    with pytest.raises(ConsumerTimeout):
        next(second.streams[1])
    assert rig.now_ms - began_ms == 5_000
    assert next(second.streams[0]).partition == 2
    assert first.errors == second.errors == []


def test_h74_streams_are_made_once_and_the_listener_is_set_before(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 3)
    player = rig.player("C1").reads(t=1)
    with pytest.raises(StreamsExist):
        player.connector.create_message_streams({"t": 1})
    with pytest.raises(StreamsExist):
        player.connector.create_message_streams_by_filter("t.*")
    with pytest.raises(StreamsExist):
        player.connector.set_rebalance_listener(player.listener)
    with pytest.raises(TypeError, match="no method before_releasing"):
        player.connector.set_rebalance_listener(object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="number of streams"):
        player.connector.create_message_streams(["t"])  # type: ignore[arg-type]
    player.leave()
    player.leave()  # once is enough, twice is nothing
    with pytest.raises(ClientClosed):
        player.connector.create_message_streams({"t": 1})


def test_h75_two_partitions_through_one_queue_keep_their_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    for _ in range(100):
        rig.append(P[0], P[1], count=10)
    player = rig.player("C1", fetch_message_max_bytes=500, queued_max_message_chunks=6).reads(t=1)
    player.iterates(every_ms=5, at_most=3)
    rig.run(60_000, until=lambda: len(rig.handed_out()) >= 2_000)
    for number in range(2):
        assert [offset for _, one, offset in rig.handed_out() if one == number] == list(range(1_000))
    changes = sum(one[1] != other[1] for one, other in zip(rig.handed_out(), rig.handed_out()[1:], strict=False))
    assert changes > 10, "the partitions take turns"
    assert player.errors == []


def test_h77_a_stream_that_stalls_is_not_fetched_for_beyond_its_queue_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    for _ in range(20):
        rig.append(*P[:2], count=10)
    one_batch: dict[str, Any] = {"fetch_message_max_bytes": 1, "queued_max_message_chunks": 2}
    stalls = rig.player("C1", **one_batch).reads(t=1)
    other = rig.player("C2", **one_batch).reads(t=1).iterates()
    rig.settled(stalls, other)
    rig.log.clear()
    rig.run(60_000)
    wanted = {part.fetch_offset for one in _fetches(rig, "C1") for topic in one.topics for part in topic.partitions}
    assert wanted <= {0, 10}, "two chunks are in the queue, and nothing more is asked for"
    assert len(rig.handed_out("C2")) == 200
    assert stalls.is_settled, "heartbeats go on"
    assert len(rig.owners()) == 2
    assert [record.offset for record in stalls.take(stalls.streams[0])] == list(range(20))
    stalls.iterates()
    rig.run(5_000)
    assert [offset for *_, offset in rig.handed_out("C1")] == list(range(200))


def _fetches(rig: ConnectorRig, who: str) -> list[Fetch]:
    return [one.about for one in rig.of("Fetch", who=who)]


def test_h90_after_a_clean_shutdown_the_next_begins_behind_the_last_message(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 1)
    rig.append(P[0], count=20)
    first = rig.player("C1", consumer_timeout_ms=1_000).reads(t=1)
    assert [next(first.streams[0]).offset for _ in range(7)] == list(range(7))
    first.leave()
    second = rig.player("C1", consumer_timeout_ms=1_000).reads(t=1)
    assert next(second.streams[0]).offset == 7


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_h91_partitions_that_a_topic_gains_come_out_of_the_streams_there_are(
    monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    player = rig.player("C1", metadata_max_age_ms=10_000, partition_assignment_strategy=strategy)
    player.reads(t=2).iterates()
    rig.grow("t", 5)
    rig.append(*P[:5])
    rig.run(15_000)
    assert sorted(rig.handed_out()) == [("t", number, 0) for number in range(5)]
    assert sorted(player.owned["t"]) == [0, 1, 2, 3, 4]
    assert set(player.owned["t"].values()) == {0, 1}
    assert player.errors == []


def test_h92_a_topic_made_later_that_matches_comes_out_of_the_streams_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConnectorRig(monkeypatch).make("ab", 1)
    player = rig.player("C1", metadata_max_age_ms=10_000).reads_all("a.*", 2).iterates()
    rig.make("ac", 2).make("xab", 1)
    rig.append(*(TopicPartition(topic, 0) for topic in ("ab", "ac", "xab")))
    rig.run(15_000)
    assert sorted(rig.handed_out()) == [("ab", 0, 0), ("ac", 0, 0)]
    assert player.owned == {"ab": {0: 0}, "ac": {0: 0, 1: 1}}


def test_streams_of_a_pattern_that_nothing_matches_yet_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("x", 1)
    player = rig.player("C1", metadata_max_age_ms=1_000).reads_all("a.*").iterates()
    assert player.owned == {}
    rig.make("ab", 1)
    rig.append(TopicPartition("ab", 0))
    rig.run(5_000)
    assert rig.handed_out() == [("ab", 0, 0)]


def test_a_pattern_can_name_what_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("ab", 1).make("abc", 1).make("x", 1)
    player = rig.player("C1")
    player.connector.create_message_streams_by_filter("a.|y", is_excluding=True)
    assert player.owned == {"abc": {0: 0}, "x": {0: 0}}


def test_h93_shutting_down_ends_iterators_that_wait_commits_and_has_the_others_rebalance_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    rig.append(*P[:2], count=3)
    waits = rig.player("C1", consumer_timeout_ms=-1).reads(t=1)
    other = rig.player("C2").reads(t=1).iterates()
    rig.settled(waits, other)
    rig.after(5_000, waits.leave)
    assert [record.offset for record in waits.streams[0]] == [0, 1, 2]
    assert list(waits.streams[0]) == [], "it stays at its end"
    ended_ms = rig.now_ms
    rig.until(lambda: other.owned == {"t": {0: 0, 1: 0}})
    assert rig.now_ms - ended_ms < 100
    rig.run(1_000)
    assert sorted(rig.handed_out()) == [("t", 1, offset) for offset in range(3)], "the first was committed"
    last = ("OffsetCommit", "ReleasePartitions", "LeaveGroup")
    steps = [one.what for one in rig.of("stop", "end", *last, who="C1")]
    began = steps.index("end") - 1
    assert steps[began : began + 5] == ["stop", "end", *last]


def test_h94_members_that_share_a_topic_rebalance_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t1", 2).make("t2", 2).make("t3", 2)
    first = rig.player("C1").reads(t1=1, t2=1).iterates()
    second = rig.player("C2").reads(t1=1, t3=1).iterates()
    third = rig.player("C3").reads(t2=1, t3=1).iterates()
    rig.settled(first, second, third)
    rig.log.clear()
    first.leave()
    rig.until(lambda: (second.owned.get("t1"), third.owned.get("t2")) == ({0: 0, 1: 0}, {0: 0, 1: 0}))
    rig.settled(second, third)
    for who in ("C2", "C3"):
        assert [one.what for one in rig.of("before_releasing", "before_starting", who=who)] == [
            "before_releasing",
            "before_starting",
        ]


def test_h95_consumers_and_streams_do_not_mix_in_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 2)
    streams = rig.player("C1").reads(t=1)
    consumer = rig.consumer("other", "t")
    with pytest.raises(GroupRefused) as refused:
        consumer.poll(5.0)
    assert refused.value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    consumer.close()
    streams.leave()
    consumer = rig.consumer("other", "t")
    rig.steady(consumer)
    late = rig.player("C2")
    with pytest.raises(GroupRefused) as refused:
        late.reads(t=1)
    assert refused.value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    late.leave()


def test_streams_of_a_topic_that_is_deleted_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConnectorRig(monkeypatch).make("s", 2).make("t", 2)
    player = rig.player("C1", metadata_max_age_ms=2_000).reads(s=1, t=1).iterates()
    rig.append(P[0])
    rig.until(lambda: len(rig.handed_out()) == 1)
    assert rig.node.ask_inside(DeleteTopics((DeletableTopic("s"),)), call=92) is not None
    rig.until(lambda: player.owned == {"t": {0: 0, 1: 0}}, for_ms=10_000)
    rig.append(P[0])
    rig.run(1_000)
    assert rig.handed_out() == [("t", 0, 0), ("t", 0, 1)]
    assert player.errors == []
