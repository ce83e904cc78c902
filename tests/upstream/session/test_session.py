"""A connection in front of a broker as bytes on three sides: whose request it is, and what goes through as it came."""

import tracemalloc
from struct import pack

import pytest

from coordinator.gateway.session.acks import read_acks
from coordinator.gateway.session.router import Reachability, Router
from coordinator.gateway.session.session import MAX_IN_FLIGHT, SPLICE_MIN_BYTES, ProxySession
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.client import KafkaClient, encode_request
from protocol.kafka.session import MAX_WAITING_BYTES
from protocol.messages.data import Fetch
from protocol.messages.groups import HeartbeatReply
from protocol.messages.node import (
    ApiVersions,
    ApiVersionsReply,
    DescribeClusterReply,
    DescribedBroker,
    FindCoordinator,
    FindCoordinatorReply,
    FoundCoordinator,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshake,
    SaslHandshakeReply,
)
from protocol.messages.topics import Metadata, MetadataBroker, MetadataReply
from tests.upstream.session.frames import (
    BEAT,
    BROKER,
    FETCH,
    FRAME_BYTES,
    KAFKA,
    LIST_OFFSETS,
    METADATA,
    TOPOLOGY,
    answer,
    forwarded,
    frames_in,
    number_of,
    opened,
    produce,
    raw,
    requests_of,
    served,
    told,
)


def test_a_request_of_another_api_goes_to_the_broker_as_it_came_and_so_does_its_answer() -> None:
    session = opened()
    data = raw(FETCH, 12, 7, bytes(range(256)))
    session.receive_data(data)
    assert requests_of(session) == []
    assert session.take_forward() == [data]
    reply = answer(7, b"\xff" * 300)
    assert session.receive_upstream(reply) == [reply]
    assert not session.awaits_broker


def test_a_group_request_is_ours_and_the_broker_never_hears_of_it() -> None:
    session = opened()
    session.receive_data(encode_request(BEAT, 4, 3, "c"))
    assert requests_of(session) == [(3, BEAT)]
    assert session.client_id == "c"
    assert session.encode_reply(3, HeartbeatReply())[4:8] == pack(">i", 3)
    assert forwarded(session) == b""


def waits(session: ProxySession) -> bool:
    return session.has_waiting_request


def test_ours_waits_until_what_came_before_it_is_answered() -> None:
    session = opened()
    fetch = raw(FETCH, 12, 1, b"f")
    beat = encode_request(BEAT, 4, 2, "c")
    session.receive_data(fetch + beat[:-1])
    assert requests_of(session) == []
    assert not waits(session)  # it has not arrived whole
    session.receive_data(beat[-1:])
    assert requests_of(session) == []
    assert waits(session)
    assert forwarded(session) == fetch
    session.receive_upstream(answer(1, b"ab")[:-1])
    assert requests_of(session) == []
    session.receive_upstream(b"b")
    assert requests_of(session) == [(2, BEAT)]
    assert not waits(session)


def test_nothing_behind_ours_goes_to_the_broker_until_ours_is_answered() -> None:
    session = opened()
    fetch = raw(FETCH, 12, 2, b"f")
    session.receive_data(encode_request(BEAT, 4, 1, "c") + fetch)
    assert requests_of(session) == [(1, BEAT)]
    assert forwarded(session) == b""
    session.encode_reply(1, HeartbeatReply())
    assert requests_of(session) == []
    assert forwarded(session) == fetch


def test_requests_of_the_brokers_own_do_not_wait_for_each_other() -> None:
    session = opened()
    sent = [raw(FETCH, 12, number, b"f") for number in range(3)]
    for one in sent:
        session.receive_data(one)
        assert requests_of(session) == []
        assert forwarded(session) == one


def test_a_large_body_is_handed_on_as_it_arrives_and_never_gathered() -> None:
    session = opened()
    body = b"x" * (3 << 20)
    session.receive_data(raw(FETCH, 12, 1, b""))
    requests_of(session)
    pieces = [body[at : at + 65_536] for at in range(0, len(body), 65_536)]
    head = pack(">ii", 4 + len(body), 1)
    assert b"".join(session.receive_upstream(head)) == head
    tracemalloc.start()
    try:
        for piece in pieces:
            (out,) = session.receive_upstream(piece)
            assert out is piece
        assert tracemalloc.get_traced_memory()[1] < 65_536
    finally:
        tracemalloc.stop()
    assert not session.awaits_broker


def test_a_long_answer_may_pass_by_itself_and_what_waits_for_it_goes_on_when_it_has() -> None:
    session = opened()
    session.receive_data(raw(FETCH, 12, 1, b"") + encode_request(BEAT, 4, 2, "c"))
    assert requests_of(session) == []
    head = pack(">ii", 4 + SPLICE_MIN_BYTES, 1)
    assert session.receive_upstream(head) == [head]
    assert session.take_splice() == SPLICE_MIN_BYTES
    assert session.take_splice() == 0
    assert not session.spliced(SPLICE_MIN_BYTES - 3)
    assert session.upstream_bytes == len(head) + SPLICE_MIN_BYTES - 3
    assert session.receive_upstream(b"..") == [b".."]
    assert session.take_splice() == 0
    assert requests_of(session) == []
    assert session.spliced(1)
    assert requests_of(session) == [(2, BEAT)]


def test_what_is_not_worth_it_or_not_the_clients_does_not_pass_by_itself() -> None:
    session = opened()
    session.receive_data(raw(FETCH, 12, 1, b"") + encode_request(Metadata(()), 9, 2, "c"))
    requests_of(session)
    session.receive_upstream(pack(">ii", 4 + SPLICE_MIN_BYTES, 1) + b".")
    assert session.take_splice() == 0
    session.receive_upstream(bytes(SPLICE_MIN_BYTES - 1))
    session.receive_upstream(pack(">ii", 4 + SPLICE_MIN_BYTES, 2) + b".")
    assert session.take_splice() == 0
    session = opened()
    session.receive_data(HANDSHAKE + encode_request(BEAT, 4, 2, "c"))
    requests_of(session)
    session.receive_upstream(ACCEPTED)
    assert requests_of(session) == []
    probe, _ = frames_in(forwarded(session)[len(HANDSHAKE) :])
    assert session.receive_upstream(pack(">ii", 4 + SPLICE_MIN_BYTES, number_of(probe))) == []
    assert session.take_splice() == 0


def test_a_large_produce_is_handed_on_before_it_is_whole() -> None:
    session = opened()
    data = produce(1, -1, records=b"r" * (1 << 20))
    session.receive_data(data[:1000])
    assert requests_of(session) == []
    assert session.take_forward() == [data[:1000]]
    session.receive_data(data[1000:])
    assert requests_of(session) == []
    assert forwarded(session) == data[1000:]


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("of", [None, "t" * 200])
def test_a_produce_that_nobody_answers_holds_nobody_up(version: int, acks: int, of: str | None) -> None:
    session = opened()
    data = produce(1, acks, version, of=of if version >= 3 else None)
    for byte in data:
        session.receive_data(bytes((byte,)))
        assert requests_of(session) == []
    assert forwarded(session) == data
    assert session.awaits_broker == (acks != 0)


def test_the_acks_of_a_produce_are_found_however_little_of_it_is_there() -> None:
    data = produce(1, -1, of="transactional")
    seen = []
    for cut in range(14, len(data)):
        try:
            seen.append(read_acks(data[:cut], 9))
        except IndexError:
            assert not seen
    assert set(seen) == {-1}


def test_a_produce_without_acks_is_not_waited_for_forever() -> None:
    session = opened()
    session.receive_data(raw(0, 9, 1, b"\0\xff\xff\xff\x07" + b"a" * 8))
    with pytest.raises(ProtocolViolation, match="acks"):
        session.next_request()


# ------------------------------------------------------------------------------------------------------ what is offered


def offered(session_reply: ApiVersionsReply) -> dict[int, tuple[int, int]]:
    return {row.api_key: (row.min_version, row.max_version) for row in session_reply.api_keys}


def versions_asked(version: int, broker: ApiVersionsReply = BROKER) -> ApiVersionsReply:
    session = opened(broker)
    client = KafkaClient("c", FRAME_BYTES)
    session.receive_data(client.encode_request(ApiVersions("java", "4.3"), version)[1])
    assert requests_of(session) == []
    ((_, reply),) = client.receive_data(session.take_data())
    assert isinstance(reply, ApiVersionsReply)
    return reply


def test_produce_and_fetch_are_offered_up_to_the_last_version_that_names_no_address() -> None:
    rows = offered(versions_asked(3))
    assert rows[0] == (3, 9)
    assert rows[FETCH] == (4, 15)
    assert rows[55] == (0, 1)


def test_group_apis_are_offered_as_we_serve_them_and_those_we_do_not_serve_are_left_out() -> None:
    rows = offered(versions_asked(3))
    assert rows[8] == (1, 10)
    assert rows[11] == (0, 9)
    for key in (25, 28, 68, 76):
        assert key in KAFKA
        assert key not in rows


def test_an_api_nobody_has_looked_at_is_not_offered() -> None:
    assert 99 not in offered(versions_asked(3))


def test_a_newer_broker_is_offered_as_far_as_its_answers_can_be_rewritten() -> None:
    rows = {**KAFKA, 3: (5, 20), 60: (7, 9)}
    newer = ApiVersionsReply(api_keys=tuple(_rows(rows)))
    told_of = offered(versions_asked(3, newer))
    assert told_of[3] == (5, 13)
    assert 60 not in told_of


def test_an_older_broker_is_offered_as_far_as_it_goes() -> None:
    rows = {**KAFKA, 0: (0, 7), 3: (0, 8)}
    told_of = offered(versions_asked(0, ApiVersionsReply(api_keys=tuple(_rows(rows)))))
    assert told_of[0] == (0, 7)
    assert told_of[3] == (0, 8)


def _rows(rows: dict[int, tuple[int, int]]) -> list:
    return [type(BROKER.api_keys[0])(key, *versions) for key, versions in rows.items()]


def test_features_that_need_what_is_not_offered_are_not_told_of() -> None:
    features = {one.name: one.max_version_level for one in versions_asked(3).finalized_features}
    assert features == {"metadata.version": 29, "transaction.version": 1}


def test_a_newer_api_versions_is_told_our_range() -> None:
    session = opened()
    session.receive_data(raw(18, 9, 5, b"\0\1\1\0"))
    assert requests_of(session) == []
    reply = session.take_data()
    assert reply[4:10] == pack(">ih", 5, ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize(
    ("key", "version"), [(0, 10), (FETCH, 16), (3, 14), (28, 3), (68, 0), (99, 0), (17, 0), (-1, 0)]
)
def test_what_is_not_offered_closes_the_connection_and_never_reaches_the_broker(key: int, version: int) -> None:
    session = opened()
    session.receive_data(raw(key, version, 1, b""))
    with pytest.raises(ProtocolViolation, match="not offered"):
        session.next_request()
    assert forwarded(session) == b""


# ----------------------------------------------------------------------------------------------- answers with addresses


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_the_same_brokers_at_our_addresses(version: int) -> None:
    session = opened()
    client = KafkaClient("c", FRAME_BYTES)
    number, data = client.encode_request(Metadata(), version)
    session.receive_data(data)
    assert requests_of(session) == []
    assert forwarded(session) == data
    out = b"".join(session.receive_upstream(told(METADATA, version, number, TOPOLOGY)))
    assert b"hidden" not in out
    ((_, reply),) = client.receive_data(out)
    assert isinstance(reply, MetadataReply)
    assert [(one.node_id, one.host, one.port) for one in reply.brokers] == [(1, "front", 9100), (2, "front", 9101)]
    (heard,) = session.take_observed_metadata()
    assert heard is not None
    assert heard.brokers[0].host == "hidden-1"
    assert session.take_observed_metadata() == []


def test_a_broker_that_has_no_listener_yet_is_left_out() -> None:
    session = opened()
    session.receive_data(encode_request(Metadata(), 9, 1, "c"))
    requests_of(session)
    reply = MetadataReply(brokers=(MetadataBroker(3, "hidden-3", 9092),), cluster_id="c")
    assert b"hidden" not in b"".join(session.receive_upstream(told(METADATA, 9, 1, reply)))


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_names_our_addresses(version: int) -> None:
    session = opened()
    session.receive_data(raw(60, version, 4, b"\0\0\1\0\0"))
    assert requests_of(session) == []
    reply = DescribeClusterReply("c", brokers=(DescribedBroker(2, "hidden-2", 9092), DescribedBroker(9, "hidden-9", 1)))
    out = b"".join(session.receive_upstream(told(60, version, 4, reply)))
    assert b"front" in out
    assert b"hidden" not in out


@pytest.mark.parametrize("version", range(1, 7))
def test_the_coordinator_of_a_transaction_is_the_brokers_at_our_address(version: int) -> None:
    session = opened()
    client = KafkaClient("c", FRAME_BYTES)
    number, data = client.encode_request(FindCoordinator(("tx",), 1), version)
    session.receive_data(data)
    assert requests_of(session) == []
    assert forwarded(session) == data
    found = FindCoordinatorReply((FoundCoordinator("tx", 2, "hidden-2", 9092),))
    ((_, reply),) = client.receive_data(b"".join(session.receive_upstream(told(10, version, number, found))))
    assert isinstance(reply, FindCoordinatorReply)
    assert [(one.node_id, one.host, one.port) for one in reply.coordinators] == [(2, "front", 9101)]


def test_a_transactions_coordinator_without_a_listener_is_not_available_yet() -> None:
    session = opened()
    client = KafkaClient("c", FRAME_BYTES)
    session.receive_data(client.encode_request(FindCoordinator(("tx",), 1), 4)[1])
    requests_of(session)
    found = FindCoordinatorReply((FoundCoordinator("tx", 3, "hidden-3", 9092),))
    ((_, reply),) = client.receive_data(b"".join(session.receive_upstream(told(10, 4, 0, found))))
    assert isinstance(reply, FindCoordinatorReply)
    assert reply.coordinators == (FoundCoordinator("tx", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),)


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_group_is_asked_here(version: int) -> None:
    session = opened()
    session.receive_data(encode_request(FindCoordinator(("g",), 0), version, 1, "c"))
    assert requests_of(session) == [(1, FindCoordinator(("g",), 0))]
    assert forwarded(session) == b""


# ----------------------------------------------------------------------------------------------------------------- SASL

HANDSHAKE = encode_request(SaslHandshake("PLAIN"), 1, 1, "c")
AUTHENTICATE = encode_request(SaslAuthenticate(b"\0u\0p"), 2, 2, "c")
ACCEPTED = told(17, 1, 1, SaslHandshakeReply(mechanisms=("PLAIN",)))
"""The broker's answer to `HANDSHAKE`."""


def test_an_exchange_is_the_brokers_and_group_requests_wait_until_it_answers_whom_it_knows() -> None:
    session = opened()
    session.receive_data(HANDSHAKE)
    requests_of(session)
    assert forwarded(session) == HANDSHAKE
    session.receive_upstream(ACCEPTED)
    session.receive_data(AUTHENTICATE + encode_request(BEAT, 4, 3, "c"))
    assert requests_of(session) == []
    assert forwarded(session) == AUTHENTICATE
    session.receive_upstream(told(36, 2, 2, SaslAuthenticateReply()))
    assert requests_of(session) == []
    probe, rest = frames_in(forwarded(session))
    assert rest == b""
    assert session.receive_upstream(served(number_of(probe))) == []
    assert requests_of(session) == [(3, BEAT)]
    session.encode_reply(3, HeartbeatReply())
    session.receive_data(encode_request(BEAT, 4, 4, "c"))
    assert requests_of(session) == [(4, BEAT)]


def principal_of(session: ProxySession) -> str | None:
    return None if session.user is None else session.user.principal


def logged_in(session: ProxySession, mechanism: str, *tokens: bytes) -> None:
    """Log in, and be served by the broker, in pieces of a byte."""
    requests = [SaslHandshake(mechanism), *map(SaslAuthenticate, tokens)]
    for number, request in enumerate(requests):
        for byte in encode_request(request, 1, number, "c"):
            session.receive_data(bytes([byte]))
            requests_of(session)
        forwarded(session)
        reply = told(36, 1, number, SaslAuthenticateReply()) if number else told(17, 1, number, SaslHandshakeReply())
        assert b"".join(session.receive_upstream(reply)) == reply
    before = principal_of(session)
    session.receive_data(encode_request(BEAT, 4, 9, "c"))
    requests_of(session)
    assert principal_of(session) == before, "the broker has not served the client yet"
    session.receive_upstream(served(number_of(forwarded(session))))
    assert requests_of(session) == [(9, BEAT)]
    session.encode_reply(9, HeartbeatReply())


@pytest.mark.parametrize(
    ("mechanism", "tokens", "principal"),
    [
        ("PLAIN", (b"\0alice\0secret",), "User:alice"),
        ("SCRAM-SHA-256", (b"n,,n=al=2Cice,r=x", b"c=biws,r=xy,p=AA=="), "User:al,ice"),
        ("SCRAM-SHA-512", (b"n,,n=token-7,r=x,tokenauth=true", b"c=biws,r=xy,p=AA=="), None),
        ("OAUTHBEARER", (b"n,,\x01auth=Bearer e30.eyJzdWIiOiJqb2IifQ.c2ln\x01\x01",), "User:job"),
        ("GSSAPI", (b"\0alice\0secret",), None),
        ("PLAIN", (b"\xff",), None),
        ("PLAIN", (b"x" * 200_000,), None),
    ],
)
def test_the_client_is_whom_its_login_named_once_the_broker_serves_it(
    mechanism: str, tokens: tuple[bytes, ...], principal: str | None
) -> None:
    session = opened()
    assert principal_of(session) is None
    logged_in(session, mechanism, *tokens)
    assert principal_of(session) == principal


def test_who_is_in_the_middle_of_a_login_is_not_served_although_the_broker_answers() -> None:
    """Apache Kafka answers Metadata there with an error, which has no place but an empty reply, and hangs up."""
    session = opened()
    session.receive_data(HANDSHAKE + encode_request(BEAT, 4, 2, "c"))
    requests_of(session)
    session.receive_upstream(ACCEPTED)
    requests_of(session)
    (number,) = (number_of(frame) for frame in [forwarded(session).removeprefix(HANDSHAKE)])
    with pytest.raises(ProtocolViolation, match="in the middle of a login"):
        session.receive_upstream(served(number, MetadataReply()))


def test_a_name_that_comes_without_a_handshake_or_after_the_first_message_is_nobodys() -> None:
    session = opened()
    logged_in(session, "PLAIN", b"\0bob\0secret", b"\0alice\0guessed")
    assert principal_of(session) == "User:bob"
    session.receive_data(encode_request(SaslAuthenticate(b"\0alice\0guessed"), 1, 5, "c"))
    requests_of(session)
    forwarded(session)
    session.receive_upstream(told(36, 1, 5, SaslAuthenticateReply(ErrorCode.ILLEGAL_SASL_STATE)))
    session.receive_data(encode_request(BEAT, 4, 6, "c"))
    requests_of(session)
    assert principal_of(session) == "User:bob"


@pytest.mark.parametrize("is_pipelined", [False, True])
@pytest.mark.parametrize("who", ["User:bob", None])
def test_a_login_that_the_broker_refuses_names_nobody_though_it_goes_on_serving_the_client(
    who: str | None, is_pipelined: bool
) -> None:
    """Apache Kafka refuses a second login within a second, or without `connections.max.reauth.ms`, and one at a
    listener that wants none, with ILLEGAL_SASL_STATE, and leaves the connection as it was."""
    session = opened()
    if who:
        logged_in(session, "PLAIN", b"\0bob\0secret")
    handshake = encode_request(SaslHandshake("PLAIN"), 1, 10, "c")
    named = encode_request(SaslAuthenticate(b"\0alice\0guessed"), 2, 11, "c")
    refused = [
        told(17, 1, 10, SaslHandshakeReply(ErrorCode.ILLEGAL_SASL_STATE)),
        told(36, 2, 11, SaslAuthenticateReply(ErrorCode.ILLEGAL_SASL_STATE, "it is not expected")),
    ]
    if is_pipelined:
        session.receive_data(handshake + named)
        requests_of(session)
        assert session.receive_upstream(b"".join(refused)) == refused
    else:
        for request, reply in zip((handshake, named), refused, strict=True):
            session.receive_data(request)
            requests_of(session)
            assert session.receive_upstream(reply) == [reply], "the client hears it"
    forwarded(session)
    session.receive_data(encode_request(BEAT, 4, 12, "c"))
    requests_of(session)
    session.receive_upstream(served(number_of(forwarded(session))))
    assert requests_of(session) == [(12, BEAT)]
    assert principal_of(session) == who


def test_a_broker_owes_no_answer_to_what_the_client_is_still_saying() -> None:
    session = opened()
    first, second = (encode_request(Fetch(()), 12, number, "c") for number in (1, 2))
    owes = []
    for data in (first[:-1], first[-1:] + second[:-1]):
        session.receive_data(data)
        requests_of(session)
        owes.append(session.awaits_broker)
    session.receive_upstream(answer(1, b"said"))
    owes.append(session.awaits_broker)
    session.receive_data(second[-1:])
    requests_of(session)
    owes.append(session.awaits_broker)
    assert owes == [False, True, False, True]


def test_whom_the_broker_has_let_in_it_is_asked_about_again_every_minute_since_logins_end() -> None:
    reachability = Reachability()
    session = ProxySession(Router(BROKER, {}, FRAME_BYTES, reachability=reachability))
    session.receive_data(HANDSHAKE + encode_request(BEAT, 4, 2, "c"))
    requests_of(session)
    session.receive_upstream(ACCEPTED)
    requests_of(session)
    for minute in (1, 2):
        (number,) = (number_of(frame) for frame in [forwarded(session).removeprefix(HANDSHAKE)])
        session.receive_upstream(served(number))
        assert requests_of(session) == [(2, BEAT)]
        session.encode_reply(2, HeartbeatReply())
        session.receive_data(encode_request(BEAT, 4, 2, "c"))
        assert requests_of(session) == [(2, BEAT)], "within the minute it is believed"
        session.encode_reply(2, HeartbeatReply())
        reachability.minute = minute
        session.receive_data(encode_request(BEAT, 4, 2, "c"))
        assert requests_of(session) == []
    with pytest.raises(ProtocolViolation, match="gone"):
        session.upstream_lost("the login is over")


def test_group_requests_of_whom_the_broker_does_not_know_end_with_the_connection() -> None:
    session = opened()
    session.receive_data(HANDSHAKE + encode_request(BEAT, 4, 2, "c"))
    requests_of(session)
    session.receive_upstream(ACCEPTED)
    assert requests_of(session) == []
    with pytest.raises(ProtocolViolation, match="gone"):
        session.upstream_lost("closed by the broker")


def test_where_the_broker_wants_an_exchange_nobody_asks_for_groups_without_one() -> None:
    session = ProxySession(Router(BROKER, {}, FRAME_BYTES, requires_sasl=True))
    session.receive_data(encode_request(ApiVersions("c", "1"), 3, 1, "c"))
    assert requests_of(session) == []
    assert session.take_data()[4:8] == pack(">i", 1)
    session.receive_data(encode_request(BEAT, 4, 2, "c"))
    with pytest.raises(ProtocolViolation, match="SASL"):
        session.next_request()


def test_the_versions_are_told_before_anybody_is_known() -> None:
    session = opened()
    session.receive_data(HANDSHAKE)
    requests_of(session)
    session.receive_upstream(ACCEPTED)
    session.receive_data(encode_request(ApiVersions("c", "1"), 3, 2, "c"))
    assert requests_of(session) == []
    assert session.take_data()[4:8] == pack(">i", 2)


# --------------------------------------------------------------------------------------------- while no broker is there


def away(*, requires_sasl: bool = False) -> tuple[ProxySession, Reachability]:
    reachability = Reachability()
    reachability.is_offline = True
    return ProxySession(
        Router(BROKER, {}, FRAME_BYTES, requires_sasl=requires_sasl, reachability=reachability)
    ), reachability


@pytest.mark.parametrize("version", [0, 1, 4, 9, 12])
def test_while_no_broker_can_be_reached_metadata_is_ours_in_its_turn_and_then_the_brokers_again(version: int) -> None:
    session, reachability = away()
    question = encode_request(Metadata(None), version, 2, "c")
    session.receive_data(encode_request(BEAT, 4, 1, "c") + question)
    assert next_number(session) == 1
    session.encode_reply(1, HeartbeatReply())
    (asked,) = requests_of(session)
    assert asked[0] == 2
    assert isinstance(asked[1], Metadata)
    assert session.encode_reply(2, MetadataReply(TOPOLOGY.brokers, "c"))[4:8] == pack(">i", 2)
    assert forwarded(session) == b""
    session.upstream_lost("there is none")
    reachability.is_offline = False
    session.receive_data(question)
    assert requests_of(session) == []
    assert forwarded(session) == question


def next_number(session: ProxySession) -> int:
    request = session.next_request()
    assert request is not None
    return request[0]


def test_what_was_handed_on_before_the_broker_went_still_closes_the_connection() -> None:
    session, reachability = away()
    reachability.is_offline = False
    session.receive_data(encode_request(Metadata(()), 9, 1, "c"))
    assert requests_of(session) == []
    reachability.is_offline = True
    session.receive_data(encode_request(Metadata(()), 9, 2, "c"))
    assert requests_of(session) == []
    with pytest.raises(ProtocolViolation, match="gone"):
        session.upstream_lost("cut")


def test_who_has_not_logged_in_is_told_nothing_of_topics_while_the_broker_that_wants_it_is_away() -> None:
    session, _ = away(requires_sasl=True)
    session.receive_data(encode_request(Metadata(None), 9, 1, "c"))
    with pytest.raises(ProtocolViolation, match="SASL"):
        session.next_request()


def test_who_has_begun_to_log_in_is_told_of_topics_when_the_broker_has_said_who_that_is() -> None:
    session, _ = away(requires_sasl=True)
    session.receive_data(HANDSHAKE)
    requests_of(session)
    session.receive_upstream(ACCEPTED)
    session.receive_data(encode_request(Metadata(None), 9, 2, "c"))
    assert requests_of(session) == []
    with pytest.raises(ProtocolViolation, match="gone"):
        session.upstream_lost("closed by the broker")


# ------------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("size", [-1, 0, 9, FRAME_BYTES + 1, 2**31 - 1])
def test_a_frame_that_lies_about_its_length_closes_the_connection(size: int) -> None:
    session = opened()
    session.receive_data(pack(">i", size) + bytes(20))
    with pytest.raises(ProtocolViolation, match="a frame of"):
        session.next_request()


@pytest.mark.parametrize(
    "reply",
    [answer(2, b""), pack(">ii", 3, 1), pack(">ii", -1, 1), b"HTTP/1.1 400 Bad"],
    ids=["another number", "too short", "negative", "another protocol"],
)
def test_an_answer_to_nothing_that_was_asked_closes_the_connection(reply: bytes) -> None:
    session = opened()
    session.receive_data(raw(FETCH, 12, 1, b""))
    requests_of(session)
    with pytest.raises(ProtocolViolation, match="the broker"):
        session.receive_upstream(reply)


def test_an_answer_nobody_asked_for_closes_the_connection() -> None:
    with pytest.raises(ProtocolViolation, match="without a request"):
        opened().receive_upstream(answer(1, b""))


def test_an_answer_to_be_rewritten_that_is_longer_than_a_frame_may_be_is_not_gathered() -> None:
    session = opened()
    session.receive_data(encode_request(Metadata(), 9, 1, "c"))
    requests_of(session)
    with pytest.raises(ProtocolViolation, match="length"):
        session.receive_upstream(pack(">ii", FRAME_BYTES + 1, 1))


@pytest.mark.parametrize("cut", range(1, 30))
def test_metadata_that_is_garbage_closes_the_connection(cut: int) -> None:
    session = opened()
    session.receive_data(encode_request(Metadata(), 9, 1, "c"))
    requests_of(session)
    whole = told(METADATA, 9, 1, TOPOLOGY)[8:]
    with pytest.raises(ProtocolViolation):
        session.receive_upstream(answer(1, whole[:-cut]))


def test_a_broker_that_goes_is_missed_only_by_who_waits_for_it() -> None:
    session = opened()
    session.receive_data(raw(FETCH, 12, 1, b""))
    requests_of(session)
    session.receive_upstream(answer(1, b""))
    session.upstream_lost("idle")
    session.receive_data(raw(FETCH, 12, 2, b""))
    requests_of(session)
    with pytest.raises(ProtocolViolation, match="idle"):
        session.upstream_lost("idle")


def test_a_broker_that_goes_in_the_middle_of_a_request_is_missed_though_it_has_answered() -> None:
    session = opened()
    session.receive_data(raw(FETCH, 12, 1, b"request")[:-1])
    requests_of(session)
    session.receive_upstream(answer(1, b"too early"))
    with pytest.raises(ProtocolViolation, match="reset"):
        session.upstream_lost("reset")


def test_a_broker_that_goes_after_a_produce_nobody_answers_is_missed() -> None:
    session = opened()
    session.receive_data(produce(1, 0))
    requests_of(session)
    with pytest.raises(ProtocolViolation, match="reset"):
        session.upstream_lost("reset")


# --------------------------------------------------------------------------------------------------------------- bounds


def test_what_piles_up_behind_an_answer_that_is_not_there_is_not_read_any_further() -> None:
    session = opened()
    session.receive_data(raw(FETCH, 12, 1, b"") + encode_request(BEAT, 4, 2, "c"))
    requests_of(session)
    assert [session.is_behind] == [False]
    session.receive_data(raw(LIST_OFFSETS, 5, 3, bytes(MAX_WAITING_BYTES)))
    requests_of(session)
    assert [session.is_behind] == [True]
    session.receive_upstream(answer(1, b""))
    assert requests_of(session) == [(2, BEAT)]
    assert [session.is_behind] == [True]
    session.encode_reply(2, HeartbeatReply())
    assert requests_of(session) == []
    assert not session.is_behind
    assert session.buffered_bytes == 0


def test_no_more_requests_are_handed_on_than_a_broker_may_owe_answers() -> None:
    session = opened()
    for number in range(MAX_IN_FLIGHT + 5):
        session.receive_data(raw(FETCH, 12, number, b""))
    requests_of(session)
    assert len(frames_in(forwarded(session))) - 1 == MAX_IN_FLIGHT
    session.receive_upstream(answer(0, b""))
    requests_of(session)
    (frame, _) = frames_in(forwarded(session))
    assert number_of(frame) == MAX_IN_FLIGHT


def test_a_request_of_ours_that_comes_byte_by_byte_is_one_request() -> None:
    session = opened()
    for byte in encode_request(FindCoordinator(("g" * 50,), 0), 4, 1, "c"):
        assert requests_of(session) == []
        session.receive_data(bytes((byte,)))
    assert requests_of(session) == [(1, FindCoordinator(("g" * 50,), 0))]
