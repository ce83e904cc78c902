"""While no broker can be reached: whoever was there goes on, and whoever is new finds the way in."""

import pytest

from coordinator.config.keys import UpstreamOffsets
from coordinator.gateway.events import BrokersFound
from coordinator.gateway.offline import proxied_metadata
from coordinator.node.events import Received
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.node import (
    ApiVersions,
    ApiVersionsReply,
    DescribeCluster,
    DescribeClusterReply,
    DescribedBroker,
    DescribeNode,
    DescribeNodeReply,
    FindCoordinator,
    FindCoordinatorReply,
    FoundCoordinator,
)
from protocol.messages.offsets import (
    ListOffsets,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
)
from protocol.messages.topics import (
    OPERATIONS_NOT_REQUESTED,
    CreatableTopic,
    CreateTopics,
    Metadata,
    MetadataReply,
    MetadataTopic,
    MetadataTopicReply,
)
from tests.upstream.pair import Pair


def known(*more: int) -> Pair:
    """The cluster was there, with a topic, and has just gone."""
    pair = Pair(upstream_offsets=UpstreamOffsets.IGNORE)
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 3, 1),)), 5)
    pair.find(*more)
    pair.wait(1_000)
    pair.connect(1)
    pair.broker_received.clear()
    go_away(pair)
    return pair


def go_away(pair: Pair) -> None:
    pair.is_cut = True
    pair.lose_upstreams("cut")
    pair.away()


def told(pair: Pair, number: int, message: Metadata, version: int = 12) -> MetadataReply:
    pair.send(number, message, version)
    pair.run()
    assert number not in pair.closed, "it is hung up on"
    (reply,) = pair.heard[number]
    pair.heard[number].clear()
    assert isinstance(reply, MetadataReply)
    return reply


def test_a_group_forms_and_goes_on_though_every_broker_is_gone() -> None:
    pair = known()
    versions = pair.ask(1, ApiVersions("c", "1"), 3)
    assert isinstance(versions, ApiVersionsReply)
    assert versions.error_code is ErrorCode.NONE
    (orders,) = told(pair, 1, Metadata((MetadataTopic("orders"),))).topics
    assert [part.leader_id for part in orders.partitions] == [1, 1, 1]
    found = pair.ask(1, FindCoordinator(("g",)), 4)
    assert isinstance(found, FindCoordinatorReply)
    assert found.coordinators == (FoundCoordinator("g", 1, "front", 9101, error_message=""),)
    join = JoinGroup("g", 6_000, rebalance_timeout_ms=6_000, protocol_type="consumer",
                     protocols=(JoinProtocol("range", b"x"),))  # fmt: skip
    joined = pair.ask(1, join, 3)
    assert isinstance(joined, JoinGroupReply)
    member, generation = joined.member_id, joined.generation_id
    assert joined.leader == member
    assert told(pair, 1, Metadata((MetadataTopic("orders"),))).topics == (orders,)
    synced = pair.ask(1, SyncGroup("g", generation, member, assignments=(SyncGroupAssignment(member, b"all"),)), 3)
    assert isinstance(synced, SyncGroupReply)
    assert synced.assignment == b"all"
    assert pair.ask(1, Heartbeat("g", generation, member), 3) == HeartbeatReply()
    part = OffsetCommitPartition(0, 5)
    committed = pair.ask(1, OffsetCommit("g", (OffsetCommitTopic("orders", (part,)),), generation, member), 6)
    assert isinstance(committed, OffsetCommitReply)
    assert committed.topics[0].partitions[0].error_code is ErrorCode.NONE
    assert pair.broker_received == []
    assert pair.closed == {}


def test_brokers_have_the_listeners_addresses_and_the_cluster_its_own_name() -> None:
    pair = Pair()
    pair.find()
    pair.wait(1_000)
    pair.connect(1)
    there = told(pair, 1, Metadata(()))
    go_away(pair)
    pair.connect(2)
    here = told(pair, 2, Metadata(()))
    assert [(one.node_id, one.host, one.port) for one in here.brokers] == [(1, "front", 9101)]
    assert (here.brokers, here.cluster_id, here.controller_id) == (there.brokers, there.cluster_id, 1)
    assert here.cluster_id is not None
    assert proxied_metadata(pair.node.topics, ()) == here


@pytest.mark.parametrize("version", [0, 1, 2])
def test_tools_that_ask_what_the_cluster_is_hear_it_as_its_brokers_told_it(version: int) -> None:
    pair = Pair()
    pair.find(2)
    pair.wait(1_000)
    pair.connect(1)
    there = pair.ask(1, DescribeCluster(), version)
    assert isinstance(there, DescribeClusterReply)
    assert there.cluster_id
    go_away(pair)
    pair.connect(2)
    pair.broker_received.clear()
    here = pair.ask(2, DescribeCluster(), version)
    assert isinstance(here, DescribeClusterReply)
    assert here.brokers == (DescribedBroker(1, "front", 9101), DescribedBroker(2, "front", 9102))
    assert (here.cluster_id, here.error_code, here.cluster_authorized_operations) == (
        there.cluster_id,
        ErrorCode.NONE,
        OPERATIONS_NOT_REQUESTED,
    )
    assert here.controller_id in {1, 2}
    assert pair.broker_received == []


def test_who_had_asked_just_before_is_not_left_waiting() -> None:
    pair = Pair()
    pair.find()
    pair.connect(1)
    pair.connect(2)
    pair.is_silent = True
    pair.send(1, Metadata(()), 12)
    pair.send(2, ListOffsets(()), 7)
    pair.run()
    pair.away()
    assert list(pair.closed) == [1]


def test_nor_is_who_is_still_asking_sent_away() -> None:
    pair = Pair()
    pair.find()
    pair.connect(1)
    pair.ask(1, Metadata(()), 12)
    pair.front.step(Received(1, pair.encode(1, Metadata(()), 12)[:-1]))
    pair.away()
    assert pair.closed == {}


def test_controllers_are_not_to_be_found_in_the_brokers_place_either() -> None:
    pair = known()
    reply = pair.ask(1, DescribeCluster(endpoint_type=2), 1)
    assert isinstance(reply, DescribeClusterReply)
    assert (reply.brokers, reply.error_code) == ((), ErrorCode.MISMATCHED_ENDPOINT_TYPE)


def test_who_asks_natively_what_the_cluster_is_hears_of_this_node_whoever_is_away() -> None:
    pair = known()
    pair.connect_natively(7)
    reply = pair.ask_natively(7, DescribeCluster())
    assert isinstance(reply, DescribeClusterReply)
    assert [(one.host, one.port) for one in reply.brokers] == [("front", 9)]


def test_who_asks_for_all_topics_hears_of_all_that_are_known() -> None:
    pair = known()
    (topic,) = told(pair, 1, Metadata(None)).topics
    assert (topic.name, len(topic.partitions), topic.error_code) == ("orders", 3, ErrorCode.NONE)


def test_nobody_hears_that_a_topic_is_not_there() -> None:
    pair = known()
    (topic,) = told(pair, 1, Metadata((MetadataTopic("unheard"),))).topics
    assert topic == MetadataTopicReply("unheard", error_code=ErrorCode.LEADER_NOT_AVAILABLE)


def test_what_another_client_may_do_with_a_topic_is_not_told() -> None:
    pair = Pair(upstream_offsets=UpstreamOffsets.IGNORE)
    pair.ask_broker(CreateTopics((CreatableTopic("orders", 1, 1),)), 5)
    pair.find()
    pair.connect(1)
    asked = Metadata((MetadataTopic("orders"),), include_topic_authorized_operations=True)
    assert told(pair, 1, asked).topics[0].topic_authorized_operations > 0
    go_away(pair)
    pair.connect(2)
    assert told(pair, 2, asked).topics[0].topic_authorized_operations < 0


def test_metadata_is_the_brokers_as_soon_as_it_is_back_on_connections_from_before_too() -> None:
    pair = known()
    told(pair, 1, Metadata(()))
    assert pair.broker_received == []
    pair.is_cut = False
    pair.find()
    (topic,) = told(pair, 1, Metadata((MetadataTopic("unheard"),))).topics
    assert topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert pair.broker_received != []
    assert pair.closed == {}


def test_a_connection_that_has_outlived_its_brokers_versions_is_answered_in_a_later_outage() -> None:
    pair = known()
    pair.is_cut = False
    pair.versions = ApiVersionsReply(api_keys=pair.versions.api_keys, finalized_features_epoch=9)
    pair.find(2)
    go_away(pair)
    assert [one.node_id for one in told(pair, 1, Metadata(())).brokers] == [1, 2]


def test_a_request_that_only_a_broker_can_answer_still_ends_its_connection_and_no_other() -> None:
    pair = known()
    pair.connect(2)
    pair.send(1, CreateTopics((CreatableTopic("more", 1, 1),)), 5)
    pair.run()
    assert list(pair.closed) == [1]
    told(pair, 2, Metadata(()))


def problem(pair: Pair) -> tuple[int, str]:
    node = pair.ask_inside(DescribeNode())
    assert isinstance(node, DescribeNodeReply)
    return node.gauges["upstream_brokers"], node.upstream_problem


def test_it_is_told_whether_the_cluster_was_ever_reached_and_whether_anybody_can_be_led_there() -> None:
    pair = Pair()
    pair.away()
    assert problem(pair) == (0, "no broker of the cluster was reached yet: cut")
    pair.front.step(BrokersFound(()))
    brokers, why = problem(pair)
    assert brokers == 0
    assert "none of the cluster's brokers has a listener" in why
    pair.find()
    assert problem(pair) == (1, "")
    pair.away()
    assert problem(pair) == (1, "cut")
