"""A client by itself, over Kafka's protocol: reading and writing."""

import pytest

from muster import CannotConnect, Consumer, GroupMember, Producer, RangeReader, Refused, TopicPartition
from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply, ListNotes
from protocol.messages.node import ApiVersions, ApiVersionsReply
from tests.edges.client_kafka.conftest import ConsumerFactory, Where, poll_until
from tests.edges.musterd import free_port, within


def numbers(*of: int) -> list[bytes]:
    return [b"%d" % number for number in range(*of)]


def produce(where: Where, topic: str, *of: int, partition: int | None = None) -> None:
    with Producer(where.kafka) as producer:
        for value in numbers(*of):
            producer.send(topic, value, key=value, partition=partition)


def test_records_written_are_read_from_where_the_group_stands(
    where: Where, factory: ConsumerFactory, topic: str
) -> None:
    produce(where, topic, 500)
    first = factory.consumer(where.kafka, topic)
    values: list[bytes] = []
    while len(values) < 500:
        values += poll_until(lambda: True, first)
    assert sorted(values) == sorted(numbers(500))
    assert sum(first.commit().values()) == 500
    first.close()
    produce(where, topic, 500, 510)
    second = factory.consumer(where.kafka, topic)
    values = []
    while len(values) < 10:
        values += poll_until(lambda: True, second)
    assert sorted(values) == numbers(500, 510)
    assert sum(offset or 0 for offset in second.committed(second.assignment).values()) == 500


def test_ranges_ends_and_beginnings_are_read_without_a_group(where: Where, topic: str) -> None:
    produce(where, topic, 100, partition=2)
    two = TopicPartition(topic, 2)
    cluster = ClusterClient(where.kafka)
    assert cluster.offsets([two, TopicPartition(topic, 0)], -1) == {two: 100, TopicPartition(topic, 0): 0}
    assert cluster.offsets([two], -2) == {two: 0}
    assert cluster.leader(two).port > 0
    cluster.close()
    with RangeReader(where.kafka, topic, 2, 40, 60) as reader:
        assert [record.value for record in reader.records()] == numbers(40, 60)


def test_a_dialect_by_name_is_the_same_as_one_in_the_bootstrap(where: Where, topic: str) -> None:
    plain = where.kafka.removeprefix("kafka://")
    with Producer(plain, dialect="kafka") as producer:
        producer.send(topic, b"x", partition=0)
    with RangeReader(plain, topic, 0, 0, 1, dialect="kafka") as reader:
        assert [record.value for record in reader.records()] == [b"x"]
    with GroupMember(plain, topic, [topic], dialect="kafka") as member:
        assert member.poll(20)
        assert len(member.assignment) == 4
    with Consumer(plain, topic, dialect="kafka", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert within(20, lambda: [record.value for record in consumer.poll(0.1)] == [b"x"])


def test_what_wants_no_answer_is_written_without_waiting(where: Where, topic: str) -> None:
    with Producer(where.kafka, acks=0) as producer:
        producer.send(topic, b"quiet", partition=1)
    with RangeReader(where.kafka, topic, 1, 0, 1) as reader:
        assert [record.value for record in reader.records()] == [b"quiet"]


def test_what_kafkas_protocol_does_not_have_is_refused_with_a_sentence(where: Where) -> None:
    with ClusterClient(where.kafka) as connection:
        with pytest.raises(Refused, match="Kafka's protocol has no ListNotes") as raised:
            connection.ask(ListNotes("g"))
        assert raised.value.error_code is ErrorCode.UNSUPPORTED_VERSION
        assert isinstance(connection.ask(ApiVersions("test", "1")), ApiVersionsReply)


def test_who_leaves_is_gone_at_once(where: Where, topic: str) -> None:
    with GroupMember(where.kafka, topic, [topic]) as member:
        assert member.poll(20)
        with ClusterClient(where.kafka) as connection:
            assert len(members_of(connection, topic)) == 1
    with ClusterClient(where.kafka) as connection:
        assert members_of(connection, topic) == []


def members_of(connection: ClusterClient, group: str) -> list[str]:
    reply = connection.ask(DescribeGroups((group,)))
    assert isinstance(reply, DescribeGroupsReply)
    return [member.member_id for member in reply.groups[0].members]


def test_nobody_there_is_said_in_the_words_of_the_dialect() -> None:
    nobody, sentence = f"kafka://127.0.0.1:{free_port()}", "refused. Is a broker of Apache Kafka, or musterd with its"
    with ClusterClient(nobody) as connection, pytest.raises(CannotConnect, match=sentence):
        connection.ask(ApiVersions("test", "1"))


def test_the_wrong_dialect_is_found_out(where: Where) -> None:
    plain = where.kafka.removeprefix("kafka://")
    with ClusterClient(plain) as connection, pytest.raises(CannotConnect, match="cannot connect"):
        connection.ask(DescribeGroups(("g",)), timeout_s=10)
    if where.native is not None:
        with (
            ClusterClient(f"kafka://{where.native}") as connection,
            pytest.raises(CannotConnect, match="cannot connect"),
        ):
            connection.ask(DescribeGroups(("g",)), timeout_s=10)
