"""Questions of our own to the broker, on a client's connection and as that client."""

import pytest

from coordinator.gateway.session.session import ProxySession
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.client import encode_request
from protocol.messages.groups import DescribedGroup, DescribeGroups, DescribeGroupsReply, Heartbeat, HeartbeatReply
from protocol.messages.offsets import OffsetDelete
from tests.upstream.session.frames import BEAT, FETCH, answer, forwarded, number_of, opened, raw, requests_of, told

NUMBER = -8
QUESTION = DescribeGroups(("g",))
SAID = DescribeGroupsReply((DescribedGroup("g", ErrorCode.NOT_COORDINATOR),))
BEATING = 12


def with_a_request_out(*before: bytes) -> ProxySession:
    session = opened()
    for one in before:
        session.receive_data(one)
    session.receive_data(encode_request(BEAT, 3, 1, "c"))
    assert len(requests_of(session)) == 1
    return session


def test_a_question_goes_out_in_the_newest_version_that_is_wanted() -> None:
    session = with_a_request_out()
    assert session.send_query(QUESTION, 0, 5)
    assert forwarded(session) == encode_request(QUESTION, 5, NUMBER, "muster")
    assert session.send_query(Heartbeat("g", 0, "m"), 0, 3)
    assert forwarded(session)[4:8] == (12).to_bytes(2, "big") + (3).to_bytes(2, "big")
    assert not session.send_query(QUESTION, 7, 9), "the broker knows 6 at most"
    assert not session.send_query(OffsetDelete("g", ()), 1, 2)
    assert forwarded(session) == b""


@pytest.mark.parametrize("size", [1, 5, 1_000])
def test_answers_are_the_nodes_and_not_the_clients(size: int) -> None:
    session = with_a_request_out()
    session.send_query(QUESTION, 0, 5)
    session.send_query(Heartbeat("g", 0, "m"), 0, 3)
    data = told(15, 5, NUMBER, SAID) + told(BEATING, 3, NUMBER, HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID))
    sent = [session.receive_upstream(data[start : start + size]) for start in range(0, len(data), size)]
    assert not any(sent)
    assert session.take_query_replies() == [SAID, HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]
    assert session.take_query_replies() == []
    assert not session.awaits_broker


def test_who_owes_an_answer_to_a_question_may_be_asked_for_groups() -> None:
    session = with_a_request_out()
    session.send_query(QUESTION, 0, 5)
    assert session.awaits_broker
    assert not session.awaits_rewritten_reply
    session.encode_reply(1, HeartbeatReply())
    session.receive_data(encode_request(BEAT, 3, 2, "c"))
    (request,) = requests_of(session)
    assert request[0] == 2


def test_what_the_client_asked_the_broker_behind_it_comes_first() -> None:
    session = with_a_request_out()
    session.send_query(QUESTION, 0, 5)
    forwarded(session)
    session.encode_reply(1, HeartbeatReply())
    session.receive_data(raw(FETCH, 4, 2, b"") + encode_request(BEAT, 3, 3, "c"))
    assert requests_of(session) == []
    assert number_of(forwarded(session)) == 2
    out = session.receive_upstream(told(15, 5, NUMBER, SAID) + answer(2, b"x"))
    assert b"".join(out) == answer(2, b"x")
    assert [request[0] for request in requests_of(session)] == [3]


def test_a_broker_that_is_lost_takes_its_answers_with_it() -> None:
    session = with_a_request_out()
    session.send_query(QUESTION, 0, 5)
    session.receive_upstream(told(15, 5, NUMBER, SAID)[:9])
    session.upstream_lost("gone")
    assert not session.awaits_broker
    assert session.send_query(QUESTION, 0, 5)
    session.receive_upstream(told(15, 5, NUMBER, SAID))
    assert session.take_query_replies() == [SAID]


def test_a_broker_that_is_lost_with_an_answer_to_the_client_ends_the_connection() -> None:
    session = with_a_request_out()
    session.send_query(QUESTION, 0, 5)
    session.encode_reply(1, HeartbeatReply())
    session.receive_data(raw(FETCH, 4, 2, b""))
    requests_of(session)
    with pytest.raises(ProtocolViolation):
        session.upstream_lost("gone")


def test_an_answer_that_cannot_be_read_ends_the_connection() -> None:
    session = with_a_request_out()
    session.send_query(QUESTION, 0, 5)
    with pytest.raises(ProtocolViolation):
        session.receive_upstream(answer(NUMBER, b"\x00"))
