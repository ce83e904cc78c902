"""The topics of the log: their settings, and what is said of ones that differ."""

import pytest
from msgspec.structs import replace

from coordinator.cluster_log.settings import ClusterLogSettings
from coordinator.gateway.cluster.log_topics import (
    LogFacts,
    offsets_topic,
    problems,
    proof_topic,
    refusal,
    replicas,
)
from protocol.messages.topics import MetadataPartitionReply, MetadataTopicReply

SHARDS = 4
SAFE = {one.name: one.value for one in offsets_topic(SHARDS, 3).configs}


def _topic(copies: int, partitions: int = SHARDS) -> MetadataTopicReply:
    brokers = tuple(range(copies))
    return MetadataTopicReply(
        "__muster_offsets",
        partitions=tuple(MetadataPartitionReply(index, 0, replica_nodes=brokers) for index in range(partitions)),
    )


def _facts(
    brokers: int = 3, copies: int = 3, broker_settings: dict[str, str] | None = None, **settings: str
) -> LogFacts:
    told = {**SAFE, **{name.replace("_", "."): value for name, value in settings.items()}}
    return LogFacts(brokers, _topic(copies), told, broker_settings or {})


def test_a_topic_as_it_is_made_is_safe() -> None:
    assert refusal(_facts(), SHARDS) == ""
    assert list(problems(_facts(), ClusterLogSettings())) == []


def test_a_topic_is_made_with_the_settings_of_the_protocol() -> None:
    made = offsets_topic(50, 3)
    assert (made.name, made.num_partitions, made.replication_factor) == ("__muster_offsets", 50, 3)
    assert {one.name: one.value for one in made.configs} == {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": "3600000",
        "max.message.bytes": "2097152",
        "segment.bytes": "104857600",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "LogAppendTime",
    }


@pytest.mark.parametrize(("wanted", "brokers", "given"), [(3, 1, 1), (3, 2, 2), (3, 5, 3), (1, 3, 1)])
def test_a_topic_has_no_more_replicas_than_there_are_brokers(wanted: int, brokers: int, given: int) -> None:
    assert replicas(wanted, brokers) == given


@pytest.mark.parametrize(("copies", "in_sync"), [(1, "1"), (2, "1"), (3, "2"), (5, "2")])
def test_writes_go_on_while_one_broker_is_away(copies: int, in_sync: str) -> None:
    for topic in (offsets_topic(SHARDS, copies), proof_topic(copies)):
        assert {one.name: one.value for one in topic.configs}["min.insync.replicas"] == in_sync


def test_a_topic_with_another_number_of_partitions_is_refused() -> None:
    facts = _facts()._replace(topic=_topic(3, 3))
    assert "has 3 partitions, and offsets.topic.num.partitions is 4" in refusal(facts, SHARDS)


def test_a_topic_whose_records_expire_is_refused() -> None:
    assert "cleanup.policy=compact,delete" in refusal(_facts(cleanup_policy="compact,delete"), SHARDS)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (_facts(brokers=1, copies=1), "one broker"),
        (_facts(brokers=3, copies=1), "has 1 replicas"),
        (_facts(brokers=3, copies=2), "has 2 replicas"),
        (_facts(min_insync_replicas="1"), "min.insync.replicas=1"),
        (_facts(unclean_leader_election_enable="true"), "unclean.leader.election.enable=true"),
        (_facts(min_compaction_lag_ms="0"), "min.compaction.lag.ms=0"),
        (_facts(max_message_bytes="1048588"), "max.message.bytes=1048588"),
        (_facts(segment_bytes="1073741824"), "segment.bytes=1073741824"),
        (_facts(broker_settings={"producer.id.expiration.ms": "3600000"}), "producer.id.expiration.ms=3600000"),
        (_facts(broker_settings={"transactional.id.expiration.ms": "86400000"}), "transactional.id.expiration.ms="),
    ],
)
def test_what_is_unsafe_is_said(facts: LogFacts, said: str) -> None:
    (problem,) = problems(facts, ClusterLogSettings())
    assert said in problem


def test_larger_batches_and_smaller_segments_are_no_problem() -> None:
    facts = _facts(max_message_bytes="4194304", segment_bytes="16777216")
    assert list(problems(facts, ClusterLogSettings())) == []


def test_one_partition_with_fewer_replicas_is_enough() -> None:
    topic = _topic(3)
    poor = replace(topic.partitions[2], replica_nodes=(1,))
    topic = replace(topic, partitions=(*topic.partitions[:2], poor, *topic.partitions[3:]))
    (problem,) = problems(_facts()._replace(topic=topic), ClusterLogSettings())
    assert "has 1 replicas" in problem


def test_the_defaults_of_apache_kafka_remember_long_enough() -> None:
    told = {"producer.id.expiration.ms": "86400000", "transactional.id.expiration.ms": "604800000"}
    assert list(problems(_facts(broker_settings=told), ClusterLogSettings())) == []


def test_settings_that_may_not_be_read_are_no_problem() -> None:
    facts = LogFacts(3, _topic(3), {}, {})
    assert refusal(facts, SHARDS) == "" and list(problems(facts, ClusterLogSettings())) == []
