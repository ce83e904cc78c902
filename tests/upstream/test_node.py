"""A node beside a broker: groups here, records there, and what each knows of the other's."""

from struct import pack
from typing import Any

from coordinator.config.keys import UpstreamOffsets
from coordinator.gateway.events import BrokersFound, Forwarded, Spliced
from coordinator.gateway.handlers import REJECTED
from coordinator.node.events import Ended, Lost, Received
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchReply,
    FetchTopic,
    Produce,
    ProducePartition,
    ProduceReply,
    ProduceTopic,
)
from protocol.messages.groups import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListGroups,
    ListGroupsReply,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.node import (
    ApiVersions,
    ApiVersionsReply,
    DescribeNode,
    DescribeNodeReply,
    ErrorReply,
    FindCoordinator,
    FindCoordinatorReply,
)
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsReply,
    ListOffsetsTopic,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
)
from protocol.messages.tokens import CreateToken, DeleteToken, ListTokens
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    DeleteTopics,
    GrowingTopic,
    Metadata,
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopic,
    MetadataTopicReply,
)
from protocol.record_batch import encode_batch
from tests.upstream.pair import Pair


def paired(**settings: Any) -> Pair:
    pair = Pair(**{"upstream_offsets": UpstreamOffsets.IGNORE, **settings})
    pair.find()
    pair.connect(1)
    return pair


def make_topic(pair: Pair, name: str = "orders", partitions: int = 2) -> None:
    pair.ask_broker(CreateTopics((CreatableTopic(name, partitions, 1),)), 5)


def commit(name: str = "orders", partition: int = 0, offset: int = 5, topic_id: bytes = bytes(16)) -> OffsetCommit:
    return OffsetCommit("g", (OffsetCommitTopic(name, (OffsetCommitPartition(partition, offset),), topic_id),))


def committed(pair: Pair, message: OffsetCommit, version: int = 8) -> ErrorCode:
    reply = pair.ask(1, message, version)
    assert isinstance(reply, OffsetCommitReply)
    return reply.topics[0].partitions[0].error_code


def batch(text: bytes) -> bytes:
    return encode_batch([(None, text)], timestamp_ms=1)


# ---------------------------------------------------------------------------------------------------------- connections


def test_records_and_topics_are_the_brokers() -> None:
    pair = paired()
    pair.ask(1, CreateTopics((CreatableTopic("orders", 1, 1),)), 5)
    metadata = pair.ask(1, Metadata((MetadataTopic("orders"),)), 9)
    assert isinstance(metadata, MetadataReply)
    assert metadata.cluster_id == "broker"
    assert [(one.node_id, one.host, one.port) for one in metadata.brokers] == [(1, "front", 9101)]
    produced = pair.ask(1, Produce((ProduceTopic("orders", (ProducePartition(0, batch(b"x")),)),), -1), 9)
    assert isinstance(produced, ProduceReply)
    assert produced.responses[0].partition_responses[0].error_code is ErrorCode.NONE
    fetched = pair.ask(1, Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),)), 12)
    assert isinstance(fetched, FetchReply)
    assert b"x" in fetched.responses[0].partitions[0].records


def test_a_long_answer_passes_by_the_node() -> None:
    pair = paired()
    make_topic(pair)
    records = b"".join(batch(b"x" * 50_000) for _ in range(4))
    pair.ask(1, Produce((ProduceTopic("orders", (ProducePartition(0, records),)),), -1), 9)
    fetch = Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),))
    there = pair.ask_broker(fetch, 12)
    pair.send(1, fetch, 12)
    pair.send(1, Heartbeat("g", 1, "m"), 3)
    while pair.to_broker:
        pair._deliver(pair.to_broker.pop(0))
    ((number, data),) = pair.to_front
    pair.to_front.clear()
    pair.arrive(number, data[:20])
    assert pair.splices[1] == len(data) - 20
    pair.send(1, Heartbeat("g", 1, "m"), 3)  # changes nothing
    pair.arrive(number, data[20:-1])
    assert pair.heard[1] == []
    pair.arrive(number, data[-1:])
    assert pair.spliced_bytes == len(data) - 20
    fetched, *beats = pair.heard[1]
    assert fetched == there
    assert [type(beat) for beat in beats] == [HeartbeatReply, HeartbeatReply]


def test_a_group_lives_here_and_the_broker_never_hears_of_it() -> None:
    pair = paired()
    pair.connect(2)
    join = JoinGroup("g", 6_000, rebalance_timeout_ms=6_000, protocol_type="consumer",
                     protocols=(JoinProtocol("range", b"x"),))  # fmt: skip
    joined = pair.ask(1, join, 3)
    assert isinstance(joined, JoinGroupReply)
    member, generation = joined.member_id, joined.generation_id
    synced = pair.ask(1, SyncGroup("g", generation, member, assignments=(SyncGroupAssignment(member, b"all"),)), 3)
    assert isinstance(synced, SyncGroupReply)
    assert synced.assignment == b"all"
    assert pair.ask(2, Heartbeat("g", generation, member), 3) == HeartbeatReply()
    assert b"".join(pair.broker_received) == b""
    assert not pair.broker.node.core.directory


def test_each_groups_coordinator_is_a_broker_at_our_address() -> None:
    pair = paired()
    pair.find(2, 3)
    reply = pair.ask(1, FindCoordinator(("a", "b", "c", "d"), 0), 4)
    assert isinstance(reply, FindCoordinatorReply)
    assert {(one.node_id, one.host, one.port) for one in reply.coordinators} <= {
        (number, "front", 9100 + number) for number in (1, 2, 3)
    }
    assert len({one.node_id for one in reply.coordinators}) > 1


def test_tools_that_ask_every_broker_hear_of_each_group_once() -> None:
    pair = paired()
    pair.find(2)
    make_topic(pair)
    for number in range(9):
        message = OffsetCommit(f"g-{number}", commit().topics)
        assert isinstance(pair.ask(1, message, 8), OffsetCommitReply)
    pair.connect(2, broker=2)
    listed = []
    for number in (1, 2):
        reply = pair.ask(number, ListGroups(), 4)
        assert isinstance(reply, ListGroupsReply)
        assert reply.groups
        listed += [group.group_id for group in reply.groups]
    assert sorted(listed) == [f"g-{number}" for number in range(9)]
    inside = pair.ask_inside(ListGroups())
    assert isinstance(inside, ListGroupsReply)
    assert len(inside.groups) == 9


def test_versions_are_told_while_the_cluster_is_away() -> None:
    pair = paired()
    pair.is_cut = True
    pair.away()
    reply = pair.ask(1, ApiVersions("c", "1"), 3)
    assert isinstance(reply, ApiVersionsReply)
    assert not reply.error_code


def test_a_connection_whose_broker_is_lost_before_it_answered_closes_and_others_go_on() -> None:
    pair = paired()
    pair.connect(2)
    pair.send(1, Fetch((FetchTopic("none", (FetchPartition(0, 0),)),)), 12)
    pair.front.step(Forwarded(2, b""))
    pair.to_broker.clear()
    pair._upstreams.update((1, 2))
    pair.lose_upstreams("reset by peer")
    assert "reset by peer" in pair.closed[1]
    assert 2 not in pair.closed
    pair.wait(2_000)
    assert pair.ask(2, Heartbeat("g", 1, "m"), 3) == HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_broker_that_answers_garbage_costs_that_connection_alone() -> None:
    pair = paired()
    pair.connect(2)
    pair.send(1, Metadata(), 9)
    pair.front.step(Forwarded(1, b"HTTP/1.1 400 Bad Request"))
    assert "the broker" in pair.closed[1]
    assert 2 not in pair.closed


def test_a_broker_that_says_nothing_is_not_waited_for_for_ever() -> None:
    pair = paired(upstream_request_timeout_ms=10_000)
    pair.connect(2)
    pair.is_silent = True
    pair.send(1, Metadata(), 9)
    for _ in range(9):
        pair.wait(1_000)
    assert 1 not in pair.closed
    for _ in range(4):
        pair.wait(1_000)
    assert "nothing for 10000 ms" in pair.closed[1]
    assert 2 not in pair.closed


def test_a_broker_that_answers_slowly_is_waited_for() -> None:
    pair = paired(upstream_request_timeout_ms=10_000)
    pair.is_silent = True
    pair.send(1, Fetch(()), 12)
    pair.front.step(Forwarded(1, pack(">ii", 1_000, 0)))
    for _ in range(30):
        pair.wait(1_000)
        pair.front.step(Forwarded(1, b"."))
        pair.heard[1].clear()
    assert 1 not in pair.closed


def test_an_answer_that_passes_by_slowly_is_waited_for() -> None:
    pair = paired(upstream_request_timeout_ms=10_000)
    pair.is_silent = True
    pair.send(1, Fetch(()), 12)
    pair.front.step(Forwarded(1, pack(">ii", 100_000, 0)))
    for _ in range(30):
        pair.wait(1_000)
        pair.front.step(Spliced(1, 1))
    assert 1 not in pair.closed
    for _ in range(12):
        pair.wait(1_000)
    assert "nothing for 10000 ms" in pair.closed[1]
    pair.front.step(Spliced(1, 1))  # of a connection that is gone


def test_what_is_heard_of_a_connection_that_is_gone_is_let_go() -> None:
    pair = paired()
    pair.send(1, Metadata(), 9)
    pair.front.step(Lost(1))
    pair.run()
    pair.wait(5_000)
    assert not pair.node.proxied.timeouts.watched


def test_what_piles_up_behind_a_fetch_pauses_the_client() -> None:
    pair = paired()
    pair.is_silent = True
    pair.send(1, Fetch(()), 12)
    pair.send(1, Heartbeat("g", 1, "m"), 3)
    pair.front.step(Received(1, pack(">i", 2_000_000) + bytes(1_500_000)))
    assert pair.paused[1]


# --------------------------------------------------------------------------------------------------------------- topics


def test_a_commit_asks_the_cluster_for_a_topic_nobody_has_heard_of() -> None:
    pair = paired()
    make_topic(pair)
    asked = len(pair.asked)
    assert committed(pair, commit()) is ErrorCode.NONE
    assert len(pair.asked) == asked + 1
    assert committed(pair, commit(partition=1)) is ErrorCode.NONE
    assert len(pair.asked) == asked + 1


def test_what_is_not_there_is_refused_and_not_asked_for_again_at_once() -> None:
    pair = paired()
    asked = len(pair.asked)
    for _ in range(3):
        assert committed(pair, commit("ghosts")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(pair.asked) == asked + 1
    pair.wait(2_000)
    assert committed(pair, commit("ghosts")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(pair.asked) == asked + 2


def test_leaders_are_found_in_whatever_order_partitions_are_told() -> None:
    topics = paired().node.topics
    parts = tuple(MetadataPartitionReply(number, leader) for number, leader in ((2, 9), (0, 7), (1, -1)))
    topics.learn(MetadataReply(topics=(MetadataTopicReply("t", b"1" * 16, partitions=parts),)), 0)
    assert [topics.leader_of("t", number) for number in range(-1, 4)] == [None, 7, None, 9, None]
    assert topics.leader_of("ghosts", 0) is None


def test_a_broker_that_is_behind_takes_nothing_back() -> None:
    topics = paired().node.topics
    new = (MetadataPartitionReply(0, 7, leader_epoch=3), MetadataPartitionReply(1, 8, leader_epoch=0))
    old = (MetadataPartitionReply(0, 9, leader_epoch=2),)
    for parts in (new, old):
        topics.learn(MetadataReply(topics=(MetadataTopicReply("t", b"1" * 16, partitions=parts),)), 0)
    assert [topics.leader_of("t", number) for number in (0, 1)] == [7, 8]
    assert topics.partition_count("t") == 2
    topics.learn(MetadataReply(topics=(MetadataTopicReply("t", b"2" * 16, partitions=old),)), 0)
    assert topics.leader_of("t", 0) == 9
    assert topics.partition_count("t") == 1


def test_names_and_ids_are_asked_for_by_themselves_and_what_is_neither_not_at_all() -> None:
    pair = paired()
    made = pair.ask_broker(CreateTopics((CreatableTopic("x", 1, 1), CreatableTopic("y", 1, 1))), 7)
    assert isinstance(made, CreateTopicsReply)
    pair.connect_natively(7)
    asked = len(pair.asked)
    wanted = Metadata((MetadataTopic("x"), MetadataTopic(None, made.topics[1].topic_id), MetadataTopic(None)))
    reply = pair.ask_natively(7, wanted)
    assert isinstance(reply, MetadataReply)
    assert [topic.error_code for topic in reply.topics[:2]] == [ErrorCode.NONE, ErrorCode.NONE]
    assert len(pair.asked) == asked + 2


def test_what_the_cluster_could_not_say_is_not_taken_for_no() -> None:
    topics = paired().node.topics
    asked = Metadata((MetadataTopic("t"), MetadataTopic("u")))
    told = (
        MetadataTopicReply("t", error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
        MetadataTopicReply("u", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    )
    topics.on_answers([(asked, MetadataReply(topics=told))], 1_000)
    assert topics.to_ask([("t", b"", 0), ("u", b"", 0)], 1_001) == (Metadata((MetadataTopic("t"),)),)


def test_two_answers_in_one_piece_are_both_heard() -> None:
    pair = paired()
    pair.ask_broker(CreateTopics((CreatableTopic("x", 1, 1), CreatableTopic("y", 1, 1))), 7)
    for name in ("x", "y"):
        pair.send(1, Metadata((MetadataTopic(name),)), 12)
    while pair.to_broker:
        pair._deliver(pair.to_broker.pop(0))
        pair.broker.rest()
    (number, *_), data = {number for number, _ in pair.to_front}, b"".join(data for _, data in pair.to_front)
    pair.to_front[:] = [(number, data)]
    pair.run()
    assert [pair.node.topics.partition_count(name) for name in ("x", "y")] == [1, 1]


def test_who_says_nothing_more_hears_what_the_broker_owes_it_and_what_waited_behind_that() -> None:
    pair = paired()
    make_topic(pair)
    assert committed(pair, commit()) is ErrorCode.NONE
    pair.heard[1].clear()
    pair.send(1, Metadata(()), 9)
    pair.send(1, commit(), 8)
    pair.send(1, Metadata(()), 9)
    pair.front.step(Ended(1))
    assert pair.closed == {}
    pair.run()
    assert [type(reply) for reply in pair.heard[1]] == [MetadataReply, OffsetCommitReply, MetadataReply]
    assert pair.closed == {1: ""}


def test_what_nobody_answers_reaches_the_broker_though_it_stands_behind_a_commit() -> None:
    pair = paired()
    make_topic(pair)
    pair.broker_received.clear()
    pair.send(1, commit(), 8)
    records = (ProducePartition(0, encode_batch([(None, b"unanswered")], timestamp_ms=1)),)
    pair.send(1, Produce((ProduceTopic("orders", records),), acks=0), 8)
    pair.front.step(Ended(1))
    pair.run()
    assert b"unanswered" in b"".join(pair.broker_received)
    assert pair.closed == {1: ""}


def test_a_partition_that_was_added_is_found() -> None:
    pair = paired()
    make_topic(pair)
    assert committed(pair, commit()) is ErrorCode.NONE
    pair.ask_broker(CreatePartitions((GrowingTopic("orders", 5),)), 2)
    assert committed(pair, commit(partition=4)) is ErrorCode.NONE
    assert committed(pair, commit(partition=5)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_are_known_by_their_ids() -> None:
    pair = paired()
    make_topic(pair)
    metadata = pair.ask_broker(Metadata((MetadataTopic("orders"),)), 12)
    assert isinstance(metadata, MetadataReply)
    topic_id = metadata.topics[0].topic_id
    assert committed(pair, commit("", topic_id=topic_id), 10) is ErrorCode.NONE
    wanted = OffsetFetchGroup("g", (OffsetFetchTopic("", (0,), topic_id),))
    fetched = pair.ask(1, OffsetFetch((wanted,)), 10)
    assert isinstance(fetched, OffsetFetchReply)
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 5
    assert committed(pair, commit("", topic_id=b"?" * 16), 10) is ErrorCode.UNKNOWN_TOPIC_ID


def test_what_a_client_was_told_of_topics_is_known_here_too() -> None:
    pair = paired()
    make_topic(pair)
    pair.ask(1, Metadata((MetadataTopic("orders"),)), 12)
    asked = len(pair.asked)
    assert committed(pair, commit()) is ErrorCode.NONE
    assert len(pair.asked) == asked


def test_while_the_cluster_is_away_commits_go_on() -> None:
    pair = paired()
    make_topic(pair)
    assert committed(pair, commit()) is ErrorCode.NONE
    pair.is_cut = True
    pair.away()
    assert committed(pair, commit(offset=6)) is ErrorCode.NONE
    assert committed(pair, commit("never-heard-of", 7)) is ErrorCode.NONE


def test_a_cluster_that_does_not_answer_in_time_holds_no_commit_up_for_ever() -> None:
    pair = paired(upstream_ask_timeout_ms=3_000)
    make_topic(pair)
    pair.holds_questions = True
    pair.send(1, commit(), 8)
    pair.wait(2_900)
    assert not pair.heard[1]
    pair.wait(200)
    (reply,) = pair.heard[1]
    assert isinstance(reply, OffsetCommitReply)
    assert reply.topics[0].partitions[0].error_code is ErrorCode.NONE
    pair.holds_questions = False
    pair.run()
    assert len(pair.heard[1]) == 1


def test_topics_are_listed_again_when_what_is_known_is_old_and_those_gone_are_forgotten() -> None:
    pair = paired(upstream_metadata_max_age_ms=10_000)
    make_topic(pair)
    for _ in range(11):
        pair.wait(1_000)
    assert pair.node.topics.partition_count("orders") == 2
    pair.ask_broker(DeleteTopics((DeletableTopic("orders"),)), 5)
    for _ in range(11):
        pair.wait(1_000)
    assert pair.node.topics.partition_count("orders") is None


def test_offsets_of_a_topic_are_deleted_as_anywhere() -> None:
    pair = paired()
    make_topic(pair)
    committed(pair, commit())
    reply = pair.ask(1, OffsetDelete("g", (OffsetDeleteTopic("orders", (0,)),)), 0)
    assert isinstance(reply, OffsetDeleteReply)
    assert reply.topics[0].partitions[0].error_code is ErrorCode.NONE


# ------------------------------------------------------------------------------------------------------ from the inside

ENDS = ListOffsets((ListOffsetsTopic("orders", (ListOffsetsPartition(0), ListOffsetsPartition(1))),))


def test_where_partitions_end_is_asked_of_their_leader() -> None:
    pair = paired()
    make_topic(pair)
    pair.ask(1, Produce((ProduceTopic("orders", (ProducePartition(0, batch(b"x")),)),), -1), 9)
    reply = pair.ask_inside(ENDS)
    assert isinstance(reply, ListOffsetsReply)
    assert [part.offset for part in reply.topics[0].partitions] == [1, 0]
    assert pair.asked[-1].broker == 1


def test_where_partitions_ended_is_told_while_the_cluster_is_away() -> None:
    pair = paired()
    make_topic(pair)
    pair.ask_inside(ENDS)
    pair.is_cut = True
    pair.wait(4_000)
    pair.away()
    reply = pair.ask_inside(ENDS)
    assert isinstance(reply, ListOffsetsReply)
    assert [part.offset for part in reply.topics[0].partitions] == [0, 0]
    health = pair.ask_inside(DescribeNode())
    assert isinstance(health, DescribeNodeReply)
    assert health.gauges["upstream_reachable"] == 0
    assert health.gauges["upstream_age_ms"] == 4_000


def test_an_end_that_was_never_heard_has_an_error() -> None:
    pair = paired()
    reply = pair.ask_inside(ENDS)
    assert isinstance(reply, ListOffsetsReply)
    assert {part.error_code for part in reply.topics[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_records_are_refused_with_a_sentence_to_whoever_asks_here() -> None:
    pair = paired()
    tokens = (ListTokens(), CreateToken("ci", "view", b"h" * 32, 1), DeleteToken("ci"))
    asks: tuple[Message, ...] = (Fetch(()), Produce((), -1), *tokens)
    for message in asks:
        assert type(message) in REJECTED
        reply = pair.ask_inside(message)
        assert isinstance(reply, ErrorReply)
        assert "brokers" in reply.error_message


def test_what_there_is_is_told_here_too() -> None:
    pair = paired()
    make_topic(pair)
    reply = pair.ask_inside(Metadata((MetadataTopic("orders"), MetadataTopic("ghosts"))))
    assert isinstance(reply, MetadataReply)
    assert [(one.name, len(one.partitions), one.error_code) for one in reply.topics] == [
        ("orders", 2, ErrorCode.NONE),
        ("ghosts", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_broker_that_speaks_newer_versions_is_offered_so_to_whoever_comes_next() -> None:
    pair = paired()
    brokers = tuple(pair.node.brokers.known.values())
    pair.front.step(BrokersFound(brokers))
    assert pair.node.brokers.known[1].versions == pair.versions
    assert pair.node.brokers.open(1)._router is pair.node.brokers.open(1)._router


def test_settings_of_a_group_are_kept_here() -> None:
    pair = paired()
    setting = AlterableConfig("group.max.size", value="50")
    changed = pair.ask(1, IncrementalAlterConfigs((AlterConfigsResource(ResourceType.GROUP, "g", (setting,)),)), 1)
    assert isinstance(changed, IncrementalAlterConfigsReply)
    assert changed.responses[0].error_code is ErrorCode.NONE
    told = pair.ask(1, DescribeConfigs((DescribeConfigsResource(ResourceType.GROUP, "g"),)), 4)
    assert isinstance(told, DescribeConfigsReply)
    assert ("group.max.size", "50") in [(one.name, one.value) for one in told.results[0].configs]
    assert pair.broker_received == []
