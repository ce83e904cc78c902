"""Which topics there are: kept in `__muster_topics-0`, changed by applying its records alone."""

from collections.abc import Iterator
from typing import Protocol

from coordinator.moment import Moment
from coordinator.topic_records import TOPICS_LOG, TopicRecord, decode_topic, encode_topic
from coordinator.topic_rules import (
    Refusal,
    TopicSettings,
    configs_of,
    refuse_configs,
    refuse_name,
    refuse_shape,
)
from partition_log.cleaning import Compact
from partition_log.errors import AppendError
from partition_log.log import PartitionLog
from partition_log.store import LogStore
from protocol.errors import ErrorCode
from protocol.messages.topics import NO_TOPIC_ID, CreatableTopic, MetadataPartitionReply, MetadataTopicReply
from protocol.record_batch import decode_batch, encode_batch

APPEND_ERRORS = {
    AppendError.DISK_FULL: ErrorCode.KAFKA_STORAGE_ERROR,
    AppendError.RECORD_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
}
"""What clients are told of an append that failed."""


class TopicIdSource(Protocol):
    """Where topic ids come from; seeded in tests."""

    def topic_id(self) -> bytes:
        """Sixteen bytes that name no topic yet, and are not all zero."""


class Topic:
    """A topic, and those of its partitions' logs that were asked for so far. What Metadata says of it never changes."""

    __slots__ = ("configs", "logs", "record", "reply")

    def __init__(self, record: TopicRecord, settings: TopicSettings) -> None:
        node = (settings.node_id,)
        self.record = record
        self.configs = configs_of(record.configs, settings)
        self.logs: dict[int, PartitionLog] = {}
        self.reply = MetadataTopicReply(
            name=record.name,
            topic_id=record.topic_id,
            partitions=tuple(
                MetadataPartitionReply(index, settings.node_id, replica_nodes=node, isr_nodes=node)
                for index in range(record.partitions)
            ),
        )


class TopicList:
    """Topics by name, in the order they were made, and by id."""

    def __init__(self, store: LogStore, settings: TopicSettings, ids: TopicIdSource) -> None:
        self._store = store
        self._settings = settings
        self._ids = ids
        self._log = store.log(TOPICS_LOG, Compact())
        self._topics: dict[str, Topic] = {}
        self._names: dict[bytes, str] = {}
        self._partitions = 0
        self.position = 0
        """Write-ahead position of the last change."""
        self.get = self._topics.get

    def load(self) -> None:
        """Replays the log. Raises `TopicsCorrupt`, `LogDamaged`."""
        for header, data in self._log.batches_from(self._log.start_offset):
            if not header.is_control:
                for entry in decode_batch(bytes(data)):
                    self._apply(*decode_topic(entry.key, entry.value))

    def _apply(self, name: str, record: TopicRecord | None) -> None:
        """The only one that changes the list, live and at load alike."""
        known = self._topics.pop(name, None)
        if known is not None:
            self._partitions -= known.record.partitions
            del self._names[known.record.topic_id]
        if record is not None:
            self._topics[name] = Topic(record, self._settings)
            self._names[record.topic_id] = name
            self._partitions += record.partitions

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    # ------------------------------------------------------------------------------------------------------- making

    def make(self, wanted: CreatableTopic, moment: Moment) -> Topic | Refusal:
        """The topic, on record; it may be told of when `position` is durable."""
        planned = self.plan(wanted, moment, self._ids.topic_id())
        if isinstance(planned, Refusal):
            return planned
        record = planned.record
        appended = self._store.append(self._log, encode_batch([encode_topic(record)], timestamp_ms=moment.wall_ms))
        if isinstance(appended, AppendError):
            return Refusal(APPEND_ERRORS[appended], appended.value)
        self.position = appended.position
        self._apply(record.name, record)
        return self._topics[record.name]

    def plan(self, wanted: CreatableTopic, moment: Moment, topic_id: bytes = NO_TOPIC_ID) -> Topic | Refusal:
        """What `make` would make, or why it would not. Nothing changes."""
        refused = self._refuse(wanted)
        if refused is not None:
            return refused
        configs = {config.name: config.value for config in wanted.configs if config.value is not None}
        return Topic(TopicRecord(wanted.name, topic_id, self._count(wanted), configs, moment.wall_ms), self._settings)

    def _refuse(self, wanted: CreatableTopic) -> Refusal | None:
        refused = refuse_name(wanted.name)
        if refused is None and wanted.name in self._topics:
            refused = Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {wanted.name} already")
        return (
            refused
            or refuse_shape(wanted, self._settings)
            or refuse_configs(wanted.configs, self._settings)
            or self._refuse_more(self._count(wanted))
        )

    def _refuse_more(self, partitions: int) -> Refusal | None:
        settings = self._settings
        if len(self._topics) >= settings.max_topics:
            return Refusal(ErrorCode.POLICY_VIOLATION, f"there are {settings.max_topics} topics, the most there may be")
        if self._partitions + partitions > settings.max_partitions:
            reason = f"all topics together may have {settings.max_partitions} partitions, and have {self._partitions}"
            return Refusal(ErrorCode.POLICY_VIOLATION, reason)
        return None

    def _count(self, wanted: CreatableTopic) -> int:
        return self._settings.default_partitions if wanted.num_partitions == -1 else wanted.num_partitions
