"""Topics deleted, grown and set otherwise: what is refused, what is there after a crash."""

from typing import Any

import pytest

from coordinator.topics.embedded import TopicSettings
from coordinator.topics.registry import Topic, TopicList
from coordinator.topics.rules import TopicRefusal
from protocol.errors import ErrorCode
from protocol.messages.data import (
    EpochPartition,
    EpochTopic,
    Fetch,
    FetchTopic,
    OffsetForLeaderEpoch,
    Produce,
    ProducePartition,
    ProduceTopic,
)
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreateTopics,
    DeletableTopic,
    DeleteTopics,
    DescribeTopicPartitions,
    GrowingTopic,
    Metadata,
    MetadataTopic,
    NamedTopic,
    PartitionAssignment,
    ReplicaAssignment,
    TopicCursor,
)
from protocol.session import RequestRef
from tests.topics.topic_rig import TopicRig, asking, batch, parts

NODE = 3


def delete(rig: TopicRig, name: str = "flights") -> None:
    """All at once, as where no group has committed anything."""
    ((_wanted, topic),) = rig.topics.deletable(DeleteTopics((DeletableTopic(name),)))
    assert isinstance(topic, Topic)
    assert not isinstance(rig.topics.delete(topic, rig.moment), TopicRefusal)
    assert rig.topics.free(name, rig.moment) is None
    rig.flush()


# --- made with assignments ---


def assigned(*brokers: tuple[int, ...], partitions: int = -1, replicas: int = -1, first: int = 0) -> CreatableTopic:
    assignments = tuple(ReplicaAssignment(index, nodes) for index, nodes in enumerate(brokers, first))
    return CreatableTopic("flights", partitions, replicas, (), assignments)


def test_partitions_assigned_by_hand_are_counted() -> None:
    rig = TopicRig()
    (created,) = rig.topics.create(CreateTopics((assigned((NODE,), (NODE,)),)), rig.moment)[0].topics
    assert (created.error_code, created.num_partitions, created.replication_factor) == (ErrorCode.NONE, 2, 1)
    assert rig.topics.partition_count("flights") == 2


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (assigned((9,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((NODE, 9)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((NODE, NODE)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned(()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((NODE,), first=1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned((NODE,), partitions=1), ErrorCode.INVALID_REQUEST),
        (assigned((NODE,), replicas=1), ErrorCode.INVALID_REQUEST),
        (assigned(*[(NODE,)] * 10_001), ErrorCode.INVALID_PARTITIONS),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(wanted: CreatableTopic, error: ErrorCode) -> None:
    rig = TopicRig()
    (created,) = rig.topics.create(CreateTopics((wanted,)), rig.moment)[0].topics
    assert created.error_code is error
    assert rig.topics.topic_count == 0


def test_names_that_differ_by_dots_and_underscores_alone_collide() -> None:
    rig = TopicRig()
    rig.made("a.b_c", 1)
    refused = rig.create("a_b.c")
    assert refused.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a.b_c" in (refused.error_message or "")
    delete(rig, "a.b_c")
    rig.made("a_b.c", 1)


# --- deleted ---


def test_a_deleted_topic_is_gone_with_its_records_and_a_new_one_of_its_name_begins_at_0() -> None:
    rig = TopicRig()
    rig.made("flights", 2)
    rig.store_now("a", "b")
    before = rig.topics.id_of("flights")
    delete(rig)
    assert rig.topics.partition_count("flights") is None
    assert rig.read(0).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rig.made("flights", 2)
    assert rig.topics.id_of("flights") != before
    assert rig.send(batch("new")).base_offset == 0
    rig.flush()
    assert rig.values() == ["new"]
    rig.crash()
    assert rig.values() == ["new"]


def test_a_new_topic_of_a_deleted_ones_name_tells_its_readers_of_new_records() -> None:
    rig = TopicRig()
    rig.made("flights", 2)
    rig.send(batch("old"))
    delete(rig)
    rig.made("flights", 2)
    rig.poll(asking((0, 0)))
    rig.store_now("new")
    assert len(rig.answers) == 1


def test_a_crash_after_the_record_of_a_deletion_leaves_no_logs() -> None:
    rig = TopicRig()
    rig.made("flights", 2)
    rig.made("others", 1)
    rig.store_now("a")
    rig.send(batch("stays"), topic="others")
    ((_wanted, topic),) = rig.topics.deletable(DeleteTopics((DeletableTopic("flights"),)))
    assert isinstance(topic, Topic)
    rig.topics._topics.delete(topic, rig.moment)  # and the crash comes before the logs are removed
    rig.flush()
    rig.crash()
    assert "flights-0" not in rig.store.names()
    assert "others-0" in rig.store.names()
    assert rig.topics.deleted == ["flights"]
    refused = rig.create("flights")
    assert refused.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert rig.topics.free("flights", rig.moment) is None
    rig.made("flights", 1)
    assert rig.values() == []


def test_logs_without_a_topic_go_at_the_start_but_never_the_services_own() -> None:
    rig = TopicRig()
    rig.made("flights", 1)
    for name in ("flights-0", "flights-1", "nobodys-0", "__consumer_offsets-7", "__whatever-0"):
        rig.store.append(rig.store.log(name), batch("a"))
    rig.flush()
    rig.crash()
    assert rig.store.names() == ["__consumer_offsets-7", "__muster_topics-0", "__whatever-0", "flights-0"]


def test_whoever_waits_for_records_of_a_deleted_topic_is_told() -> None:
    rig = TopicRig()
    rig.made("flights", 2)
    topic_id = rig.topics.id_of("flights")
    assert topic_id is not None
    by_name = asking((0, 0))
    by_id = Fetch(tuple(FetchTopic("", topic.partitions, topic_id) for topic in by_name.topics))
    rig.poll(by_name)
    rig.poll(by_id, RequestRef(8, 1))
    ((_wanted, topic),) = rig.topics.deletable(DeleteTopics((DeletableTopic(None, topic_id),)))
    assert isinstance(topic, Topic)
    notified = rig.topics.delete(topic, rig.moment)
    assert not isinstance(notified, TopicRefusal)
    ready = [one for key in notified for one in rig.purgatory.check_and_complete(key)]
    asked = [one.message for one in ready if isinstance(one.message, Fetch)]
    errors = [parts(rig.topics.fetch_now(one))[0].error_code for one in asked]
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


def test_what_cannot_be_deleted_is_refused_as_kafka_does() -> None:
    rig = TopicRig()
    rig.made("flights", 1)
    known = rig.topics.id_of("flights") or b""
    unknown = b"\7" * 16
    wanted = (
        DeletableTopic("nowhere"),
        DeletableTopic(None, unknown),
        DeletableTopic("flights", unknown),
        DeletableTopic(),
        DeletableTopic("__consumer_offsets"),
    )
    found = rig.topics.deletable(DeleteTopics(wanted))
    assert [topic.error for _one, topic in found if isinstance(topic, TopicRefusal)] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    for again in (DeletableTopic("flights"), DeletableTopic(None, known)):
        ((_one, refused),) = rig.topics.deletable(DeleteTopics((DeletableTopic("flights"), again)))
        assert isinstance(refused, TopicRefusal)
        assert refused.error is ErrorCode.INVALID_REQUEST


# --- grown ---


def grow(
    rig: TopicRig, count: int, *nodes: tuple[int, ...], name: str = "flights", validate_only: bool = False
) -> ErrorCode:
    assignments = tuple(PartitionAssignment(broker_ids) for broker_ids in nodes) if nodes else None
    message = CreatePartitions((GrowingTopic(name, count, assignments),), validate_only=validate_only)
    (grown,) = rig.topics.grow(message, rig.moment)[0].results
    return grown.error_code


def test_a_topic_grows_and_keeps_what_it_has() -> None:
    rig = TopicRig()
    rig.made("flights", 2, retention_ms="77")
    rig.store_now("a")
    before = rig.topics.id_of("flights")
    assert grow(rig, 3, validate_only=True) is ErrorCode.NONE
    assert rig.topics.partition_count("flights") == 2
    assert grow(rig, 4, (NODE,), (NODE,)) is ErrorCode.NONE
    rig.flush()
    rig.crash()
    assert (rig.topics.partition_count("flights"), rig.topics.id_of("flights")) == (4, before)
    assert rig.values() == ["a"]
    assert rig.topics.configs("flights") == {"retention.ms": "77"}
    rig.store_now("b", partition=3)
    assert rig.values(3) == ["b"]


def test_growth_that_cannot_be_is_refused_as_kafka_does() -> None:
    rig = TopicRig(settings=TopicSettings(max_partitions=20))
    rig.made("flights", 3)
    for count in (3, 2, 0, -1, 10_001):
        assert grow(rig, count) is ErrorCode.INVALID_PARTITIONS
    assert grow(rig, 21) is ErrorCode.POLICY_VIOLATION
    assert grow(rig, 4, name="nowhere") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for nodes in ([(NODE,)], [(NODE,)] * 3, [(9,), (NODE,)], [(), (NODE,)], [(NODE, NODE), (NODE,)]):
        assert grow(rig, 5, *nodes) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    twice = CreatePartitions((GrowingTopic("flights", 4), GrowingTopic("flights", 5)))
    (answer,) = rig.topics.grow(twice, rig.moment)[0].results
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert rig.topics.partition_count("flights") == 3


# --- in pages ---


def pages(
    rig: TopicRig, *names: str, limit: int = 2_000, cursor: TopicCursor | None = None
) -> list[tuple[str, list[int]]]:
    """Topics and partitions of every page, one after the other."""
    found: list[tuple[str, list[int]]] = []
    for _ in range(20):
        message = DescribeTopicPartitions(tuple(NamedTopic(name) for name in names), limit, cursor)
        reply = rig.topics.describe_partitions(message)
        found += [(topic.name or "", [part.partition_index for part in topic.partitions]) for topic in reply.topics]
        cursor = reply.next_cursor
        if cursor is None:
            return found
    raise AssertionError("there is no last page")


def test_topics_are_described_in_pages_sorted_by_name() -> None:
    rig = TopicRig()
    for name in ("c", "a", "b"):
        rig.made(name, 3)
    assert pages(rig) == [("a", [0, 1, 2]), ("b", [0, 1, 2]), ("c", [0, 1, 2])]
    assert pages(rig, "c", "a", "c", limit=2) == [("a", [0, 1]), ("a", [2]), ("c", [0]), ("c", [1, 2])]
    assert pages(rig, limit=3) == [("a", [0, 1, 2]), ("b", [0, 1, 2]), ("c", [0, 1, 2])]
    assert pages(rig, "a", limit=0) == [("a", [0]), ("a", [1]), ("a", [2])]
    assert pages(rig, cursor=TopicCursor("aa", 1)) == [("b", [0, 1, 2]), ("c", [0, 1, 2])]
    assert pages(rig, "b", cursor=TopicCursor("b", 7)) == [("b", [])]


def test_a_page_looks_at_no_topic_that_it_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = TopicRig()
    for number in range(30):
        rig.made(f"t{number:02}", 1)
    looked: list[str] = []
    find = TopicList.find

    def counting(topics: TopicList, name: str) -> Any:
        looked.append(name)
        return find(topics, name)

    monkeypatch.setattr(TopicList, "find", counting)
    monkeypatch.setattr(TopicList, "all", lambda _: pytest.fail("all topics are looked at"))
    reply = rig.topics.describe_partitions(DescribeTopicPartitions((), 2, TopicCursor("t20", 0)))
    assert [topic.name for topic in reply.topics] == ["t20", "t21"]
    assert looked == ["t20", "t21", "t22"]


def test_a_page_says_what_is_wrong_with_each_topic() -> None:
    rig = TopicRig()
    rig.made("a", 1)
    asked = DescribeTopicPartitions((NamedTopic("a"), NamedTopic("nowhere"), NamedTopic("a b")))
    errors = {topic.name: topic.error_code for topic in rig.topics.describe_partitions(asked).topics}
    assert errors == {
        "a": ErrorCode.NONE,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    for cursor in (TopicCursor("a", -1), TopicCursor("z", 0)):
        reply = rig.topics.describe_partitions(DescribeTopicPartitions((NamedTopic("a"),), cursor=cursor))
        assert [topic.error_code for topic in reply.topics] == [ErrorCode.INVALID_REQUEST]


def test_what_a_client_may_do_is_told_if_it_asks() -> None:
    rig = TopicRig()
    rig.made("a", 1)
    wanted = Metadata((MetadataTopic("a"), MetadataTopic("b")), include_topic_authorized_operations=True)
    assert [topic.topic_authorized_operations for topic in rig.topics.metadata(wanted, rig.moment)] == [
        3576,
        -2147483648,
    ]


# --- epochs of leaders ---


def test_there_is_one_epoch_and_it_ends_at_the_high_watermark() -> None:
    rig = TopicRig()
    rig.made("flights", 1)
    rig.store_now("a", "b")
    rig.send(batch("not yet durable"))
    wanted = (
        EpochPartition(0, 0),
        EpochPartition(0, 1),
        EpochPartition(0, -1),
        EpochPartition(0, -2),
        EpochPartition(0, 0, 0),
        EpochPartition(0, 0, 1),
        EpochPartition(9, 0),
    )
    (flights, nowhere) = rig.topics.end_offsets(
        OffsetForLeaderEpoch((EpochTopic("flights", wanted), EpochTopic("nowhere", wanted[:1])))
    ).topics
    assert [(part.error_code, part.leader_epoch, part.end_offset) for part in flights.partitions] == [
        (ErrorCode.NONE, 0, 2),
        (ErrorCode.NONE, -1, -1),
        (ErrorCode.NONE, -1, -1),
        (ErrorCode.NONE, -2, 0),
        (ErrorCode.NONE, 0, 2),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]
    assert nowhere.partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_by_an_id_nobody_has_says_so_and_names_the_id() -> None:
    rig = TopicRig()
    rig.made("flights", 1)
    asked = asking((0, 0))
    (topic,) = asked.topics
    reply = rig.topics.fetch_now(Fetch((FetchTopic("", topic.partitions, b"\7" * 16),)))
    assert (reply.responses[0].topic_id, reply.responses[0].partitions[0].error_code) == (
        b"\7" * 16,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )


def test_records_are_produced_by_id_too() -> None:
    rig = TopicRig()
    rig.made("flights", 1)
    known = rig.topics.id_of("flights") or b""
    for topic_id, error in ((known, ErrorCode.NONE), (b"\7" * 16, ErrorCode.UNKNOWN_TOPIC_ID)):
        topic = ProduceTopic("", (ProducePartition(0, batch("a")),), topic_id)
        (answer,) = rig.topics.produce(Produce((topic,)), rig.moment)[0].responses
        assert (answer.name, answer.topic_id, answer.partition_responses[0].error_code) == ("", topic_id, error)
