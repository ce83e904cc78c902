"""The server's side: what becomes a request, what is answered on the spot, what closes the connection."""

from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.data import Fetch, FetchPartitionReply, FetchReply, FetchTopicReply, Produce, ProduceReply
from protocol.messages.groups import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
)
from protocol.messages.node import ErrorReply, FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.messages.offsets import (
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopic,
    OffsetFetchTopicReply,
)
from protocol.native.methods import METHODS, only_entry
from protocol.native.session import MAX_CLIENT_NAME, NativeDialect, NativeSession
from tests.enumerations import share_of
from tests.protocol.native import (
    FRAME_BYTES,
    GREETING,
    call,
    frame,
    open_session,
    requests_of,
    said_by,
    values_in,
)

HEARTBEAT = Heartbeat("g", 7, "m")
BEAT = {"group_id": "g", "generation_id": 7, "member_id": "m"}


def asked(session: NativeSession, data: bytes) -> Any:
    """The one request in `data`."""
    session.receive_data(data)
    (request,) = requests_of(session)
    return request[1]


# --- the stream ---


def test_requests_come_in_their_order_and_replies_in_any() -> None:
    session = open_session()
    session.receive_data(b"".join(call(number, "Heartbeat", **BEAT) for number in (5, 3, 9)))
    assert [request[0] for request in requests_of(session)] == [5, 3, 9]
    assert session.unanswered == 3
    replies = b"".join(session.encode_reply(number, HeartbeatReply()) for number in (9, 5, 3))
    assert [value[1] for value in values_in(replies)] == [9, 5, 3]
    assert session.unanswered == 0


def test_byte_at_a_time_gives_the_same_requests_as_all_at_once() -> None:
    stream = call(1, "Heartbeat", **BEAT) + call(2, "ListGroups") + call(3, "FindCoordinator", key="g")
    together, apart, bytewise = open_session(), open_session(), []
    together.receive_data(stream)
    for byte in stream:
        apart.receive_data(bytes([byte]))
        bytewise += requests_of(apart)
    assert bytewise == requests_of(together)
    assert len(bytewise) == 3


def test_a_request_that_stops_at_any_byte_is_waited_for_in_silence() -> None:
    whole = call(1, "Heartbeat", **BEAT)
    for length in range(len(whole)):
        session = open_session()
        session.receive_data(whole[:length])
        assert (requests_of(session), session.take_data(), session.buffered_bytes) == ([], b"", length)
        session.receive_data(whole[length:])
        assert requests_of(session) == [(1, HEARTBEAT)]
        assert session.buffered_bytes == 0


def test_what_was_not_asked_for_yet_stays_in_order_when_more_arrives() -> None:
    session = open_session()
    session.receive_data(call(1, "Heartbeat", **BEAT) + call(2, "Heartbeat", **BEAT))
    first = session.next_request()
    session.receive_data(call(3, "Heartbeat", **BEAT) + call(4, "Heartbeat", **BEAT))
    assert first is not None
    assert [first[0], *(request[0] for request in requests_of(session))] == [1, 2, 3, 4]


def test_a_request_above_the_limit_closes_the_connection() -> None:
    session = open_session(max_frame_bytes=1_024)
    with pytest.raises(ProtocolViolation, match="1024 are allowed"):
        session.receive_data(call(1, "Heartbeat", **BEAT, extra=bytes(1_024)))


def test_a_request_that_arrived_alone_is_not_lost_when_more_arrives_before_it_is_asked_for() -> None:
    session = open_session()
    session.receive_data(call(1, "Heartbeat", **BEAT))
    assert session.buffered_bytes > 0
    session.receive_data(call(2, "Heartbeat", **BEAT))
    session.receive_data(call(3, "Heartbeat", **BEAT))
    assert [request[0] for request in requests_of(session)] == [1, 2, 3]
    assert session.buffered_bytes == 0


# --- ids ---


def test_an_id_is_free_again_once_it_is_answered() -> None:
    session = open_session()
    for _ in range(3):
        assert asked(session, call(7, "Heartbeat", **BEAT)) == HEARTBEAT
        session.encode_reply(7, HeartbeatReply())
    assert session.unanswered == 0


@pytest.mark.parametrize("method", ["Heartbeat", "Hello", "NoSuchMethod"])
def test_an_id_in_flight_may_not_be_used_again(method: str) -> None:
    session = open_session()
    session.receive_data(call(7, "Heartbeat", **BEAT) + call(7, method, **BEAT))
    assert session.next_request() == (7, HEARTBEAT)
    with pytest.raises(ProtocolViolation, match="request id 7"):
        session.next_request()


@pytest.mark.parametrize("number", [0, 2**32 - 1])
def test_ids_have_32_bits(number: int) -> None:
    session = open_session()
    session.receive_data(call(number, "Heartbeat", **BEAT))
    assert requests_of(session) == [(number, HEARTBEAT)]
    assert values_in(session.encode_reply(number, HeartbeatReply()))[0][:3] == [1, number, None]


# --- what the session answers itself ---


def test_hello_names_the_client_and_tells_what_is_served() -> None:
    session = open_session()
    assert session.client_id == ""
    session.receive_data(call(1, "Hello", client_name="flights-loader", client_version="2"))
    assert requests_of(session) == []
    assert session.client_id == "flights-loader"
    assert said_by(session) == [
        [
            1,
            1,
            None,
            {
                "server_name": "musterd",
                "server_version": "0.1.0",
                "node_id": 3,
                "methods": list(METHODS),
                "limits": {"max_frame_bytes": FRAME_BYTES},
            },
        ]
    ]
    assert session.take_data() == b""


def test_hello_stands_between_other_requests_without_disturbing_them() -> None:
    session = open_session()
    session.receive_data(call(1, "Heartbeat", **BEAT) + call(2, "Hello") + call(3, "Heartbeat", **BEAT))
    assert [request[0] for request in requests_of(session)] == [1, 3]
    assert [value[1] for value in said_by(session)] == [2]


def test_a_client_name_without_end_is_refused() -> None:
    session = open_session()
    session.receive_data(call(1, "Hello", client_name="n" * (MAX_CLIENT_NAME + 1)))
    assert (requests_of(session), session.client_id) == ([], "")
    assert refusal_of(session) == (42, "INVALID_REQUEST", {"method": "Hello", "field": "client_name"})


def refusal_of(session: NativeSession) -> tuple[int, str, dict[str, Any]]:
    ((kind, _, error, result),) = said_by(session)
    assert (kind, result) == (1, None)
    code, name, message, details = error
    assert message
    return code, name, details


@pytest.mark.parametrize("method", ["ClaimPartition", "Start", "heartbeat", "", "x" * 1_000])
def test_a_method_that_does_not_exist_is_refused_by_name(method: str) -> None:
    session = open_session()
    session.receive_data(call(1, method, group_id="g") + call(2, "Heartbeat", **BEAT))
    assert [request[0] for request in requests_of(session)] == [2]
    code, name, details = refusal_of(session)
    assert (code, name) == (35, "UNSUPPORTED_VERSION")
    assert method.startswith(details["method"].removesuffix("...")) and len(details["method"]) < 70


def test_a_method_that_the_greeting_leaves_out_is_not_served() -> None:
    greeting = type(GREETING)("musterd", "0.1.0", 3, ("Hello", "Metadata"), {})
    session = NativeDialect(FRAME_BYTES, greeting).open()
    session.receive_data(call(1, "Heartbeat", **BEAT) + call(2, "Metadata"))
    assert [request[0] for request in requests_of(session)] == [2]
    assert refusal_of(session) == (35, "UNSUPPORTED_VERSION", {"method": "Heartbeat"})


TOPICS = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}, {"partition_index": 1}]}]


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("Heartbeat", {"group_id": "g", "member_id": "m"}, "generation_id"),
        ("Heartbeat", BEAT | {"generation_id": "7"}, "generation_id"),
        ("Heartbeat", BEAT | {"generation_id": 7.0}, "generation_id"),
        ("Heartbeat", BEAT | {"generation_id": True}, "generation_id"),
        ("Heartbeat", BEAT | {"group_id": b"g"}, "group_id"),
        ("Heartbeat", BEAT | {"group_id": None}, "group_id"),
        ("Heartbeat", BEAT | {"group_instance_id": 4}, "group_instance_id"),
        ("OffsetCommit", {"group_id": "g", "topics": TOPICS}, "topics[0].partitions[1].committed_offset"),
        ("OffsetCommit", {"group_id": "g", "topics": {}}, "topics"),
        ("OffsetCommit", {"group_id": "g", "topics": [], "absent_group_error": 9_999}, "absent_group_error"),
        ("JoinGroup", {"group_id": "g", "session_timeout_ms": 1, "protocols": [7]}, "protocols[0]"),
        (
            "JoinGroup",
            {"group_id": "g", "session_timeout_ms": 1, "protocols": [{"name": "range", "metadata": "AAAA"}]},
            "protocols[0].metadata",
        ),
        ("Heartbeat", BEAT | {"generation_id": 2**31}, "generation_id"),
        ("Heartbeat", BEAT | {"member_id": "m" * 8_192}, "member_id"),
        ("OffsetCommit", {"group_id": "g", "topics": [], "retention_time_ms": 2**62}, "retention_time_ms"),
        ("LeaveGroup", {"group_id": "g", "members": [{"member_id": "m" * 8_192}]}, "members[0].member_id"),
        ("FindCoordinator", {}, "coordinator_keys"),
        ("FindCoordinator", {"key": "g", "coordinator_keys": ["g"]}, "key"),
        ("LeaveGroup", {"group_id": "g"}, "members"),
        ("LeaveGroup", {"group_id": "g", "members": [], "member_id": "m"}, "member_id"),
        ("OffsetFetch", {"topics": []}, "groups"),
        ("OffsetFetch", {"group_id": "g", "groups": []}, "group_id"),
    ],
)
def test_params_that_do_not_fit_are_refused_by_the_name_of_the_field(
    method: str, params: dict[str, Any], field: str
) -> None:
    session = open_session()
    session.receive_data(call(1, method, **params))
    assert requests_of(session) == []
    data = session.take_data()
    ((_, _, (code, name, message, details), result),) = values_in(data)
    assert (code, name, result) == (42, "INVALID_REQUEST", None)
    assert message.startswith(f"{field}: ")
    assert details == {"method": method, "field": field}


@pytest.mark.parametrize("params", [None, 7, "text", [], [1, 2]])
def test_params_that_are_no_map_are_refused_as_a_whole(params: object) -> None:
    session = open_session()
    session.receive_data(frame(0, 1, "Heartbeat", [params]))
    assert requests_of(session) == []
    assert refusal_of(session) == (42, "INVALID_REQUEST", {"method": "Heartbeat", "field": "params"})


def test_keys_that_are_no_text_are_refused() -> None:
    session = open_session()
    session.receive_data(msgpack.packb([0, 1, "Heartbeat", [{1: "g"}]]))
    assert requests_of(session) == []
    assert refusal_of(session)[0] == 42


# --- what closes the connection ---


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "GET / HTTP/1.1",
        {"method": "Heartbeat"},
        [],
        [0],
        [0, 1, "Heartbeat"],
        [0, 1, "Heartbeat", {}],
        [0, 1, "Heartbeat", []],
        [0, 1, "Heartbeat", [{}, {}]],
        [0, 1, "Heartbeat", [{}], None],
        [0, -1, "Heartbeat", [{}]],
        [0, 2**32, "Heartbeat", [{}]],
        [0, "1", "Heartbeat", [{}]],
        [0, 1, b"Heartbeat", [{}]],
        [0, 1, None, [{}]],
        [1, 1, None, {}],
        [2, "Heartbeat", [{}]],
        [3, 1, "Heartbeat", [{}]],
        [False, 1, "Heartbeat", [{}]],
    ],
    ids=repr,
)
def test_a_value_that_is_no_request_closes_the_connection(value: object) -> None:
    with pytest.raises(ProtocolViolation):
        serve(open_session(), [msgpack.packb(value)])


@pytest.mark.parametrize(
    "data",
    [
        b"\x94\x00\x01\xa2\xff\xfe\x91\x80",
        b"\x94\x00\x01\xa9Heartbeat\x91\x81\xa8group_id\xa1\xff",
        b"\x94\x00\x01\xa9Heartbeat\x91\x81\xa1z" + b"\x91" * 5_000 + b"\xc0",
        b"\x94\x00\x01\xa9Heartbeat\x91\x81\xa1z\xc1",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["method is no UTF-8", "text is no UTF-8", "too deep", "no MessagePack", "TLS", "HTTP"],
)
@pytest.mark.parametrize("bytewise", [False, True])
def test_malformed_bytes_close_the_connection(data: bytes, bytewise: bool) -> None:
    with pytest.raises(ProtocolViolation):
        serve(open_session(), [bytes([byte]) for byte in data] if bytewise else [data])


def serve(session: NativeSession, pieces: list[bytes]) -> int:
    """Serve the pieces, and return the number of requests."""
    served = 0
    for piece in pieces:
        session.receive_data(piece)
        served += len(requests_of(session))
    return served


@given(data=st.binary(max_size=300), split=st.integers(0, 300))
@settings(deadline=None, max_examples=share_of(300))
def test_random_bytes_raise_nothing_but_a_violation(data: bytes, split: int) -> None:
    session = open_session()
    try:
        assert serve(session, [data[:split], data[split:]]) == 0
    except ProtocolViolation:
        return
    assert session.buffered_bytes == len(data)


@given(at=st.integers(0, 200), byte=st.integers(0, 255))
@settings(deadline=None, max_examples=share_of(500))
def test_a_flipped_byte_is_served_refused_waited_for_or_a_violation(at: int, byte: int) -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    data = bytearray(call(1, "OffsetCommit", group_id="g", topics=topics, member_id="m") + call(2, "Heartbeat", **BEAT))
    data[at % len(data)] = byte
    session = open_session()
    try:
        served = serve(session, [bytes(data)])
    except ProtocolViolation:
        return
    refused = said_by(session)
    assert all(value[2][0] in (35, 42) for value in refused)
    # One that swallows the other is one request with an unknown key.
    assert 1 <= served + len(refused) <= 2 or session.buffered_bytes


# --- one or many ---


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("FindCoordinator", {"key": "g"}, FindCoordinator(("g",))),
        ("FindCoordinator", {"coordinator_keys": ["g", "h"], "key_type": 1}, FindCoordinator(("g", "h"), 1)),
        ("FindCoordinator", {"coordinator_keys": []}, FindCoordinator(())),
        ("LeaveGroup", {"group_id": "g", "member_id": "m"}, LeaveGroup("g", (LeavingMember("m"),))),
        (
            "LeaveGroup",
            {"group_id": "g", "group_instance_id": "i", "reason": "done"},
            LeaveGroup("g", (LeavingMember("", "i", "done"),)),
        ),
        ("LeaveGroup", {"group_id": "g", "members": [{"member_id": "m"}]}, LeaveGroup("g", (LeavingMember("m"),))),
        ("OffsetFetch", {"group_id": "g"}, OffsetFetch((OffsetFetchGroup("g", None),))),
        (
            "OffsetFetch",
            {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0, 1]}], "require_stable": True},
            OffsetFetch((OffsetFetchGroup("g", (OffsetFetchTopic("t", (0, 1)),)),), require_stable=True),
        ),
        ("OffsetFetch", {"groups": [{"group_id": "g", "topics": []}]}, OffsetFetch((OffsetFetchGroup("g", ()),))),
    ],
)
def test_either_form_reaches_the_core_as_the_list(method: str, params: dict[str, Any], message: object) -> None:
    assert asked(open_session(), call(1, method, **params)) == message


FOUND = FoundCoordinator("g", 3, "localhost", 9390)
COMMITTED = OffsetFetchGroupReply("g", (OffsetFetchTopicReply("t", (OffsetFetchPartitionReply(0, 42),)),))


@pytest.mark.parametrize(
    ("method", "params", "reply", "has"),
    [
        ("FindCoordinator", {"key": "g"}, FindCoordinatorReply((FOUND,)), {"host": "localhost", "port": 9390}),
        ("LeaveGroup", {"group_id": "g", "member_id": "m"}, LeaveGroupReply(), {"error_code": 0}),
        (
            "LeaveGroup",
            {"group_id": "g", "member_id": "m"},
            LeaveGroupReply(members=(LeftMember("m", None, ErrorCode.NONE),)),
            {"member_id": "m", "error_code": 0},
        ),
        ("OffsetFetch", {"group_id": "g"}, OffsetFetchReply((COMMITTED,)), {"group_id": "g", "error_code": 0}),
    ],
)
def test_one_is_answered_as_one(method: str, params: dict[str, Any], reply: Any, has: dict[str, Any]) -> None:
    session = open_session()
    asked(session, call(1, method, **params))
    ((_, _, error, result),) = values_in(session.encode_reply(1, reply))
    assert error is None
    assert result.items() >= has.items()
    assert not result.keys() & {"coordinators", "groups"}


def test_many_are_answered_as_many_with_their_own_errors_inside() -> None:
    session = open_session()
    asked(session, call(1, "LeaveGroup", group_id="g", members=[{"member_id": "m"}]))
    reply = LeaveGroupReply(members=(LeftMember("m", None, ErrorCode.UNKNOWN_MEMBER_ID),))
    ((_, _, error, result),) = values_in(session.encode_reply(1, reply))
    assert error is None
    assert result["members"] == [{"member_id": "m", "group_instance_id": None, "error_code": 25}]


@pytest.mark.parametrize(
    ("method", "params", "reply", "details"),
    [
        (
            "LeaveGroup",
            {"group_id": "g", "member_id": "m"},
            LeaveGroupReply(members=(LeftMember("m", None, ErrorCode.UNKNOWN_MEMBER_ID),)),
            {"member_id": "m", "group_instance_id": None},
        ),
        ("LeaveGroup", {"group_id": "g", "member_id": "m"}, LeaveGroupReply(ErrorCode.UNKNOWN_MEMBER_ID), {}),
        (
            "FindCoordinator",
            {"key": "g"},
            FindCoordinatorReply((FoundCoordinator("g", error_code=ErrorCode.UNKNOWN_MEMBER_ID),)),
            {"key": "g"},
        ),
        (
            "OffsetFetch",
            {"group_id": "g"},
            OffsetFetchReply((OffsetFetchGroupReply("g", (), ErrorCode.UNKNOWN_MEMBER_ID),)),
            {"group_id": "g"},
        ),
        ("OffsetFetch", {"group_id": "g"}, ErrorReply(ErrorCode.UNKNOWN_MEMBER_ID, "why"), {}),
    ],
)
def test_the_error_of_the_only_one_is_the_error_of_the_answer(
    method: str, params: dict[str, Any], reply: Any, details: dict[str, Any]
) -> None:
    session = open_session()
    asked(session, call(1, method, **params))
    ((_, _, (code, name, message, said), result),) = values_in(session.encode_reply(1, reply))
    assert (code, name, said, result) == (25, "UNKNOWN_MEMBER_ID", details, None)
    assert message


def test_a_reply_that_has_no_entries_is_its_own_answer() -> None:
    assert only_entry(FetchReply()) == FetchReply()
    assert only_entry(FindCoordinatorReply()) == FindCoordinatorReply()


# --- what the messages mean on this wire ---


def test_left_out_facts_have_their_newest_behaviour() -> None:
    message = asked(open_session(), call(1, "JoinGroup", group_id="g", session_timeout_ms=10_000))
    assert message == JoinGroup("g", 10_000)
    assert message.wants_member_id_first and message.accepts_skip_assignment
    assert message.rebalance_timeout_ms < 0


def test_records_and_metadata_are_taken_as_bytes() -> None:
    protocols = [{"name": "range", "metadata": b"\x00\xff"}]
    message = asked(open_session(), call(1, "JoinGroup", group_id="g", session_timeout_ms=1, protocols=protocols))
    assert message.protocols == (JoinProtocol("range", b"\x00\xff"),)


def test_a_produce_that_wants_no_answer_gets_none_even_when_refused() -> None:
    session = open_session()
    assert asked(session, call(1, "Produce", topic_data=[], acks=0)) == Produce((), acks=0)
    assert session.unanswered == 1
    assert session.encode_reply(1, ErrorReply(ErrorCode.NOT_LEADER_OR_FOLLOWER)) == b""
    assert session.unanswered == 0
    assert asked(session, call(1, "Produce", topic_data=[])) == Produce(())
    assert session.encode_reply(1, ProduceReply()) != b""


def test_a_fetch_of_many_megabytes_of_records_is_answered_whole() -> None:
    session = open_session()
    assert asked(session, call(1, "Fetch", topics=[])) == Fetch(())
    records = bytes(range(256)) * 20_000
    reply = FetchReply(responses=(FetchTopicReply("t", (FetchPartitionReply(0, records=records),)),))
    ((_, _, _, result),) = values_in(session.encode_reply(1, reply))
    assert result["responses"][0]["partitions"][0]["records"] == records
