"""Native clients beside brokers: told where records are, and handed through what the cluster alone can do."""

from typing import TypeVar

import pytest

from coordinator.gateway.native import FORWARDED_APIS
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import DescribeConfigs, DescribeConfigsReply, DescribeConfigsResource, ResourceType
from protocol.messages.data import Fetch, InitProducerId, OffsetForLeaderEpoch, Produce
from protocol.messages.node import (
    DescribeCluster,
    DescribeClusterReply,
    ErrorReply,
    FindCoordinator,
    FindCoordinatorReply,
)
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    DeleteTopics,
    DeleteTopicsReply,
    GrowingTopic,
    Metadata,
    MetadataBroker,
    MetadataReply,
    MetadataTopic,
)
from tests.upstream.pair import Pair
from tests.upstream.test_node import make_topic, paired

R = TypeVar("R", bound=Message)
NATIVE = 5


def natively() -> Pair:
    pair = paired()
    pair.connect_natively(NATIVE)
    return pair


def ask(pair: Pair, kind: type[R], message: Message) -> R:
    reply = pair.ask_natively(NATIVE, message)
    assert isinstance(reply, kind)
    return reply


def metadata(pair: Pair, *names: str) -> MetadataReply:
    return ask(pair, MetadataReply, Metadata(tuple(MetadataTopic(name) for name in names)))


def test_a_native_client_is_told_of_the_brokers_themselves_whose_ids_leaders_have() -> None:
    pair = natively()
    make_topic(pair)
    reply = metadata(pair, "orders")
    assert reply.brokers == (MetadataBroker(1, "hidden", 11, None, "kafka"),)
    assert {part.leader_id for part in reply.topics[0].partitions} == {1}
    assert reply.cluster_id == "front"


def test_groups_are_found_at_this_node_and_not_at_a_broker() -> None:
    pair = natively()
    found = ask(pair, FindCoordinatorReply, FindCoordinator(("g",))).coordinators[0]
    assert (found.host, found.port) == ("front", 9)
    told = ask(pair, DescribeClusterReply, DescribeCluster())
    assert [(one.host, one.port) for one in told.brokers] == [("front", 9)]


def test_who_asks_from_inside_is_told_of_this_node() -> None:
    pair = natively()
    reply = pair.ask_inside(Metadata(()))
    assert isinstance(reply, MetadataReply)
    assert [(one.host, one.speaks) for one in reply.brokers] == [("front", "")]


def test_what_became_of_a_topic_is_heard_at_once_since_the_cluster_is_asked_each_time() -> None:
    pair = natively()
    assert metadata(pair, "orders").topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    make_topic(pair)
    pair.wait(100)
    assert len(metadata(pair, "orders").topics[0].partitions) == 2
    pair.ask_broker(CreatePartitions((GrowingTopic("orders", 4),)), 3)
    pair.wait(100)
    assert len(metadata(pair, "orders").topics[0].partitions) == 4
    pair.ask_broker(DeleteTopics((DeletableTopic("orders"),)), 5)
    pair.wait(100)
    assert metadata(pair, "orders").topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_many_who_ask_at_once_make_one_question() -> None:
    pair = natively()
    make_topic(pair)
    metadata(pair, "orders")
    before = len(pair.asked)
    for _ in range(10):
        assert len(metadata(pair, "orders").topics[0].partitions) == 2
    assert len(pair.asked) == before
    pair.wait(100)
    metadata(pair, "orders")
    assert len(pair.asked) == before + 1


def test_a_list_of_all_topics_is_a_second_old_at_most() -> None:
    pair = natively()
    assert ask(pair, MetadataReply, Metadata(None)).topics == ()
    make_topic(pair)
    pair.wait(999)
    assert ask(pair, MetadataReply, Metadata(None)).topics == ()
    pair.wait(1)
    assert [topic.name for topic in ask(pair, MetadataReply, Metadata(None)).topics] == ["orders"]
    pair.ask_broker(DeleteTopics((DeletableTopic("orders"),)), 5)
    pair.wait(1_000)
    assert ask(pair, MetadataReply, Metadata(None)).topics == ()


def test_a_native_client_lists_the_topics_as_its_own_request_has_left_them() -> None:
    pair = natively()
    assert ask(pair, MetadataReply, Metadata(None)).topics == ()
    ask(pair, CreateTopicsReply, CreateTopics((CreatableTopic("orders", 2),)))
    assert [len(topic.partitions) for topic in ask(pair, MetadataReply, Metadata(None)).topics] == [2]
    ask(pair, CreatePartitionsReply, CreatePartitions((GrowingTopic("orders", 3),)))
    assert [len(topic.partitions) for topic in ask(pair, MetadataReply, Metadata(None)).topics] == [3]
    assert len(metadata(pair, "orders").topics[0].partitions) == 3
    ask(pair, CreatePartitionsReply, CreatePartitions((GrowingTopic("orders", 4),)))
    assert len(metadata(pair, "orders").topics[0].partitions) == 4
    ask(pair, DeleteTopicsReply, DeleteTopics((DeletableTopic("orders"),)))
    assert ask(pair, MetadataReply, Metadata(None)).topics == ()


def test_while_the_cluster_is_away_what_is_known_is_told_and_nobody_hears_that_a_topic_is_not_there() -> None:
    pair = natively()
    make_topic(pair)
    metadata(pair, "orders")
    pair.away()
    pair.wait(1_000)
    reply = metadata(pair, "orders", "ghosts")
    assert reply.brokers
    assert [(topic.name, len(topic.partitions), topic.error_code) for topic in reply.topics] == [
        ("orders", 2, ErrorCode.NONE),
        ("ghosts", 0, ErrorCode.LEADER_NOT_AVAILABLE),
    ]


def test_topics_are_made_grown_and_deleted_by_the_cluster() -> None:
    pair = natively()
    made = ask(pair, CreateTopicsReply, CreateTopics((CreatableTopic("orders", 2, 1),)))
    assert [one.error_code for one in made.topics] == [ErrorCode.NONE]
    again = ask(pair, CreateTopicsReply, CreateTopics((CreatableTopic("orders", 2, 1),)))
    assert [one.error_code for one in again.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]
    grown = ask(pair, CreatePartitionsReply, CreatePartitions((GrowingTopic("orders", 3),)))
    assert [one.error_code for one in grown.results] == [ErrorCode.NONE]
    assert len(metadata(pair, "orders").topics[0].partitions) == 3
    gone = ask(pair, DeleteTopicsReply, DeleteTopics((DeletableTopic("orders"),)))
    assert [one.error_code for one in gone.responses] == [ErrorCode.NONE]
    pair.wait(100)
    assert metadata(pair, "orders").topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_was_just_made_is_not_said_to_be_missing_whichever_broker_has_not_heard_of_it() -> None:
    pair = natively()
    ask(pair, CreateTopicsReply, CreateTopics((CreatableTopic("checked", 2, 1),), validate_only=True))
    ask(pair, CreateTopicsReply, CreateTopics((CreatableTopic("orders", 2, 1),)))
    pair.ask_broker(DeleteTopics((DeletableTopic("orders"),)), 5)  # stands for a broker that has not heard of it
    codes = {topic.name: topic.error_code for topic in metadata(pair, "orders", "checked").topics}
    assert codes == {"orders": ErrorCode.LEADER_NOT_AVAILABLE, "checked": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    pair.wait(30_000)
    assert metadata(pair, "orders").topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_settings_of_topics_are_the_clusters_and_those_of_groups_are_ours() -> None:
    pair = natively()
    make_topic(pair)
    of_topic = DescribeConfigs((DescribeConfigsResource(ResourceType.TOPIC, "orders", ("retention.ms",)),))
    (told,) = ask(pair, DescribeConfigsReply, of_topic).results
    assert [(told.error_code, one.name) for one in told.configs] == [(ErrorCode.NONE, "retention.ms")]
    before = len(pair.asked)
    (told,) = ask(
        pair, DescribeConfigsReply, DescribeConfigs((DescribeConfigsResource(ResourceType.GROUP, "kitchen"),))
    ).results
    assert told.error_code is ErrorCode.NONE
    assert told.configs
    assert len(pair.asked) == before


@pytest.mark.parametrize("message", [CreateTopics(()), DeleteTopics(()), CreatePartitions(()), DescribeConfigs(())])
def test_what_cannot_be_handed_on_is_refused_and_what_is_not_answered_may_be_done_or_not(message: Message) -> None:
    pair = natively()
    assert type(message) in FORWARDED_APIS
    pair.is_cut = True
    lost = ask(pair, ErrorReply, message)
    assert lost.error_code is ErrorCode.REQUEST_TIMED_OUT
    assert "may be done or not" in lost.error_message
    pair.away()
    refused = ask(pair, ErrorReply, message)
    assert refused.error_code is ErrorCode.BROKER_NOT_AVAILABLE
    assert "cut" in refused.error_message


@pytest.mark.parametrize("message", [Fetch(()), Produce((), -1), InitProducerId(), OffsetForLeaderEpoch(())])
def test_records_are_refused_here_with_a_sentence(message: Message) -> None:
    pair = natively()
    reply = pair.ask_natively(NATIVE, message)
    assert getattr(reply, "error_code", None) is ErrorCode.UNSUPPORTED_VERSION
    assert "ask its brokers" in pair.sentences[-1]
