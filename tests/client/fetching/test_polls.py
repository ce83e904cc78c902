"""Fetches over a simulated network: docs/spec/consumer-client.md#H.49 to #H.57."""

import pytest

from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchPartitionReply, FetchReply, FetchTopicReply
from tests.client.fetching.rig import fetched, ready
from tests.client.fetching.world import P0, P1, P2, World, address


def test_h49_records_of_one_batch_come_in_ten_polls_without_a_new_fetch() -> None:
    world = World(0)
    world.append(P0, 95)
    offsets = world.offsets(most=10)
    for _ in range(9):
        assert len(world.requests) == 1
        world.rest()
        offsets += world.offsets(0, most=10)
    assert offsets == list(range(95))
    world.rest()
    assert list(world.asked()) == [(0, {0: 0}), (0, {0: 95})]


def test_h50_each_node_is_asked_once_for_all_it_leads() -> None:
    world = World(0, 0, 1)
    world.poll(10)
    assert list(world.asked()) == [(0, {0: 0, 1: 0}), (1, {2: 0})]


def test_h51_polls_while_an_answer_is_late_do_not_ask_again() -> None:
    world = World(0)
    world.append(P0, 1)
    world.poll(0)
    world.rest()
    world.poll(0)
    world.usual_ms = 150
    world.append(P0, 1)
    for _ in range(20):
        world.rest(15)
        assert len(world.requests) == 2
        if world.fetcher.has_something:
            break
        world.poll(0)
    assert world.offsets(1_000) == [1]


def test_h52_answers_of_two_nodes_in_either_order_keep_each_partitions_order() -> None:
    world = World(0, 1)
    seen: dict[int, list[int]] = {0: [], 1: []}
    for turn in range(20):
        world.slow = {address(turn % 2): 40}
        world.append(P0, 4)
        world.append(P1, 4)
        for record in world.poll(100, most=3):
            seen[record.partition].append(record.offset)
    for _ in range(100):
        for record in world.poll(100):
            seen[record.partition].append(record.offset)
    assert seen == {0: list(range(80)), 1: list(range(80))}


def test_h53_data_that_two_leaders_answer_with_is_handed_out_once() -> None:
    world = World(0, 0, 2, max_wait_ms=2_000)
    world.slow = {address(0): 400}
    world.poll(10)
    world.rest(500)  # the request is at the old leader, which is slow to answer
    world.nodes[0].follows.add(P0)
    world.nodes[1].follows.add(P0)
    world.append(P0, 5)
    world.logs[P0].leader = 1
    world.fetcher.update_metadata(world._metadata())
    first = world.offsets(50)
    world.rest(1_000)
    assert first == [0, 1, 2, 3, 4]
    assert {number for number, asked in world.asked() if 0 in asked} == {0, 1}
    assert sum(bool(one.records) for reply in world.answers for t in reply.responses for one in t.partitions) == 2
    assert world.offsets(500) == []


def test_h54_the_answer_to_a_fetch_from_before_a_seek_is_dropped() -> None:
    world = World(0)
    world.append(P0, 30)
    world.poll(0)
    world.run(100, until=lambda: bool(world.answers))
    world.subscription.seek(P0, 20)
    assert list(world.asked()) == [(0, {0: 0})]
    assert world.offsets() == list(range(20, 30))


def test_h55_what_is_buffered_before_a_seek_is_dropped() -> None:
    world = World(0, 0)
    world.append(P0, 5)
    world.append(P1, 5)
    world.poll(0)
    world.rest()
    world.subscription.seek(P0, 4)
    first = world.poll(0)
    assert [(one.partition, one.offset) for one in first] == [(1, n) for n in range(5)]
    assert world.offsets() == [4]


def test_h56_what_is_buffered_waits_for_a_paused_partition_to_be_resumed() -> None:
    world = World(0, 1)
    world.append(P0, 3)
    world.poll(0)
    world.rest()
    world.subscription.pause([P0])
    assert world.offsets(100) == []
    world.append(P1, 1)
    assert [(one.partition, one.offset) for one in world.poll(1_000)] == [(1, 0)]
    assert world.subscription.paused == (P0,)
    world.subscription.resume([P0])
    assert world.offsets(0) == [0, 1, 2]
    assert [asked[0] for _, asked in world.asked() if 0 in asked] == [0]


def test_h57_what_is_buffered_of_a_revoked_partition_is_never_returned() -> None:
    world = World(0, 0)
    world.append(P0, 3)
    world.append(P1, 3)
    world.poll(0)
    world.rest()
    world.fetcher.assign([P1])
    assert [(one.partition, one.offset) for one in world.poll(100, most=2)] == [(1, 0), (1, 1)]
    world.fetcher.assign([P0])
    world.subscription.seek(P0, 1)
    assert world.offsets() == [1, 2]


def test_partitions_kept_keep_their_position_pause_and_buffered_records() -> None:
    world = World(0, 0)
    world.append(P0, 3)
    world.append(P1, 3)
    world.poll(0)
    world.rest()
    world.subscription.pause([P0])
    world.fetcher.assign([P0, P2])
    world.subscription.seek(P2, 0)
    assert world.subscription.paused == (P0,)
    asked = len(world.requests)
    world.subscription.resume([P0])
    assert world.offsets(0) == [0, 1, 2]
    assert len(world.requests) == asked


def test_an_answer_for_an_earlier_assignment_of_the_same_partition_is_dropped() -> None:
    world = World(0, max_wait_ms=10_000)
    world.poll(10)
    world.fetcher.assign([])
    world.fetcher.assign([P0])
    world.append(P0, 2)
    world.rest()
    assert world.subscription.missing() == [P0]
    assert not world.fetcher.has_something


def test_what_is_pending_revocation_is_neither_handed_out_nor_fetched() -> None:
    world = World(0, 0)
    world.append(P0, 3)
    world.append(P1, 3)
    world.poll(0)
    world.rest()
    world.subscription.mark_pending_revocation([P0, TopicPartition("other", 0)])
    assert {one.partition for one in world.poll(0)} == {1}
    world.rest()
    assert list(world.asked())[-1] == (0, {1: 3})
    assert world.subscription.positions()[P0] == 0
    world.fetcher.assign([P0, P1])
    assert world.offsets() == [0, 1, 2]


def test_what_awaits_the_applications_callback_is_not_fetched() -> None:
    world = World(0, 0)
    world.append(P1, 1)
    world.fetcher.assign([P0])
    world.fetcher.assign([P0, P1], awaits_callback=True)
    world.subscription.seek(P1, 0)
    world.poll(100)
    assert {number for _, asked in world.asked() for number in asked} == {0}
    world.subscription.callback_returned()
    assert world.offsets() == [0]


def test_an_answer_that_names_what_was_not_asked_is_ignored_as_a_whole() -> None:
    rig = ready({P0: 0, P1: 0}, 0, 1)
    right = fetched(P0, 0, 2).responses[0].partitions
    rig.answer(Fetch, FetchReply(responses=(FetchTopicReply("t", (*right, FetchPartitionReply(1))),)), 0)
    assert rig.taken() == []
    rig.wake().answer(Fetch, fetched(P0, 0, 2), 0)
    assert rig.taken() == [(0, 0), (0, 1)]


def test_a_node_that_throttles_is_left_alone_for_as_long() -> None:
    world = World(0)
    world.append(P0, 1)
    world.nodes[0].throttle_time_ms = 400
    assert world.offsets() == [0]
    before_ms = world.now_ms
    world.append(P0, 1)
    world.nodes[0].throttle_time_ms = 0
    assert world.offsets() == [1]
    assert world.now_ms - before_ms >= 400


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_leader_that_moved_is_found_and_the_position_kept(code: ErrorCode) -> None:
    world = World(0)
    world.append(P0, 2)
    assert world.offsets() == [0, 1]
    log = world.logs[P0]
    log.leader, log.epoch = 1, 1
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        world.nodes[0].follows.add(P0)
    world.append(P0, 2)
    assert world.offsets(5_000) == [2, 3]
