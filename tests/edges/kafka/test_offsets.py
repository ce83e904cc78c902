"""Commits of stock clients, and the offsets at which they go on."""

import pytest

from tests.edges.kafka.client import Committed, Library, Membership
from tests.edges.kafka.conftest import ClientFactory
from tests.edges.kafka.libraries import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, LIBRARIES
from tests.edges.kafka.test_records import read
from tests.edges.musterd import within

RECORDS = 20


@pytest.fixture
def part(factory: ClientFactory, name: str) -> tuple[str, int]:
    """The one partition of a topic of twenty records."""
    factory.create_topic(KAFKA_PYTHON, name, 1)
    producer = factory.producer(CONFLUENT)
    for number in range(RECORDS):
        producer.send(name, b"%d" % number, partition=0)
    producer.flush()
    return name, 0


def test_a_consumer_goes_on_where_its_group_committed(
    library: Library, factory: ClientFactory, part: tuple[str, int]
) -> None:
    topic, _ = part
    first = factory.member(library, Membership(topic), topic)
    assert within(20.0, lambda: len(first.got) == RECORDS)
    first.do(lambda consumer: consumer.commit({part: Committed(12)}))
    first.close()
    second = factory.member(library, Membership(topic), topic)
    assert within(20.0, lambda: len(second.got) == RECORDS - 12)
    assert [each.offset for each in second.got] == list(range(12, RECORDS))
    second.do(lambda consumer: consumer.commit())
    assert second.do(lambda consumer: consumer.committed(part)) == Committed(RECORDS)


def test_a_commit_nobody_waited_for_is_there_soon(
    library: Library, factory: ClientFactory, part: tuple[str, int]
) -> None:
    topic, _ = part
    member = factory.member(library, Membership(topic), topic)
    assert within(20.0, lambda: len(member.got) == RECORDS)
    member.do(lambda consumer: consumer.commit_later())
    assert within(20.0, lambda: member.do(lambda consumer: consumer.committed(part)) == Committed(RECORDS))


def test_what_stands_beside_an_offset_is_read_back_by_every_library(
    library: Library, factory: ClientFactory, part: tuple[str, int]
) -> None:
    topic, _ = part
    kept = Committed(7, "checked by Zoë, twice")
    committer = factory.consumer(library, Membership(topic))
    committer.assign([part])
    committer.poll(0.1)
    committer.commit({part: kept})
    committer.close()
    for other in LIBRARIES:
        reader = factory.consumer(other, Membership(topic))
        reader.assign([part])
        found = reader.committed(part)
        # confluent-kafka sends the NUL at the end of its text too.
        assert found is not None and found._replace(metadata=found.metadata.rstrip("\0")) == kept
        reader.close()


def test_a_group_that_never_committed_has_no_offset(
    library: Library, factory: ClientFactory, part: tuple[str, int]
) -> None:
    consumer = factory.consumer(library, Membership(part[0]))
    consumer.assign([part])
    assert consumer.committed(part) is None
    consumer.close()


def test_records_behind_a_commit_are_not_read_again_by_a_consumer_without_members_beside_it(
    library: Library, factory: ClientFactory, part: tuple[str, int]
) -> None:
    """Assigned by hand, committed by name: no membership is needed for either."""
    first = factory.consumer(library, Membership(part[0]))
    first.assign([part])
    assert len(read(first, RECORDS)) == RECORDS
    first.commit({part: Committed(15)})
    first.close()
    second = factory.consumer(AIOKAFKA, Membership(part[0]))
    second.assign([part])
    assert [each.offset for each in read(second, 5)] == [15, 16, 17, 18, 19]
    second.close()
