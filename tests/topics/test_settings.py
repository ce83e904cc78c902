"""Settings of a topic: told, changed, described, and what they do."""

import pytest

from coordinator.topics.admin import altered
from coordinator.topics.append_time import with_append_time
from coordinator.topics.configs import SETTINGS, created_configs, described_config
from coordinator.topics.embedded import TopicSettings
from coordinator.topics.registry import Topic
from coordinator.topics.rules import TopicRefusal
from partition_log.cleanup_policy import Retain
from protocol.errors import ErrorCode
from protocol.messages.configs import AlterableConfig, ConfigOperation, ConfigSource
from protocol.messages.topics import DeletableTopic, DeleteTopics
from protocol.record_batch import check_batch
from tests.topics.topic_rig import WALL_MS, TopicRig, batch, records

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def alter(rig: TopicRig, *changes: tuple[str, int, str | None], validate_only: bool = False) -> TopicRefusal | None:
    configs = [AlterableConfig(*change) for change in changes]
    return rig.topics.alter("flights", configs, rig.moment, validate_only=validate_only)


def test_settings_change_at_once_and_for_good() -> None:
    rig = TopicRig(settings=TopicSettings(retention_ms=5))
    rig.made("flights", 1, retention_ms="77", segment_bytes="20000")
    rig.store_now("a")
    assert alter(rig, ("retention.ms", DELETE, None), ("retention.bytes", SET, "9")) is None
    rig.flush()
    assert rig.store.log("flights-0").policy == Retain(5, 9, 20_000, 604_800_000)
    rig.crash()
    assert rig.topics.configs("flights") == {"segment.bytes": "20000", "retention.bytes": "9"}


def test_lists_are_appended_to_and_subtracted_from() -> None:
    rig = TopicRig()
    rig.made("flights", 1)

    def policy() -> str:
        return (rig.topics.configs("flights") or {})["cleanup.policy"]

    assert alter(rig, ("cleanup.policy", APPEND, "compact")) is None
    assert policy() == "delete,compact"
    assert alter(rig, ("cleanup.policy", APPEND, "compact")) is None
    assert policy() == "delete,compact"
    assert alter(rig, ("cleanup.policy", SUBTRACT, "delete,other")) is None
    assert policy() == "compact"
    assert alter(rig, ("cleanup.policy", SET, " compact , delete ")) is None
    assert policy() == "compact,delete"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("nosuch", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 7, "5")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "5"), ("retention.ms", SET, "6")], ErrorCode.INVALID_REQUEST),
        ([("cleanup.policy", APPEND, "forget")], ErrorCode.INVALID_CONFIG),
        ([("retention.bytes", SET, "5"), ("segment.bytes", SET, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_topic_is_changed_as_a_whole_or_not_at_all(
    changes: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    rig = TopicRig()
    rig.made("flights", 1, retention_ms="77")
    refused = alter(rig, *changes)
    assert refused is not None
    assert refused.error is error
    assert rig.topics.configs("flights") == {"retention.ms": "77"}


def test_what_a_topic_never_had_can_be_deleted_as_in_kafka() -> None:
    rig = TopicRig()
    rig.made("flights", 1, retention_ms="77")
    assert alter(rig, ("nosuch", DELETE, None), ("retention.ms", DELETE, "5")) is None
    assert rig.topics.configs("flights") == {}


def test_what_would_be_changed_is_decided_without_changing_it() -> None:
    rig = TopicRig()
    rig.made("flights", 1, retention_ms="77")
    ((_wanted, topic),) = rig.topics.deletable(DeleteTopics((DeletableTopic("flights"),)))
    assert isinstance(topic, Topic)
    changes = [AlterableConfig("retention.bytes", SET, "5"), AlterableConfig("retention.ms", DELETE)]
    assert altered(topic, changes, rig.topics.settings) == {"retention.bytes": "5"}
    assert topic.record.configs == {"retention.ms": "77"}


def test_validating_changes_nothing() -> None:
    rig = TopicRig()
    rig.made("flights", 1)
    position = rig.topics.position
    assert alter(rig, ("retention.ms", SET, "5"), validate_only=True) is None
    assert (rig.topics.configs("flights"), rig.topics.position) == ({}, position)


def test_a_setting_is_described_with_all_places_it_could_come_from() -> None:
    settings = TopicSettings(retention_bytes=9)
    own = described_config("retention.bytes", {"retention.bytes": "5"}, settings)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in own.synonyms] == [
        ("retention.bytes", "5", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.bytes", "9", ConfigSource.STATIC_BROKER),
        ("log.retention.bytes", "-1", ConfigSource.DEFAULT),
    ]
    plain = described_config("retention.bytes", {}, TopicSettings())
    assert (plain.value, plain.is_default, len(plain.synonyms)) == ("-1", True, 1)


def test_every_setting_allows_what_holds_without_it() -> None:
    settings = TopicSettings()
    for config in created_configs({}, settings):
        assert SETTINGS[config.name].check(config.value or "", settings) == "", config


def test_whoever_makes_a_topic_is_told_its_settings() -> None:
    rig = TopicRig(settings=TopicSettings(segment_bytes=70_000))
    configs = {config.name: config for config in rig.create("flights", retention_ms="5").configs or ()}
    assert list(configs) == list(SETTINGS)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == (
        "70000",
        ConfigSource.STATIC_BROKER,
    )
    assert configs["cleanup.policy"].config_source is ConfigSource.DEFAULT


def test_a_batch_with_the_time_of_its_append_is_sound_and_else_the_same() -> None:
    sent = batch("a", "b", at_ms=5)
    timed = with_append_time(sent, WALL_MS)
    header = check_batch(timed)
    assert (header.max_timestamp_ms, header.attributes) == (WALL_MS, 0x08)
    assert timed[43:] == sent[43:]
    assert timed[:17] == sent[:17]


def test_records_may_have_the_time_of_their_append() -> None:
    rig = TopicRig()
    rig.made("flights", 1, message_timestamp_type="LogAppendTime")
    answer = rig.send(batch("a", "b", at_ms=5))
    rig.flush()
    assert answer.log_append_time_ms == WALL_MS
    stored = rig.read(0).records
    check_batch(stored)
    assert [(record.timestamp_ms, record.value) for record in records(stored)] == [(WALL_MS, b"a"), (WALL_MS, b"b")]
    assert rig.find(WALL_MS).offset == 0
    assert rig.find(WALL_MS + 1).offset == -1
    assert alter(rig, ("message.timestamp.type", DELETE, None)) is None
    assert rig.send(batch("c", at_ms=5)).log_append_time_ms == -1
