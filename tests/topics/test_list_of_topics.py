"""The list of topics: created, refused, shown, and recovered after a crash."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.config.config import Config
from coordinator.placement import Placement
from coordinator.topics.embedded import TopicSettings, settings_from
from coordinator.topics.records import TOPICS_LOG, TopicRecord, TopicsCorrupt, decode_topic, encode_topic
from coordinator.topics.registry import TopicList
from coordinator.topics.rules import MAX_NAME_BYTES, refuse_name
from partition_log.cleanup_policy import Compact, Retain
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataTopic
from protocol.record_batch import encode_batch
from tests.topics.topic_rig import WALL_MS, TopicRig, batch

WEEK_MS = 7 * 24 * 60 * 60 * 1000
FIRST_ID, SECOND_ID = (number.to_bytes(16, "big") for number in (1, 2))


def named(*names: str, may_create: bool = False) -> Metadata:
    return Metadata(tuple(MetadataTopic(name) for name in names), may_create)


def record(name: str = "flights", **configs: str) -> TopicRecord:
    return TopicRecord(name, FIRST_ID, 8, configs, WALL_MS)


# --- made ---


def test_a_topic_that_is_made_is_told_of_with_its_id_and_its_partitions() -> None:
    rig = TopicRig()
    created = rig.create("flights", 3)
    assert (created.error_code, created.topic_id) == (ErrorCode.NONE, FIRST_ID)
    assert (created.num_partitions, created.replication_factor) == (3, 1)
    (shown,) = rig.topics.metadata(named("flights"), rig.moment)
    assert (shown.name, shown.topic_id, shown.error_code, shown.is_internal) == (
        "flights",
        FIRST_ID,
        ErrorCode.NONE,
        False,
    )
    assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in shown.partitions] == [
        (index, 3, (3,), (3,)) for index in range(3)
    ]
    assert rig.topics.partition_count("flights") == 3
    assert rig.topics.topic_count == 1


def test_the_reply_waits_until_the_topic_is_durable_and_so_does_whoever_tells_of_it() -> None:
    rig = TopicRig()
    _reply, position = rig.topics.create(CreateTopics((CreatableTopic("flights"),)), rig.moment)
    assert position == rig.topics.position == rig.store.position > rig.store.flushed
    rig.flush()
    assert rig.topics.position <= rig.store.flushed


def test_a_topic_told_of_survives_a_crash_with_its_id_and_its_settings() -> None:
    rig = TopicRig()
    rig.made("flights", 5, max_message_bytes="100")
    rig.made("trains", 1)
    before = rig.topics.metadata(Metadata(), rig.moment)
    rig.crash()
    assert rig.topics.metadata(Metadata(), rig.moment) == before
    assert rig.send(batch("x" * 100)).error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert rig.create("flights").error_code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_topic_nobody_was_told_of_may_be_gone_after_a_crash_and_be_made_again() -> None:
    rig = TopicRig()
    rig.create("flights", 5)
    rig.crash()
    assert rig.topics.partition_count("flights") is None
    assert rig.create("flights", 2).num_partitions == 2


def test_a_partition_leaves_nothing_on_disk_before_its_first_record() -> None:
    rig = TopicRig()
    rig.made("flights", 5_000)
    rig.store_now("a", partition=4_321)
    assert rig.store.names() == [TOPICS_LOG, "flights-4321"]


def test_a_topic_made_without_a_number_has_the_nodes() -> None:
    rig = TopicRig(settings=TopicSettings(default_partitions=4))
    assert rig.create("flights").num_partitions == 4
    assert rig.topics.partition_count("flights") == 4


def test_validating_makes_nothing() -> None:
    rig = TopicRig()
    wanted = (CreatableTopic("good"), CreatableTopic("bad", num_partitions=0))
    reply, position = rig.topics.create(CreateTopics(wanted, validate_only=True), rig.moment)
    assert [topic.error_code for topic in reply.topics] == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS]
    assert (rig.topics.topic_count, rig.ids.given, position) == (0, 0, 0)


# --- refused ---


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "grün", "x" * 250, "__consumer_offsets", "__muster_x", "a\n"]
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert TopicRig().create(name).error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "...", "_x", "x" * MAX_NAME_BYTES, "A-b_c.9"])
def test_kafkas_legal_names_are_legal(name: str) -> None:
    rig = TopicRig()
    rig.made(name, 10_000)
    assert rig.send(b"", topic=name, partition=9_999).error_code is ErrorCode.INVALID_RECORD


@given(st.text(max_size=5))
def test_a_legal_name_is_a_legal_log(name: str) -> None:
    if refuse_name(name) is None:
        assert TopicRig().store.log(f"{name}-0").next_offset == 0


@pytest.mark.parametrize("partitions", [0, -2, 10_001])
def test_a_number_of_partitions_that_cannot_be_is_refused(partitions: int) -> None:
    assert TopicRig().create("flights", partitions).error_code is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("replicas", [0, 2, 3, -2])
def test_there_is_one_node_to_put_replicas_on(replicas: int) -> None:
    assert TopicRig().create("flights", -1, replicas).error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert TopicRig().create("flights", -1, 1).error_code is ErrorCode.NONE


def test_a_topic_named_twice_in_one_request_is_not_made_at_all() -> None:
    rig = TopicRig()
    wanted = (CreatableTopic("twice"), CreatableTopic("once"), CreatableTopic("twice", 3))
    reply, _position = rig.topics.create(CreateTopics(wanted), rig.moment)
    assert [(topic.name, topic.error_code) for topic in reply.topics] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("once", ErrorCode.NONE),
    ]
    assert rig.topics.partition_count("twice") is None


def test_there_is_an_end_to_topics_and_to_their_partitions() -> None:
    rig = TopicRig(settings=TopicSettings(max_topics=2, max_partitions=10))
    rig.made("a", 6)
    assert rig.create("b", 5).error_code is ErrorCode.POLICY_VIOLATION
    rig.made("b", 4)
    refused = rig.create("c", 1)
    assert refused.error_code is ErrorCode.POLICY_VIOLATION
    assert refused.error_message == "there are 2 topics, the most there may be"


# --- settings ---


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("retention_ms", "-2", "a whole number from -1"),
        ("retention_bytes", "9" * 5_000, "a whole number"),
        ("segment_bytes", "100", "from 16384"),
        ("max_message_bytes", "one", "from 0 to 262144"),
        ("max_message_bytes", str((1 << 18) + 1), "from 0 to 262144"),
        ("max_message_bytes", "٣", "a whole number"),
        ("cleanup_policy", "forget", "delete, compact, both or none"),
        ("cleanup_policy", "delete,forget", "delete, compact, both or none"),
        ("min_insync_replicas", "2", "from 1 to 1"),
        ("compression_type", "zstd", "producer is allowed"),
        ("message_timestamp_type", "ProducerTime", "CreateTime"),
        ("min_cleanable_dirty_ratio", "1.5", "a number from 0 to 1"),
        ("min_cleanable_dirty_ratio", "nan", "a number from 0 to 1"),
        ("retention_ms", None, "has no value"),
        ("message_format_version", "2", "there are cleanup.policy, compression.type"),
    ],
)
def test_a_setting_that_is_none_or_cannot_be_is_refused_with_what_may_be(
    key: str, value: str | None, allowed: str
) -> None:
    refused = TopicRig().create("flights", **{key: value})
    assert refused.error_code is ErrorCode.INVALID_CONFIG
    assert allowed in (refused.error_message or "")


def test_a_topics_settings_say_how_its_logs_forget() -> None:
    rig = TopicRig(settings=TopicSettings(retention_ms=5, retention_bytes=6, segment_bytes=70_000))
    rig.made("plain", 1)
    rig.made("own", 1, retention_ms="-1", segment_bytes="50000", segment_ms="100", cleanup_policy="delete")
    rig.made("none", 1, cleanup_policy="")
    rig.made("table", 1, cleanup_policy="compact")
    rig.made("both", 1, cleanup_policy="compact,delete")
    for name in ("plain", "own", "none", "table", "both"):
        rig.send(b"", topic=name)
    assert rig.store.log("plain-0").policy == Retain(5, 6, 70_000, WEEK_MS)
    assert rig.store.log("own-0").policy == Retain(-1, 6, 50_000, 100)
    assert rig.store.log("none-0").policy == Retain(-1, -1, 70_000, WEEK_MS)
    compacted = Compact(segment_bytes=70_000, segment_ms=WEEK_MS)
    assert rig.store.log("table-0").policy == rig.store.log("both-0").policy == compacted


def test_settings_come_from_the_configuration() -> None:
    settings = settings_from(Config(num_partitions=4, auto_create_topics_enable=False, message_max_bytes=77))
    assert (settings.default_partitions, settings.auto_create) == (4, False)
    assert settings.max_message_bytes == 77
    assert settings.retention_ms == 7 * 24 * 60 * 60 * 1000
    assert settings_from(Config(log_retention_ms=-1)).retention_ms == -1


# --- shown ---


def test_without_names_all_topics_are_shown_by_name() -> None:
    rig = TopicRig()
    for name in ("c", "a", "b"):
        rig.made(name, 1)
    assert [topic.name for topic in rig.topics.metadata(Metadata(), rig.moment)] == ["a", "b", "c"]
    assert rig.topics.metadata(Metadata(()), rig.moment) == ()


def test_an_unknown_topic_is_made_if_the_client_and_the_node_both_allow_it() -> None:
    rig = TopicRig()
    (shown,) = rig.topics.metadata(named("flights"), rig.moment)
    assert shown.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (shown,) = rig.topics.metadata(named("flights", may_create=True), rig.moment)
    assert (shown.error_code, len(shown.partitions)) == (ErrorCode.NONE, 1)
    assert rig.topics.position == rig.store.position
    rig.flush()
    rig.crash()
    assert rig.topics.partition_count("flights") == 1


def test_a_node_that_makes_no_topics_by_itself_says_they_are_unknown() -> None:
    rig = TopicRig(settings=TopicSettings(auto_create=False))
    (shown,) = rig.topics.metadata(named("flights", may_create=True), rig.moment)
    assert shown.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rig.topics.topic_count == 0


@pytest.mark.parametrize("may_create", [False, True])
def test_asking_for_an_illegal_name_makes_nothing(may_create: bool) -> None:
    rig = TopicRig()
    for shown in rig.topics.metadata(named("a b", "__muster_x", may_create=may_create), rig.moment):
        assert shown.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert rig.topics.topic_count == 0


def test_topics_are_found_by_id_too() -> None:
    rig = TopicRig()
    rig.made("flights", 2)
    known, unknown = rig.topics.metadata(
        Metadata((MetadataTopic(None, FIRST_ID), MetadataTopic(None, SECOND_ID))), rig.moment
    )
    assert (known.name, len(known.partitions)) == ("flights", 2)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, SECOND_ID, ErrorCode.UNKNOWN_TOPIC_ID)


# --- on record ---


def test_a_record_reads_back_as_it_was_written() -> None:
    written = record(retention_ms="5")
    assert decode_topic(*encode_topic(written)) == ("flights", written)
    assert decode_topic(b"flights", None) == ("flights", None)


def test_a_record_with_fields_of_a_later_time_is_read() -> None:
    value = b"\0\1" + msgspec.msgpack.encode({"topic_id": FIRST_ID, "partitions": 8, "colour": "red"})
    assert decode_topic(b"flights", value) == ("flights", TopicRecord("flights", FIRST_ID, 8, {}, -1))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0\2" + encode_topic(record())[1][2:],
        b"\0\1",
        b"\0\1rubbish",
        encode_topic(record())[1][:-1],
        encode_topic(TopicRecord("flights", b"short", 1, {}, 0))[1],
        encode_topic(TopicRecord("flights", FIRST_ID, 0, {}, 0))[1],
    ],
)
def test_a_record_that_does_not_parse_stops_the_start_and_names_the_topic(value: bytes) -> None:
    with pytest.raises(TopicsCorrupt, match="flights"):
        decode_topic(b"flights", value)
    rig = TopicRig()
    rig.store.append(rig.store.log(TOPICS_LOG), encode_batch([(b"flights", value)], timestamp_ms=WALL_MS))
    with pytest.raises(TopicsCorrupt, match="flights"):
        rig.topics.load()


def test_the_last_record_of_a_name_counts_and_a_tombstone_ends_it() -> None:
    rig = TopicRig()
    log = rig.store.log(TOPICS_LOG)
    again = msgspec.structs.replace(record(), topic_id=SECOND_ID, partitions=3)
    gone = TopicRecord("gone", bytes(16), 1, {}, WALL_MS)
    for pair in (encode_topic(record()), encode_topic(gone), encode_topic(again), (b"gone", None)):
        rig.store.append(log, encode_batch([pair], timestamp_ms=WALL_MS))
    topics = TopicList(rig.store, TopicSettings(), rig.ids, Placement(1, 1, {}))
    topics.load()
    assert [(topic.record.name, topic.record.partitions) for topic in topics] == [("flights", 3)]
    assert (topics.name_of(FIRST_ID), topics.name_of(SECOND_ID)) == (None, "flights")
    assert topics._partitions == 3
