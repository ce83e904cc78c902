"""Groups are not consumers' alone: any protocol type, and metadata that nobody can read, hurt nobody."""

import os
from collections.abc import Iterator

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from tests.edges.kafka.client import Library, Membership
from tests.edges.kafka.conftest import ClientFactory
from tests.edges.kafka.libraries import AIOKAFKA, CONFLUENT, KAFKA_PYTHON
from tests.edges.kafka.test_groups import PARTITIONS, WITHIN_S, shared
from tests.edges.kafka.wire import REBALANCE_IN_PROGRESS, Wire, WireMember
from tests.edges.musterd import within

INCONSISTENT_GROUP_PROTOCOL = 23
UNREADABLE = {
    "nothing": b"",
    "garbage": b"\xff" * 40,
    "a-huge-count": b"\x00\x00\x7f\xff\xff\xff",
    "two-megabytes": bytes(2 << 20),
}


@pytest.fixture
def wires(factory: ClientFactory) -> Iterator[list[Wire]]:
    """Three connections."""
    wires = [Wire(factory.server.bootstrap) for _ in range(3)]
    yield wires
    for wire in wires:
        wire.close()


@pytest.mark.parametrize("protocol_type", ["connect", "sr", "streams", "of my own"])
def test_members_of_any_protocol_type_are_led_by_one_of_them(
    protocol_type: str, wires: list[Wire], factory: ClientFactory, name: str
) -> None:
    first, second = (
        WireMember(wire, name, protocol_type, {"v1": b"\x00opaque %d" % number, "v0": b"older"})
        for number, wire in enumerate(wires[:2])
    )
    first.join()
    assert first.sync({first.member_id: b"all of it"}) == b"all of it"
    second.ask_to_join()
    assert within(WITHIN_S, lambda: first.heartbeat() == REBALANCE_IN_PROGRESS)
    first.join()
    second.hear_of_the_join()
    leader, other = (first, second) if first.leads else (second, first)
    assert leader.seen == {first.member_id: b"\x00opaque 0", second.member_id: b"\x00opaque 1"}
    assert (other.seen, leader.joined.protocol_name) == ({}, "v1")
    other.ask_to_sync()
    assert leader.sync({leader.member_id: b"\xffhalf", other.member_id: b""}) == b"\xffhalf"
    assert other.hear_of_the_sync() == b""
    assert [first.heartbeat(), second.heartbeat()] == [0, 0]
    assert factory.admin(AIOKAFKA).group(name) == ("Stable", protocol_type, 2)
    second.leave()
    assert within(WITHIN_S, lambda: first.heartbeat() == REBALANCE_IN_PROGRESS)


def test_a_consumer_is_refused_by_a_group_of_another_type_and_its_members_notice_nothing(
    wires: list[Wire], name: str
) -> None:
    worker = WireMember(wires[0], name, "connect", {"sessioned": b"worker"})
    worker.join()
    worker.sync({worker.member_id: b"tasks"})
    consumer = WireMember(wires[1], name, "consumer", {"range": b""})
    with pytest.raises(AssertionError, match=f"error_code={INCONSISTENT_GROUP_PROTOCOL}"):
        consumer.join()
    assert worker.heartbeat() == 0


@pytest.mark.skipif("TEST_KAFKA_BOOTSTRAP" in os.environ, reason="Apache Kafka 4.3 leaves the whole group unanswered")
@pytest.mark.parametrize("metadata", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_consumer_whose_subscription_cannot_be_read_shares_a_group_with_one_like_all_others(
    metadata: bytes, library: Library, wires: list[Wire], factory: ClientFactory, name: str
) -> None:
    """It leads, since it came first; what it hands out is what the other one reads."""
    factory.create_topic(KAFKA_PYTHON, name, PARTITIONS)
    odd = WireMember(wires[0], name, "consumer", {"range": metadata})
    odd.join()
    odd.sync({odd.member_id: b""})
    usual = factory.member(library, Membership(name), name)
    assert within(WITHIN_S, lambda: odd.heartbeat() == REBALANCE_IN_PROGRESS)
    odd.join()
    assert odd.leads and odd.seen[odd.member_id] == metadata
    (other,) = set(odd.seen) - {odd.member_id}
    odd.sync({odd.member_id: b"", other: every_partition_of(name)})
    assert within(WITHIN_S, shared(name, [usual]))

    producer = factory.producer(CONFLUENT)
    producer.send(name, b"still read")
    producer.flush()
    assert within(WITHIN_S, lambda: [each.value for each in usual.got] == [b"still read"])
    usual.do(lambda consumer: consumer.commit())
    assert odd.heartbeat() == 0
    assert factory.admin(AIOKAFKA).group(name).members == 2
    odd.leave()
    assert within(WITHIN_S, shared(name, [usual])) and usual.failed is None


def every_partition_of(topic: str) -> bytes:
    assigned = [(topic, list(range(PARTITIONS)))]
    encoded: bytes = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None).encode(version=0)
    return (0).to_bytes(2, "big") + encoded if not encoded.startswith(b"\x00\x00") else encoded
