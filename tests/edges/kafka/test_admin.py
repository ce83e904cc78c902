"""Administration with stock clients: topics, their configs, groups, their offsets."""

import pytest

from tests.edges.kafka.client import Committed, Library, Membership
from tests.edges.kafka.conftest import ClientFactory
from tests.edges.kafka.libraries import CONFLUENT, KAFKA_PYTHON, LIBRARIES
from tests.edges.musterd import within

WITHIN_S = 60.0


def offering(capability: str) -> list[object]:
    """The libraries that have it."""
    return [pytest.param(each, id=each.name) for each in LIBRARIES if capability not in each.lacks]


def commit(factory: ClientFactory, group: str, topic: str, offset: int) -> None:
    consumer = factory.consumer(CONFLUENT, Membership(group))
    consumer.assign([(topic, 0)])
    consumer.commit({(topic, 0): Committed(offset)})
    consumer.close()


def test_a_topic_is_created_seen_by_all_grown_and_deleted(library: Library, factory: ClientFactory, name: str) -> None:
    admin = factory.create_topic(library, name, 2)
    for other in LIBRARIES:
        assert factory.admin(other).partitions(name) == 2
    admin.add_partitions(name, 5)
    assert within(WITHIN_S, lambda: admin.partitions(name) == 5)
    assert name in admin.topics()
    admin.delete_topic(name)
    assert within(WITHIN_S, lambda: name not in admin.topics())


def test_a_topic_that_exists_is_not_created_again(library: Library, factory: ClientFactory, name: str) -> None:
    admin = factory.create_topic(library, name, 1)
    with pytest.raises(Exception, match=r"(?i)exists"):
        admin.create_topic(name, 1)
    assert admin.partitions(name) == 1


def test_a_topic_has_the_settings_it_was_created_with(library: Library, factory: ClientFactory, name: str) -> None:
    admin = factory.create_topic(library, name, 1, {"retention.ms": "3600000", "cleanup.policy": "compact"})
    settings = admin.settings(name)
    assert (settings["retention.ms"], settings["cleanup.policy"]) == ("3600000", "compact")
    assert "segment.bytes" in settings


@pytest.mark.parametrize("library", offering("change"))
def test_a_setting_is_changed_and_the_others_stay(library: Library, factory: ClientFactory, name: str) -> None:
    admin = factory.create_topic(library, name, 1, {"retention.ms": "3600000"})
    admin.change(name, "retention.bytes", "1048576")
    assert within(WITHIN_S, lambda: admin.settings(name)["retention.bytes"] == "1048576")
    assert admin.settings(name)["retention.ms"] == "3600000"


@pytest.mark.parametrize("library", offering("change"))
def test_a_value_no_topic_may_have_is_refused(library: Library, factory: ClientFactory, name: str) -> None:
    admin = factory.create_topic(library, name, 1)
    with pytest.raises(library.refusals):
        admin.change(name, "retention.ms", "soon")


def test_a_group_is_listed_and_described_with_and_without_members(
    library: Library, factory: ClientFactory, name: str
) -> None:
    admin = factory.create_topic(library, name, 1)
    member = factory.member(library, Membership(name), name)
    assert within(WITHIN_S, lambda: len(member.assignment) == 1)
    assert name in admin.groups()
    assert admin.group(name) == ("Stable", "consumer", 1)
    member.do(lambda consumer: consumer.commit({(name, 0): Committed(0)}))
    member.close()
    assert within(WITHIN_S, lambda: admin.group(name) == ("Empty", "consumer", 0))


@pytest.mark.parametrize("library", offering("delete_group"))
def test_a_group_is_deleted_once_it_is_empty(library: Library, factory: ClientFactory, name: str) -> None:
    admin = factory.create_topic(library, name, 1)
    member = factory.member(CONFLUENT, Membership(name), name)
    assert within(WITHIN_S, lambda: len(member.assignment) == 1)
    with pytest.raises(Exception, match=r"(?i)non_?-?empty|not empty"):
        admin.delete_group(name)
    member.do(lambda consumer: consumer.commit({(name, 0): Committed(0)}))
    member.close()
    assert within(WITHIN_S, lambda: admin.group(name).members == 0)
    admin.delete_group(name)
    assert name not in admin.groups()


def test_the_offsets_of_a_group_are_listed(library: Library, factory: ClientFactory, name: str) -> None:
    admin = factory.create_topic(library, name, 2)
    commit(factory, name, name, 42)
    assert admin.offsets(name) == {(name, 0): 42}


@pytest.mark.parametrize("library", offering("alter_offsets"))
def test_the_offsets_of_an_empty_group_are_altered(library: Library, factory: ClientFactory, name: str) -> None:
    admin = factory.create_topic(library, name, 2)
    commit(factory, name, name, 42)
    admin.alter_offsets(name, {(name, 0): 3, (name, 1): 4})
    assert admin.offsets(name) == {(name, 0): 3, (name, 1): 4}


@pytest.mark.parametrize("library", offering("delete_offsets"))
def test_the_offsets_of_one_partition_are_deleted(library: Library, factory: ClientFactory, name: str) -> None:
    admin = factory.create_topic(library, name, 2)
    factory.admin(KAFKA_PYTHON).alter_offsets(name, {(name, 0): 3, (name, 1): 4})
    admin.delete_offsets(name, [(name, 0)])
    assert admin.offsets(name) == {(name, 1): 4}


def test_every_library_sees_the_same_cluster(factory: ClientFactory) -> None:
    seen = {factory.admin(library).cluster() for library in LIBRARIES}
    assert len(seen) == 1
    ((cluster_id, nodes),) = seen
    assert cluster_id and nodes == 1
