"""Groups of stock clients: who owns what, through joins, leaves, crashes, restarts."""

import time
from collections.abc import Callable, Iterable

import pytest

from tests.edges.kafka.client import Committed, Library, Membership, Part
from tests.edges.kafka.conftest import ClientFactory
from tests.edges.kafka.libraries import CONFLUENT, LIBRARIES
from tests.edges.kafka.members import Member, MemberProcess
from tests.edges.musterd import within

PARTITIONS = 6
ASSIGNED = [
    pytest.param(library, assignor, id=f"{library.name}-{assignor}")
    for library in LIBRARIES
    for assignor in library.assignors
]
WITHIN_S = 60.0


def shared(topic: str, members: Iterable[Member | MemberProcess], partitions: int = PARTITIONS) -> Callable[[], bool]:
    """Return a check that each member has partitions, and that all are owned exactly once."""
    owned = tuple(members)

    def holds() -> bool:
        all_parts = [part for member in owned for part in member.assignment]
        return all(member.assignment for member in owned) and sorted(all_parts) == [
            (topic, number) for number in range(partitions)
        ]

    return holds


def owned_by(member: Member) -> frozenset[Part]:
    """Between two polls, as the client itself says."""
    return member.do(lambda consumer: consumer.assignment())


@pytest.mark.parametrize(("library", "assignor"), ASSIGNED)
def test_three_members_share_six_partitions_through_a_join_and_a_leave(
    library: Library, assignor: str, factory: ClientFactory, name: str
) -> None:
    factory.create_topic(library, name, PARTITIONS)
    membership = Membership(name, assignor)
    first, second = (factory.member(library, membership, name) for _ in range(2))
    assert within(WITHIN_S, shared(name, (first, second)))
    third = factory.member(library, membership, name)
    assert within(WITHIN_S, shared(name, (first, second, third)))
    # a cooperative group may need one more rebalance before the shares are even
    assert within(WITHIN_S, lambda: [len(owned_by(member)) for member in (first, second, third)] == [2, 2, 2])
    second.close()
    assert within(WITHIN_S, shared(name, (first, third)))
    assert [first.failed, second.failed, third.failed] == [None, None, None]


@pytest.mark.parametrize("library", [pytest.param(each, id=each.name) for each in LIBRARIES
                                     if "cooperative-sticky" in each.assignors])  # fmt: skip
def test_a_cooperative_member_keeps_what_it_may_keep_while_another_joins(
    library: Library, factory: ClientFactory, name: str
) -> None:
    factory.create_topic(library, name, PARTITIONS)
    membership = Membership(name, "cooperative-sticky")
    first = factory.member(library, membership, name)
    assert within(WITHIN_S, shared(name, (first,)))
    second = factory.member(library, membership, name)
    assert within(WITHIN_S, shared(name, (first, second)))
    kept = owned_by(first)
    since_all = first.assignments[next(at for at, each in enumerate(first.assignments) if len(each) == PARTITIONS) :]
    assert all(kept <= each for each in since_all)


def test_the_partitions_of_a_member_that_dies_go_to_the_others_after_its_session(
    library: Library, factory: ClientFactory, name: str
) -> None:
    factory.create_topic(library, name, PARTITIONS)
    membership = Membership(name, session_ms=factory.server.shortest_session_ms)
    survivor = factory.member(library, membership, name)
    victim = factory.process(library, membership, name)
    assert within(WITHIN_S, shared(name, (survivor, victim))), victim.said
    victim.kill()
    died = time.monotonic()
    assert within(WITHIN_S, shared(name, (survivor,)))
    # Its last heartbeat came at most a quarter of a session before it died.
    assert time.monotonic() - died > 0.6 * membership.session_ms / 1_000


def test_a_static_member_that_restarts_is_given_what_it_had_and_nobody_rebalances(
    library: Library, factory: ClientFactory, name: str
) -> None:
    factory.create_topic(library, name, PARTITIONS)
    stays = factory.member(library, Membership(name, instance="stays", session_ms=10_000), name)
    restarts = factory.member(library, Membership(name, instance="restarts", session_ms=10_000), name)
    assert within(WITHIN_S, shared(name, (stays, restarts)))
    had = owned_by(restarts)
    seen = len(stays.assignments)
    restarts.close()
    back = factory.member(library, Membership(name, instance="restarts", session_ms=10_000), name)
    assert within(WITHIN_S, lambda: back.assignment == had)
    assert len(stays.assignments) == seen
    assert factory.admin(library).group(name).members == 2


@pytest.mark.parametrize("library", [pytest.param(each, id=each.name) for each in LIBRARIES
                                     if "fencing" not in each.lacks])  # fmt: skip
def test_of_two_static_members_with_one_name_the_later_one_stays(
    library: Library, factory: ClientFactory, name: str
) -> None:
    factory.create_topic(library, name, PARTITIONS)
    membership = Membership(name, instance="only-one", session_ms=factory.server.shortest_session_ms)
    first = factory.member(library, membership, name)
    assert within(WITHIN_S, shared(name, (first,)))
    second = factory.member(library, membership, name)
    assert within(WITHIN_S, shared(name, (second,)))
    assert within(WITHIN_S, lambda: is_told_that_it_is_fenced(first, (name, 0)))
    assert factory.admin(library).group(name).members == 1
    first.close()


def is_told_that_it_is_fenced(member: Member, part: Part) -> bool:
    """librdkafka fails, kafka-python refuses the next commit."""
    try:
        member.do(lambda consumer: consumer.commit({part: Committed(1)}))
    except Exception as refused:  # noqa: BLE001  (each library has its own)
        return "fenced" in repr(refused).lower()
    return False


def test_a_pattern_takes_in_a_topic_that_is_created_later(library: Library, factory: ClientFactory, name: str) -> None:
    factory.create_topic(library, f"{name}.one", 2)
    member = factory.member(library, Membership(name, metadata_age_ms=500), like=f"{name}[.].*")
    assert within(WITHIN_S, lambda: len(member.assignment) == 2)
    factory.create_topic(library, f"{name}.two", 3)
    assert within(WITHIN_S, lambda: {topic for topic, _ in member.assignment} == {f"{name}.one", f"{name}.two"})
    assert len(owned_by(member)) == 5


def test_partitions_added_to_a_topic_are_shared_out_too(library: Library, factory: ClientFactory, name: str) -> None:
    admin = factory.create_topic(library, name, 2)
    members = [factory.member(library, Membership(name, metadata_age_ms=500), name) for _ in range(2)]
    assert within(WITHIN_S, shared(name, members, 2))
    admin.add_partitions(name, 4)
    assert within(WITHIN_S, shared(name, members, 4))


def test_the_first_members_of_a_group_share_it_within_moments(factory: ClientFactory, name: str) -> None:
    factory.create_topic(CONFLUENT, name, PARTITIONS)
    factory.producer(CONFLUENT).flush()
    began = time.monotonic()
    members = [factory.member(CONFLUENT, Membership(name), name) for _ in range(2)]
    assert within(WITHIN_S, shared(name, members), every_s=0.005)
    assert time.monotonic() - began < 15.0
