"""Settings in front of a broker: those of groups are ours, all others the broker's."""

import pytest

from protocol.kafka.client import encode_request
from protocol.messages import Message
from protocol.messages.configs import (
    AlterConfigs,
    AlterConfigsResource,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    DescribedConfigs,
    IncrementalAlterConfigs,
    ReplaceConfigsResource,
)
from tests.upstream.session.frames import (
    BEAT,
    FETCH,
    answer,
    forwarded,
    opened,
    raw,
    requests_of,
)

TOPIC, BROKER, GROUP = 2, 4, 32
VERSIONS = [*((32, version) for version in range(1, 5)), *((33, version) for version in range(3)), (44, 0), (44, 1)]


def about(key: int, *kinds: int) -> Message:
    if key == 32:
        return DescribeConfigs(tuple(DescribeConfigsResource(kind, "x") for kind in kinds))
    if key == 33:
        return AlterConfigs(tuple(ReplaceConfigsResource(kind, "x", ()) for kind in kinds))
    return IncrementalAlterConfigs(tuple(AlterConfigsResource(kind, "x", ()) for kind in kinds))


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_settings_of_groups_alone_are_ours(key: int, version: int) -> None:
    session = opened()
    message = about(key, GROUP, GROUP)
    session.receive_data(encode_request(message, version, 5, "c"))
    assert requests_of(session) == [(5, message)]
    assert forwarded(session) == b""


@pytest.mark.parametrize("kinds", [(TOPIC,), (BROKER, BROKER), (GROUP, TOPIC), (16,), ()], ids=str)
@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_all_others_are_the_brokers_as_they_are_and_so_are_the_answers(
    key: int, version: int, kinds: tuple[int, ...]
) -> None:
    session = opened()
    data = encode_request(about(key, *kinds), version, 5, "c")
    session.receive_data(data)
    assert requests_of(session) == []
    assert forwarded(session) == data
    said = answer(5, b"whatever it says")
    assert b"".join(session.receive_upstream(said)) == said


def test_what_cannot_be_read_here_the_broker_may_read() -> None:
    session = opened()
    data = raw(32, 1, 5, b"\x7f\xff\xff\xff garbage")
    session.receive_data(data)
    assert requests_of(session) == []
    assert forwarded(session) == data


def test_they_wait_for_their_turn() -> None:
    session = opened()
    session.receive_data(raw(FETCH, 11, 1, b"") + encode_request(about(32, GROUP), 4, 2, "c"))
    assert requests_of(session) == []
    session.receive_upstream(answer(1, b"records"))
    assert requests_of(session) == [(2, about(32, GROUP))]
    session.receive_data(encode_request(about(32, TOPIC), 4, 3, "c") + encode_request(BEAT, 4, 4, "c"))
    forwarded(session)
    assert requests_of(session) == []
    told = DescribeConfigsReply((DescribedConfigs(GROUP, "x"),))
    session.encode_reply(2, told)
    assert requests_of(session) == []
    assert forwarded(session) == encode_request(about(32, TOPIC), 4, 3, "c")
    session.receive_upstream(answer(3, b"settings"))
    assert requests_of(session) == [(4, BEAT)]
