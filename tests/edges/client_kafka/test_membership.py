"""Membership of groups over Kafka's protocol: joining, fencing, refusals, expiry, and the partitions that move."""

from collections import Counter
from functools import partial

import pytest

from muster import CommitRefused, Consumer, Fenced, GroupRefused, Producer, TopicPartition
from protocol.errors import ErrorCode
from tests.edges.client_kafka.conftest import ConsumerFactory, Where, make_topic, poll_until

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


def produce(where: Where, topic: str, count: int) -> None:
    with Producer(where.kafka) as producer:
        for number in range(count):
            producer.send(topic, str(number), partition=number % 4)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_that_come_and_go_read_every_record_once(
    where: Where, factory: ConsumerFactory, topic: str, assignor: str
) -> None:
    """With automatic commits: what was read is committed before it is given up."""
    values: Counter[bytes] = Counter()
    members: list[Consumer] = []

    def are_shared(*shares: int) -> bool:
        return tuple(sorted(len(one.assignment) for one in members)) == shares

    for shares in ((4,), (2, 2), (1, 1, 2), (1, 1, 1, 1)):
        members.append(factory.consumer(where.kafka, topic, enable_auto_commit=True, assignors=[assignor]))
        produce(where, topic, 40)
        values.update(poll_until(partial(are_shared, *shares), *members))
    while len(members) > 1:
        members.pop(0).close()
        values.update(poll_until(lambda: sum(len(one.assignment) for one in members) == 4, *members))
    while values.total() < 160:
        values.update(poll_until(lambda: True, *members))
    assert values == Counter({b"%d" % number: 4 for number in range(40)})


def test_in_a_cooperative_group_listeners_hear_of_what_moves_alone(
    where: Where, factory: ConsumerFactory, topic: str
) -> None:
    told: list[tuple[str, int]] = []
    first = factory.consumer(where.kafka, topic, assignors=["cooperative-sticky"])
    first.subscribe(
        [topic],
        on_assigned=lambda new: told.append(("+", len(new))),
        on_revoked=lambda gone: told.append(("-", len(gone))),
    )
    poll_until(lambda: len(first.assignment) == 4, first)
    second = factory.consumer(where.kafka, topic, assignors=["cooperative-sticky"])
    poll_until(lambda: len(second.assignment) == 2, first, second)
    second.close()
    poll_until(lambda: len(first.assignment) == 4, first)
    assert [one for one in told if one[1]] == [("+", 4), ("-", 2), ("+", 2)]


def test_a_second_member_of_the_same_instance_fences_the_first(
    where: Where, factory: ConsumerFactory, topic: str
) -> None:
    first = factory.consumer(where.kafka, topic, group_instance_id="one")
    poll_until(lambda: len(first.assignment) == 4, first)
    second = factory.consumer(where.kafka, topic, group_instance_id="one")
    poll_until(lambda: len(second.assignment) == 4, second)
    with pytest.raises(Fenced, match="instance id 'one'"):
        poll_until(lambda: False, first)
    assert second.commit({TopicPartition(topic, 0): 0}) == {TopicPartition(topic, 0): 0}


def test_a_member_of_another_kind_is_not_admitted(where: Where, factory: ConsumerFactory, topic: str) -> None:
    first = factory.consumer(where.kafka, topic, assignors=["range"])
    poll_until(lambda: len(first.assignment) == 4, first)
    other = factory.consumer(where.kafka, topic, assignors=["roundrobin"])
    with pytest.raises(GroupRefused) as refused:
        poll_until(lambda: False, other)
    assert refused.value.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    first.poll(0.1)
    assert len(first.assignment) == 4


def test_a_session_longer_than_the_server_allows_is_refused(where: Where, factory: ConsumerFactory, topic: str) -> None:
    eternal = factory.consumer(where.kafka, topic, session_timeout_ms=100_000_000)
    with pytest.raises(GroupRefused) as refused:
        poll_until(lambda: False, eternal)
    assert refused.value.error_code is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_member_nobody_polls_leaves_and_what_it_read_is_read_by_others(
    where: Where, factory: ConsumerFactory, topic: str
) -> None:
    produce(where, topic, 40)
    idle = factory.consumer(where.kafka, topic, max_poll_interval_ms=1_500)
    values = poll_until(lambda: len(idle.assignment) == 4, idle)
    while len(values) < 40:
        values += poll_until(lambda: True, idle)
    busy = factory.consumer(where.kafka, topic)
    again: list[bytes] = []
    while len(again) < 40:
        again += poll_until(lambda: True, busy)
    assert len(busy.assignment) == 4
    with pytest.raises(CommitRefused):
        idle.commit()
    poll_until(lambda: len(idle.assignment) == len(busy.assignment) == 2, idle, busy)


def test_members_of_two_topics_get_those_they_subscribe_to(
    where: Where, factory: ConsumerFactory, topic: str, name: str
) -> None:
    """One of them changes its mind."""
    other = f"{name}-other"
    make_topic(where, other, 2)
    one, two = factory.consumer(where.kafka, topic), factory.consumer(where.kafka, topic)
    poll_until(lambda: len(one.assignment) == len(two.assignment) == 2, one, two)
    two.subscribe([other])
    poll_until(lambda: len(one.assignment) == 4 and {at.topic for at in two.assignment} == {other}, one, two)
    assert {at.topic for at in one.assignment} == {topic}
    assert len(two.assignment) == 2
