"""Incremental fetch sessions: docs/spec/consumer-client.md#C, #H.65 to #H.70."""

from collections.abc import Callable

import pytest

from membership.topic_partition import TopicPartition
from muster.core.fetching.sessions import FetchSession
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchPartition, FetchReply
from tests.client.fetching.world import P0, P1, P2, World

Begun = tuple[int, dict[TopicPartition, FetchPartition]] | FetchReply


def places(world: World) -> list[tuple[int, int]]:
    """Session id and epoch of each fetch, in order."""
    return [(message.session_id, message.session_epoch) for _, _, message in world.requests]


def forgotten(message: Fetch) -> list[int]:
    return [number for topic in message.forgotten_topics_data for number in topic.partitions]


def test_h65_polls_without_new_data_name_no_partition_and_get_none() -> None:
    world = World(0, 0, max_wait_ms=20)
    for _ in range(3):
        world.poll(20)
        world.rest(5)
    assert [len(asked) for _, asked in world.asked()][:3] == [2, 0, 0]
    assert [len(reply.responses) for reply in world.answers[:3]] == [1, 0, 0]
    assert places(world)[:3] == [(0, 0), (101, 1), (101, 2)]


def test_h66_a_new_assignment_adds_and_forgets_exactly_the_difference() -> None:
    world = World(0, 0, 0, max_wait_ms=20)
    world.fetcher.assign([P0, P1])
    world.poll(20)
    world.rest(5)
    world.fetcher.assign([P1, P2])
    world.subscription.seek(P2, 0)
    del world.requests[:]
    world.poll(30)
    message = next(one for _, _, one in world.requests if one.topics)
    assert [one.partition for topic in message.topics for one in topic.partitions] == [2]
    assert forgotten(message) == [0]
    assert set(world.nodes[0].sessions[101].partitions) == {P1, P2}


def test_h67_a_node_that_forgot_the_session_costs_one_fetch_and_no_data() -> None:
    world = World(0, max_wait_ms=20)
    world.append(P0, 2)
    assert world.offsets() == [0, 1]
    world.between_requests()
    world.nodes[0].restart()
    world.append(P0, 2)
    del world.requests[:], world.answers[:]
    assert world.offsets() == [2, 3]
    assert [reply.error_code for reply in world.answers[:2]] == [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.NONE]
    assert places(world)[1] == (0, 0)
    assert set(world.nodes[0].sessions) == {102}


def test_h68_a_request_that_came_twice_makes_the_client_begin_a_new_session() -> None:
    world = World(0, max_wait_ms=20)
    world.poll(30)
    world.between_requests()
    world.nodes[0].sessions[101].epoch += 1  # the network has delivered the next request already
    world.append(P0, 1)
    del world.requests[:], world.answers[:]
    assert world.offsets() == [0]
    assert [reply.error_code for reply in world.answers[:2]] == [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.NONE]
    assert places(world)[1] == (101, 0)
    assert set(world.nodes[0].sessions) == {102}


def test_h69_without_room_for_a_session_every_request_is_full_and_right() -> None:
    world = World(0, 0, max_wait_ms=20)
    world.nodes[0].slots = 0
    seen = []
    for _ in range(4):
        world.append(P0, 2)
        seen += world.offsets(200)
        world.rest(50)
    assert seen == list(range(8))
    assert set(places(world)) == {(0, 0)}
    assert all(asked for _, asked in world.asked())


def test_h70_closing_ends_the_session_at_each_node() -> None:
    world = World(0, 1, 2, max_wait_ms=20)
    world.poll(30)
    assert [len(node.sessions) for node in world.nodes] == [1, 1, 1]
    world.rest(20)
    del world.requests[:]
    world.carry_out(world.fetcher.close(world.now_ms))
    assert not world.fetcher.is_closed
    world.rest(50)
    assert [(number, message.session_epoch) for _, number, message in world.requests] == [(0, -1), (1, -1), (2, -1)]
    assert [len(node.sessions) for node in world.nodes] == [0, 0, 0]
    assert world.fetcher.is_closed


def test_closing_waits_no_longer_than_requests_may_take() -> None:
    world = World(0, max_wait_ms=20)
    world.poll(30)
    world.usual_ms = 100_000
    world.carry_out(world.fetcher.close(world.now_ms))
    world.rest(30_001)
    assert world.fetcher.is_closed


def test_nothing_is_remembered_with_sessions_turned_off() -> None:
    world = World(0, sessions=False, max_wait_ms=20)
    world.append(P0, 2)
    assert world.offsets() == [0, 1]
    world.rest()
    assert set(places(world)) == {(0, -1)}
    assert world.fetcher.close(world.now_ms) == []


def test_a_partition_with_buffered_records_is_forgotten_and_asked_for_again() -> None:
    world = World(0, 0, max_wait_ms=20)
    world.append(P0, 4)
    world.offsets(most=2)
    world.rest(5)
    assert forgotten(world.requests[-1][2]) == [0]
    assert world.offsets(0) == [2, 3]
    world.rest(30)
    assert [asked for _, asked in world.asked() if asked][-1] == {0: 4}


# -- the session by itself

ASKED = {P0: FetchPartition(0, 5), P1: FetchPartition(1, 6)}
BOTH = (P0, P1)


def steady() -> FetchSession:
    session = FetchSession()
    session.request(ASKED)
    assert session.on_reply(ErrorCode.NONE, 7, BOTH)
    return session


@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        (lambda s: s.on_reply(ErrorCode.NONE, 7, ()), (True, 7, 2)),
        (lambda s: s.on_reply(ErrorCode.NONE, 7, (P0,)), (True, 7, 2)),
        (lambda s: s.on_reply(ErrorCode.NONE, 7, (P0, P2)), (False, 7, 0)),
        (lambda s: s.on_reply(ErrorCode.NONE, 0, (P0,)), (True, 0, 0)),
        (lambda s: s.on_reply(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, ()), (False, 0, 0)),
        (lambda s: s.on_reply(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, ()), (False, 7, 0)),
        (lambda s: s.on_reply(ErrorCode.UNKNOWN_SERVER_ERROR, 0, ()), (False, 7, 0)),
        (lambda s: s.failed(), (None, 7, 0)),
    ],
)
def test_what_comes_of_an_incremental_request_decides_about_the_next(
    happens: Callable[[FetchSession], bool | None], expected: tuple[bool | None, int, int]
) -> None:
    session = steady()
    assert session.request(ASKED).epoch == 1
    is_used = happens(session)
    request = session.request(ASKED)
    assert (is_used, request.session_id, request.epoch) == expected
    assert dict(request.partitions) == ({} if request.epoch else ASKED)


@pytest.mark.parametrize(
    ("answered", "throttle_ms", "is_used"), [((P0,), 0, False), ((P0, P1, P2), 0, False), ((), 0, False), ((), 9, True)]
)
def test_a_full_answer_for_other_partitions_than_asked_begins_anew(
    answered: tuple[TopicPartition, ...], throttle_ms: int, is_used: bool
) -> None:
    session = FetchSession()
    session.request(ASKED)
    assert session.on_reply(ErrorCode.NONE, 7, answered, throttle_ms) is is_used
    request = session.request(ASKED)
    assert (request.session_id, request.epoch) == (0, 0)


def test_changed_partitions_go_to_the_end() -> None:
    session = steady()
    request = session.request({P0: FetchPartition(0, 9), P1: ASKED[P1]})
    assert dict(request.partitions) == {P0: FetchPartition(0, 9)}
    assert list(session.partitions) == [P1, P0]


def test_the_epoch_after_the_largest_is_one() -> None:
    session = steady()
    session._epoch = 2**31 - 1
    session.request(ASKED)
    session.on_reply(ErrorCode.NONE, 7, ())
    assert session.request(ASKED).epoch == 1


def test_refusals_without_end_are_answered_with_pauses() -> None:
    world = World(0, max_wait_ms=20)
    refuses = [True]
    begin = world.nodes[0].begin

    def refusing(message: Fetch) -> Begun:
        return FetchReply(ErrorCode.INVALID_FETCH_SESSION_EPOCH) if refuses[0] else begin(message)

    world.nodes[0].begin = refusing  # type: ignore[method-assign]
    world.append(P0, 1)
    assert world.offsets(3_000) == []
    assert len(world.requests) < 12
    refuses[0] = False
    assert world.offsets(3_000) == [0]
