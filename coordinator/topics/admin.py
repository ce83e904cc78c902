"""Changes of the list of topics: create, grow, delete, configure. A request may fail for one topic and succeed for
another. A topic that a request names twice is refused, as in Kafka, since the two entries may differ."""

from collections import Counter
from collections.abc import Iterable

from coordinator.clock import Moment
from coordinator.topics.configs import SETTINGS, created_configs, kept, refuse_config, unknown, words_of
from coordinator.topics.registry import Topic, TopicList
from coordinator.topics.rules import TopicRefusal, TopicSettings
from protocol.errors import ErrorCode
from protocol.messages.configs import AlterableConfig, ConfigOperation, ConfigType
from protocol.messages.topics import (
    NO_TOPIC_ID,
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    GrownTopic,
)

_TWICE = TopicRefusal(ErrorCode.INVALID_REQUEST, "the request names it more than once")


def _twice(names: Iterable[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1}


def create(topics: TopicList, settings: TopicSettings, message: CreateTopics, moment: Moment) -> CreateTopicsReply:
    """Create topics. The reply waits for the list's `position`."""
    twice = _twice(wanted.name for wanted in message.topics)
    replies = []
    for wanted in {wanted.name: wanted for wanted in message.topics}.values():
        if wanted.name in twice:
            made: Topic | TopicRefusal = _TWICE
        elif message.validate_only:
            made = topics.plan(wanted, moment)
        else:
            made = topics.make(wanted, moment)
        replies.append(_created(wanted.name, made, settings))
    return CreateTopicsReply(tuple(replies))


def _created(name: str, made: Topic | TopicRefusal, settings: TopicSettings) -> CreatedTopic:
    if isinstance(made, TopicRefusal):
        return CreatedTopic(name, error_code=made.error, error_message=made.message)
    record = made.record
    return CreatedTopic(
        name,
        record.topic_id,
        num_partitions=record.partitions,
        replication_factor=1,
        configs=created_configs(record.configs, settings),
    )


def grow(topics: TopicList, message: CreatePartitions, moment: Moment) -> CreatePartitionsReply:
    """Add partitions. The reply waits for the list's `position`."""
    twice = _twice(wanted.name for wanted in message.topics)
    replies = []
    for wanted in {wanted.name: wanted for wanted in message.topics}.values():
        if wanted.name in twice:
            refused: TopicRefusal | None = _TWICE
        else:
            refused = topics.grow(wanted, moment, validate_only=message.validate_only)
        if refused is None:
            replies.append(GrownTopic(wanted.name))
        else:
            replies.append(GrownTopic(wanted.name, refused.error, refused.message))
    return CreatePartitionsReply(tuple(replies))


def deletable(topics: TopicList, wanted: Iterable[DeletableTopic]) -> list[tuple[DeletableTopic, Topic | TopicRefusal]]:
    """Resolve the topics of a DeleteTopics, or return their errors; each once. A topic that is named twice is not
    deleted."""
    meant: dict[object, tuple[DeletableTopic, Topic | TopicRefusal]] = {}
    for one in wanted:
        found = _find(topics, one)
        key = found.record.name if isinstance(found, Topic) else one
        meant[key] = (one, found) if key not in meant else (one, _TWICE)
    return list(meant.values())


def _find(topics: TopicList, wanted: DeletableTopic) -> Topic | TopicRefusal:
    if wanted.name is not None and wanted.topic_id != NO_TOPIC_ID:
        return TopicRefusal(ErrorCode.INVALID_REQUEST, "a topic is named by name or by id, not by both")
    if wanted.name is None and wanted.topic_id == NO_TOPIC_ID:
        return TopicRefusal(ErrorCode.INVALID_REQUEST, "neither name nor id is given")
    name = topics.name_of(wanted.topic_id) if wanted.name is None else wanted.name
    topic = None if name is None else topics.get(name)
    if topic is not None:
        return topic
    if name is not None and (refused := topics.refuse_own(name)) is not None:
        return refused
    if wanted.name is None:
        return TopicRefusal(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
    return TopicRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")


# ---------------------------------------------------------------------------------------------------------- settings


def altered(topic: Topic, changes: Iterable[AlterableConfig], settings: TopicSettings) -> dict[str, str] | TopicRefusal:
    """Return the topic's own settings with all the changes, or the error of the first that is invalid (KIP-339)."""
    configs, seen = dict(topic.record.configs), set[str]()
    for change in changes:
        if change.name in seen:
            return TopicRefusal(ErrorCode.INVALID_REQUEST, f"the request changes {change.name} more than once")
        seen.add(change.name)
        if change.config_operation == ConfigOperation.DELETE:
            configs.pop(change.name, None)  # any setting may be reset, set or not, as in Kafka
            continue
        if change.name not in SETTINGS:
            return TopicRefusal(ErrorCode.INVALID_CONFIG, unknown("topic", change.name, SETTINGS))
        value = _changed(change, configs, settings)
        if isinstance(value, TopicRefusal):
            return value
        configs[change.name] = value
    return configs


def _changed(change: AlterableConfig, configs: dict[str, str], settings: TopicSettings) -> str | TopicRefusal:
    """Return the new value of the setting."""
    name, value, setting = change.name, change.value, SETTINGS[change.name]
    if value is None:
        return TopicRefusal(ErrorCode.INVALID_REQUEST, f"{name} has no value")
    if change.config_operation in {ConfigOperation.APPEND, ConfigOperation.SUBTRACT}:
        if setting.type is not ConfigType.LIST:
            return TopicRefusal(ErrorCode.INVALID_CONFIG, f"{name} is no list: nothing can be appended or subtracted")
        words = words_of(configs.get(name, setting.node_value(settings)))
        others = words_of(value)
        if change.config_operation == ConfigOperation.APPEND:
            words += others
        else:
            words = [word for word in words if word not in others]
        value = ",".join(words)
    elif change.config_operation != ConfigOperation.SET:
        return TopicRefusal(ErrorCode.INVALID_REQUEST, f"{change.config_operation} is no operation on a setting")
    return refuse_config(name, value, settings) or kept(name, value)
