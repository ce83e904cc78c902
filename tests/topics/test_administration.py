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
from tests.topics.town import Town, asking, batch, parts

NODE = 3


def delete(town: Town, name: str = "flights") -> None:
    """All at once, as where no group has committed anything."""
    ((_wanted, topic),) = town.topics.deletable(DeleteTopics((DeletableTopic(name),)))
    assert isinstance(topic, Topic)
    assert not isinstance(town.topics.delete(topic, town.moment), TopicRefusal)
    assert town.topics.free(name, town.moment) is None
    town.flush()


# --- made with assignments ---


def assigned(*brokers: tuple[int, ...], partitions: int = -1, replicas: int = -1, first: int = 0) -> CreatableTopic:
    assignments = tuple(ReplicaAssignment(index, nodes) for index, nodes in enumerate(brokers, first))
    return CreatableTopic("flights", partitions, replicas, (), assignments)


def test_partitions_assigned_by_hand_are_counted() -> None:
    town = Town()
    (created,) = town.topics.create(CreateTopics((assigned((NODE,), (NODE,)),)), town.moment)[0].topics
    assert (created.error_code, created.num_partitions, created.replication_factor) == (ErrorCode.NONE, 2, 1)
    assert town.topics.partition_count("flights") == 2


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
    town = Town()
    (created,) = town.topics.create(CreateTopics((wanted,)), town.moment)[0].topics
    assert created.error_code is error
    assert town.topics.topic_count == 0


def test_names_that_differ_by_dots_and_underscores_alone_collide() -> None:
    town = Town()
    town.made("a.b_c", 1)
    refused = town.create("a_b.c")
    assert refused.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a.b_c" in (refused.error_message or "")
    delete(town, "a.b_c")
    town.made("a_b.c", 1)


# --- deleted ---


def test_a_deleted_topic_is_gone_with_its_records_and_a_new_one_of_its_name_begins_at_0() -> None:
    town = Town()
    town.made("flights", 2)
    town.store_now("a", "b")
    before = town.topics.id_of("flights")
    delete(town)
    assert town.topics.partition_count("flights") is None
    assert town.read(0).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    town.made("flights", 2)
    assert town.topics.id_of("flights") != before
    assert town.send(batch("new")).base_offset == 0
    town.flush()
    assert town.values() == ["new"]
    town.crash()
    assert town.values() == ["new"]


def test_a_new_topic_of_a_deleted_ones_name_tells_its_readers_of_new_records() -> None:
    town = Town()
    town.made("flights", 2)
    town.send(batch("old"))
    delete(town)
    town.made("flights", 2)
    town.poll(asking((0, 0)))
    town.store_now("new")
    assert len(town.answers) == 1


def test_a_crash_after_the_record_of_a_deletion_leaves_no_logs() -> None:
    town = Town()
    town.made("flights", 2)
    town.made("others", 1)
    town.store_now("a")
    town.send(batch("stays"), topic="others")
    ((_wanted, topic),) = town.topics.deletable(DeleteTopics((DeletableTopic("flights"),)))
    assert isinstance(topic, Topic)
    town.topics._topics.delete(topic, town.moment)  # and the crash comes before the logs are removed
    town.flush()
    town.crash()
    assert "flights-0" not in town.store.names()
    assert "others-0" in town.store.names()
    assert town.topics.deleted == ["flights"]
    refused = town.create("flights")
    assert refused.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert town.topics.free("flights", town.moment) is None
    town.made("flights", 1)
    assert town.values() == []


def test_logs_without_a_topic_go_at_the_start_but_never_the_services_own() -> None:
    town = Town()
    town.made("flights", 1)
    for name in ("flights-0", "flights-1", "nobodys-0", "__consumer_offsets-7", "__whatever-0"):
        town.store.append(town.store.log(name), batch("a"))
    town.flush()
    town.crash()
    assert town.store.names() == ["__consumer_offsets-7", "__muster_topics-0", "__whatever-0", "flights-0"]


def test_whoever_waits_for_records_of_a_deleted_topic_is_told() -> None:
    town = Town()
    town.made("flights", 2)
    topic_id = town.topics.id_of("flights")
    assert topic_id is not None
    by_name = asking((0, 0))
    by_id = Fetch(tuple(FetchTopic("", topic.partitions, topic_id) for topic in by_name.topics))
    town.poll(by_name)
    town.poll(by_id, RequestRef(8, 1))
    ((_wanted, topic),) = town.topics.deletable(DeleteTopics((DeletableTopic(None, topic_id),)))
    assert isinstance(topic, Topic)
    notified = town.topics.delete(topic, town.moment)
    assert not isinstance(notified, TopicRefusal)
    ready = [one for key in notified for one in town.purgatory.check_and_complete(key)]
    asked = [one.message for one in ready if isinstance(one.message, Fetch)]
    errors = [parts(town.topics.fetch_now(one))[0].error_code for one in asked]
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


def test_what_cannot_be_deleted_is_refused_as_kafka_does() -> None:
    town = Town()
    town.made("flights", 1)
    known = town.topics.id_of("flights") or b""
    unknown = b"\7" * 16
    wanted = (
        DeletableTopic("nowhere"),
        DeletableTopic(None, unknown),
        DeletableTopic("flights", unknown),
        DeletableTopic(),
        DeletableTopic("__consumer_offsets"),
    )
    found = town.topics.deletable(DeleteTopics(wanted))
    assert [topic.error for _one, topic in found if isinstance(topic, TopicRefusal)] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    for again in (DeletableTopic("flights"), DeletableTopic(None, known)):
        ((_one, refused),) = town.topics.deletable(DeleteTopics((DeletableTopic("flights"), again)))
        assert isinstance(refused, TopicRefusal)
        assert refused.error is ErrorCode.INVALID_REQUEST


# --- grown ---


def grow(
    town: Town, count: int, *nodes: tuple[int, ...], name: str = "flights", validate_only: bool = False
) -> ErrorCode:
    assignments = tuple(PartitionAssignment(broker_ids) for broker_ids in nodes) if nodes else None
    message = CreatePartitions((GrowingTopic(name, count, assignments),), validate_only=validate_only)
    (grown,) = town.topics.grow(message, town.moment)[0].results
    return grown.error_code


def test_a_topic_grows_and_keeps_what_it_has() -> None:
    town = Town()
    town.made("flights", 2, retention_ms="77")
    town.store_now("a")
    before = town.topics.id_of("flights")
    assert grow(town, 3, validate_only=True) is ErrorCode.NONE
    assert town.topics.partition_count("flights") == 2
    assert grow(town, 4, (NODE,), (NODE,)) is ErrorCode.NONE
    town.flush()
    town.crash()
    assert (town.topics.partition_count("flights"), town.topics.id_of("flights")) == (4, before)
    assert town.values() == ["a"]
    assert town.topics.configs("flights") == {"retention.ms": "77"}
    town.store_now("b", partition=3)
    assert town.values(3) == ["b"]


def test_growth_that_cannot_be_is_refused_as_kafka_does() -> None:
    town = Town(settings=TopicSettings(max_partitions=20))
    town.made("flights", 3)
    for count in (3, 2, 0, -1, 10_001):
        assert grow(town, count) is ErrorCode.INVALID_PARTITIONS
    assert grow(town, 21) is ErrorCode.POLICY_VIOLATION
    assert grow(town, 4, name="nowhere") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for nodes in ([(NODE,)], [(NODE,)] * 3, [(9,), (NODE,)], [(), (NODE,)], [(NODE, NODE), (NODE,)]):
        assert grow(town, 5, *nodes) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    twice = CreatePartitions((GrowingTopic("flights", 4), GrowingTopic("flights", 5)))
    (answer,) = town.topics.grow(twice, town.moment)[0].results
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert town.topics.partition_count("flights") == 3


# --- in pages ---


def pages(
    town: Town, *names: str, limit: int = 2_000, cursor: TopicCursor | None = None
) -> list[tuple[str, list[int]]]:
    """Topics and partitions of every page, one after the other."""
    found: list[tuple[str, list[int]]] = []
    for _ in range(20):
        message = DescribeTopicPartitions(tuple(NamedTopic(name) for name in names), limit, cursor)
        reply = town.topics.describe_partitions(message)
        found += [(topic.name or "", [part.partition_index for part in topic.partitions]) for topic in reply.topics]
        cursor = reply.next_cursor
        if cursor is None:
            return found
    raise AssertionError("there is no last page")


def test_topics_are_described_in_pages_sorted_by_name() -> None:
    town = Town()
    for name in ("c", "a", "b"):
        town.made(name, 3)
    assert pages(town) == [("a", [0, 1, 2]), ("b", [0, 1, 2]), ("c", [0, 1, 2])]
    assert pages(town, "c", "a", "c", limit=2) == [("a", [0, 1]), ("a", [2]), ("c", [0]), ("c", [1, 2])]
    assert pages(town, limit=3) == [("a", [0, 1, 2]), ("b", [0, 1, 2]), ("c", [0, 1, 2])]
    assert pages(town, "a", limit=0) == [("a", [0]), ("a", [1]), ("a", [2])]
    assert pages(town, cursor=TopicCursor("aa", 1)) == [("b", [0, 1, 2]), ("c", [0, 1, 2])]
    assert pages(town, "b", cursor=TopicCursor("b", 7)) == [("b", [])]


def test_a_page_looks_at_no_topic_that_it_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town()
    for number in range(30):
        town.made(f"t{number:02}", 1)
    looked: list[str] = []
    find = TopicList.find

    def counting(topics: TopicList, name: str) -> Any:
        looked.append(name)
        return find(topics, name)

    monkeypatch.setattr(TopicList, "find", counting)
    monkeypatch.setattr(TopicList, "all", lambda _: pytest.fail("all topics are looked at"))
    reply = town.topics.describe_partitions(DescribeTopicPartitions((), 2, TopicCursor("t20", 0)))
    assert [topic.name for topic in reply.topics] == ["t20", "t21"]
    assert looked == ["t20", "t21", "t22"]


def test_a_page_says_what_is_wrong_with_each_topic() -> None:
    town = Town()
    town.made("a", 1)
    asked = DescribeTopicPartitions((NamedTopic("a"), NamedTopic("nowhere"), NamedTopic("a b")))
    errors = {topic.name: topic.error_code for topic in town.topics.describe_partitions(asked).topics}
    assert errors == {
        "a": ErrorCode.NONE,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    for cursor in (TopicCursor("a", -1), TopicCursor("z", 0)):
        reply = town.topics.describe_partitions(DescribeTopicPartitions((NamedTopic("a"),), cursor=cursor))
        assert [topic.error_code for topic in reply.topics] == [ErrorCode.INVALID_REQUEST]


def test_what_a_client_may_do_is_told_if_it_asks() -> None:
    town = Town()
    town.made("a", 1)
    wanted = Metadata((MetadataTopic("a"), MetadataTopic("b")), include_topic_authorized_operations=True)
    assert [topic.topic_authorized_operations for topic in town.topics.metadata(wanted, town.moment)] == [
        3576,
        -2147483648,
    ]


# --- epochs of leaders ---


def test_there_is_one_epoch_and_it_ends_at_the_high_watermark() -> None:
    town = Town()
    town.made("flights", 1)
    town.store_now("a", "b")
    town.send(batch("not yet durable"))
    wanted = (
        EpochPartition(0, 0),
        EpochPartition(0, 1),
        EpochPartition(0, -1),
        EpochPartition(0, -2),
        EpochPartition(0, 0, 0),
        EpochPartition(0, 0, 1),
        EpochPartition(9, 0),
    )
    (flights, nowhere) = town.topics.end_offsets(
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
    town = Town()
    town.made("flights", 1)
    asked = asking((0, 0))
    (topic,) = asked.topics
    reply = town.topics.fetch_now(Fetch((FetchTopic("", topic.partitions, b"\7" * 16),)))
    assert (reply.responses[0].topic_id, reply.responses[0].partitions[0].error_code) == (
        b"\7" * 16,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )


def test_records_are_produced_by_id_too() -> None:
    town = Town()
    town.made("flights", 1)
    known = town.topics.id_of("flights") or b""
    for topic_id, error in ((known, ErrorCode.NONE), (b"\7" * 16, ErrorCode.UNKNOWN_TOPIC_ID)):
        topic = ProduceTopic("", (ProducePartition(0, batch("a")),), topic_id)
        (answer,) = town.topics.produce(Produce((topic,)), town.moment)[0].responses
        assert (answer.name, answer.topic_id, answer.partition_responses[0].error_code) == ("", topic_id, error)
