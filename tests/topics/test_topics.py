"""The protocol `Topics`: both implementations tell groups the same of a cluster with the same topics."""

from collections.abc import Callable

import pytest

from coordinator.clock import Moment
from coordinator.gateway.brokers import Brokers
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.deleted_topics import DeletedTopics
from coordinator.topics.embedded import EmbeddedTopics
from coordinator.topics.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic
from tests.topics.topic_rig import TopicRig

NOW = Moment(0, 0)
NOBODYS = b"9" * 16


def embedded() -> EmbeddedTopics:
    rig = TopicRig()
    rig.made("flights", 2)
    rig.made("aircraft", 3)
    return rig.topics


def of_cluster() -> UpstreamTopics:
    brokers = Brokers(1 << 20, 1_000)
    brokers.found((), 0)
    topics = UpstreamTopics(brokers, DeletedTopics(60_000, 0))
    topics.learn_all(MetadataReply(cluster_id="c", topics=embedded().metadata(Metadata(None), NOW)), 0)
    return topics


@pytest.mark.parametrize("make", [embedded, of_cluster])
def test_groups_are_told_of_topics_by_name_and_by_id(make: Callable[[], Topics]) -> None:
    topics = make()
    assert topics.topic_count == 2
    assert [topics.partition_count(name) for name in ("aircraft", "flights", "ghosts", "")] == [3, 2, None, None]
    ids = [topics.id_of(name) for name in ("aircraft", "flights")]
    assert [topics.name_of(topic_id or b"") for topic_id in ids] == ["aircraft", "flights"]
    assert topics.id_of("ghosts") is None
    assert topics.name_of(NOBODYS) is None


@pytest.mark.parametrize("make", [embedded, of_cluster])
def test_metadata_describes_all_in_order_or_those_that_are_named(make: Callable[[], Topics]) -> None:
    topics = make()
    everything = topics.metadata(Metadata(None), NOW)
    assert [(one.name, len(one.partitions)) for one in everything] == [("aircraft", 3), ("flights", 2)]
    wanted = (
        MetadataTopic("flights"),
        MetadataTopic(None, everything[0].topic_id),
        MetadataTopic("ghosts"),
        MetadataTopic(None, NOBODYS),
    )
    told = topics.metadata(Metadata(wanted, allow_auto_topic_creation=False), NOW)
    assert told[:2] == (everything[1], everything[0])
    assert [one.error_code for one in told[2:]] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


def test_only_what_this_node_has_written_is_waited_for() -> None:
    assert embedded().position > 0
    assert of_cluster().position == 0
