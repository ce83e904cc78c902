"""One group of members over both dialects and four libraries: everything is read once."""

import time
from collections import Counter

import pytest

from tests.edges.kafka.client import Committed, Got, Membership
from tests.edges.kafka.conftest import ClientFactory
from tests.edges.kafka.libraries import CONFLUENT, KAFKA_PYTHON, LIBRARIES
from tests.edges.kafka.members import Member
from tests.edges.kafka.test_groups import WITHIN_S, shared
from tests.edges.kafka.with_muster import MUSTER
from tests.edges.musterd import within

PARTITIONS = 8


@pytest.fixture
def members(factory: ClientFactory, name: str) -> list[Member]:
    """One of each library, in one group that rests."""
    factory.create_topic(KAFKA_PYTHON, name, PARTITIONS)
    membership = Membership(name, "range")
    members = [factory.member(library, membership, name) for library in LIBRARIES]
    if factory.server.native is not None:
        members.append(factory.member(MUSTER, membership, name))
    assert within(WITHIN_S, shared(name, members, PARTITIONS)), [(each.assignment, each.failed) for each in members]
    return members


def produce(factory: ClientFactory, topic: str, numbers: range) -> None:
    producer = factory.producer(CONFLUENT)
    for number in numbers:
        producer.send(topic, b"%d" % number, key=b"%d" % number)
    producer.flush()


def values(got: list[Got]) -> Counter[int]:
    return Counter(int(each.value or b"") for each in got)


def read_by_all(members: list[Member]) -> Counter[int]:
    return sum((values(list(each.got)) for each in members), Counter())


def test_what_each_reads_adds_up_to_everything_exactly_once(
    factory: ClientFactory, name: str, members: list[Member]
) -> None:
    produce(factory, name, range(2_000))
    assert within(WITHIN_S, lambda: len(read_by_all(members)) == 2_000)
    assert set(read_by_all(members).values()) == {1}
    assert all(each.got for each in members)


def test_when_one_leaves_the_others_go_on_where_it_committed(
    factory: ClientFactory, name: str, members: list[Member]
) -> None:
    produce(factory, name, range(1_000))
    assert within(WITHIN_S, lambda: len(read_by_all(members)) == 1_000)
    for member in members:
        member.do(lambda consumer: consumer.commit())
    for leaver in members[:-1]:
        leaver.close()
    rest = members[-1:]
    assert within(WITHIN_S, shared(name, rest, PARTITIONS))
    produce(factory, name, range(1_000, 2_000))
    assert within(WITHIN_S, lambda: len(read_by_all(members)) == 2_000)
    assert set(read_by_all(members).values()) == {1}


def test_what_any_member_commits_any_other_sees(factory: ClientFactory, name: str, members: list[Member]) -> None:
    kept = {min(member.assignment): Committed(number) for number, member in enumerate(members)}
    for member, part in zip(members, kept, strict=True):
        member.do(lambda consumer, part=part: consumer.commit({part: kept[part]}))  # type: ignore[misc]
    for member in members:
        found = member.do(lambda consumer: {part: consumer.committed(part) for part in kept})
        assert found == kept


def test_a_group_of_all_libraries_rests_while_nobody_comes_or_goes(
    factory: ClientFactory, name: str, members: list[Member]
) -> None:
    before = [len(each.assignments) for each in members]
    time.sleep(2.0)
    assert [len(each.assignments) for each in members] == before
    assert [each.failed for each in members] == [None] * len(members)


def test_two_libraries_rebalance_cooperatively_in_one_group(factory: ClientFactory, name: str) -> None:
    factory.create_topic(KAFKA_PYTHON, name, PARTITIONS)
    membership = Membership(name, "cooperative-sticky")
    members = [factory.member(CONFLUENT, membership, name)]
    assert within(WITHIN_S, shared(name, members, PARTITIONS))
    for library in (KAFKA_PYTHON, CONFLUENT, KAFKA_PYTHON):
        members.append(factory.member(library, membership, name))
        assert within(WITHIN_S, shared(name, members, PARTITIONS))
    # All partitions may be owned between the two rebalances of a cooperative one, and not yet evenly.
    assert within(WITHIN_S, lambda: [len(each.assignment) for each in members] == [2, 2, 2, 2])
    # Nobody gave up everything to be given some of it again.
    assert all(frozenset() not in each.assignments[1:] for each in members)
