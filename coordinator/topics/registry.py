"""List of the embedded topics, stored in `__muster_topics-0` and changed only by applying its records."""

from collections.abc import Iterator, Mapping
from heapq import merge
from typing import Protocol

from msgspec.structs import replace
from sortedcontainers import SortedDict

from coordinator.clock import Moment
from coordinator.placement import Placement
from coordinator.topics.configs import configs_of, kept, refuse_configs
from coordinator.topics.records import TOPICS_LOG, TopicRecord, decode_topic, encode_deleted, encode_topic
from coordinator.topics.rules import (
    TopicRefusal,
    TopicSettings,
    collapsed,
    is_own,
    refuse_growth,
    refuse_name,
    refuse_shape,
)
from partition_log.cleanup_policy import Compact
from partition_log.errors import AppendError
from partition_log.log.partition_log import PartitionLog
from partition_log.store.log_store import LogStore
from protocol.errors import ErrorCode
from protocol.messages.topics import (
    NO_TOPIC_ID,
    CreatableTopic,
    GrowingTopic,
    MetadataPartitionReply,
    MetadataTopicReply,
)
from protocol.record_batch import decode_batch, encode_batch

APPEND_ERRORS = {
    AppendError.DISK_FULL: ErrorCode.KAFKA_STORAGE_ERROR,
    AppendError.RECORD_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
}
"""Errors for clients whose appends failed."""


class TopicIdSource(Protocol):
    """Source of topic ids; seeded in tests."""

    def topic_id(self) -> bytes:
        """Return sixteen bytes that are no topic's id, and not all zero."""


class Topic:
    """A topic as of its last record, and the logs of its partitions opened so far."""

    __slots__ = ("configs", "logs", "record", "reply")

    def __init__(self, record: TopicRecord, settings: TopicSettings, placement: Placement) -> None:
        self.record = record
        self.configs = configs_of(record.configs, settings)
        self.logs: dict[int, PartitionLog] = {}
        self.reply = MetadataTopicReply(
            name=record.name,
            topic_id=record.topic_id,
            is_internal=is_own(record.name),
            partitions=tuple(
                [_led_by(index, placement.leader_of(record.name, index)) for index in range(record.partitions)]
            ),
        )


def _led_by(index: int, node: int) -> MetadataPartitionReply:
    return MetadataPartitionReply(index, node, replica_nodes=(node,), isr_nodes=(node,))


class TopicList:
    """Topics by name, in the order of their names, and by id. `deleted`: deleted topics whose name is not free yet."""

    def __init__(self, store: LogStore, settings: TopicSettings, ids: TopicIdSource, placement: Placement) -> None:
        self._store = store
        self._settings = settings
        self._ids = ids
        self._placement = placement
        self._log = store.log(TOPICS_LOG, Compact())
        self._topics: SortedDict[str, Topic] = SortedDict()
        self._names: dict[bytes, str] = {}
        self._collapsed: dict[str, str] = {}
        self._partitions = 0
        self.deleted: dict[str, TopicRecord] = {}
        self.position = 0
        """Write-ahead position of the last change."""
        self.get = self._topics.get
        self.own: Topic | None = None
        """The service's own topic that clients may read; `find` returns it, `get` does not."""

    def load(self) -> None:
        """Replay the log. Raises `TopicsCorrupt`, `LogDamaged`."""
        for header, data in self._log.batches_from(self._log.start_offset):
            if not header.is_control:
                for entry in decode_batch(bytes(data)):
                    self._apply(*decode_topic(entry.key, entry.value))

    def _apply(self, name: str, record: TopicRecord | None) -> None:
        """Apply a record: the only mutator of the list, live and at load alike."""
        known = self._topics.get(name)
        if known is not None:
            self._partitions -= known.record.partitions
            del self._names[known.record.topic_id]
        self.deleted.pop(name, None)
        if record is not None and not record.is_deleted:
            self._put(record, known)
            return
        if known is not None:
            del self._topics[name]
            self._collapsed.pop(collapsed(name), None)
        if record is not None:
            self.deleted[name] = record

    def _put(self, record: TopicRecord, known: Topic | None) -> None:
        topic = Topic(record, self._settings, self._placement)
        if known is not None:
            topic.logs = known.logs
            for log in topic.logs.values():
                log.policy = topic.configs.policy
                self._store.note_changed(log)
        self._topics[record.name] = topic
        self._names[record.topic_id] = record.name
        self._collapsed[collapsed(record.name)] = record.name
        self._partitions += record.partitions

    def _write(
        self, name: str, record: TopicRecord | None, moment: Moment, *, makes_room: bool = False
    ) -> TopicRefusal | None:
        """Append and apply a record; replies may show its change when `position` is durable."""
        entry = encode_deleted(name) if record is None else encode_topic(record)
        batch = encode_batch([entry], timestamp_ms=moment.wall_ms)
        appended = self._store.append(self._log, batch, makes_room=makes_room)
        if isinstance(appended, AppendError):
            return TopicRefusal(APPEND_ERRORS[appended], appended.value)
        self.position = appended.position
        self._apply(name, record)
        return None

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def find(self, name: str) -> Topic | None:
        """Return the topic for a reader: one in the list, or the service's own."""
        topic = self._topics.get(name)
        return self.own if topic is None and self._is_own(name) else topic

    def refuse_own(self, name: str) -> TopicRefusal | None:
        """Refuse the service's own topic, which clients may only read."""
        if not self._is_own(name):
            return None
        return TopicRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is the service's own: it may be read")

    def absence(self, name: str) -> ErrorCode:
        """Return the error for a topic that does not exist or may not be written to."""
        return ErrorCode.INVALID_TOPIC_EXCEPTION if self._is_own(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _is_own(self, name: str) -> bool:
        return self.own is not None and name == self.own.record.name

    def all(self) -> list[Topic]:
        """Return all topics in the order of their names, and the service's own if it has records."""
        found = list(self._topics.values())
        if self.own is not None and self._shows_own():
            found.append(self.own)
        return found

    def _shows_own(self) -> bool:
        return self.own is not None and any(log.next_offset for log in self.own.logs.values())

    def names_from(self, first: str) -> Iterator[str]:
        """Names of the same topics in order, from this one on; names before it are not read."""
        own = [self.own.record.name] if self.own is not None and self._shows_own() else []
        return merge(self._topics.irange(first), [name for name in own if name >= first])

    def name_of(self, topic_id: bytes) -> str | None:
        if self.own is not None and topic_id == self.own.record.topic_id:
            return self.own.record.name
        return self._names.get(topic_id)

    # --------------------------------------------------------------------------------------------------------- creation

    def make(self, wanted: CreatableTopic, moment: Moment) -> Topic | TopicRefusal:
        """Create the topic and append its record."""
        planned = self.plan(wanted, moment, self._ids.topic_id())
        if isinstance(planned, TopicRefusal):
            return planned
        return self._write(wanted.name, planned.record, moment) or self._topics[wanted.name]

    def plan(self, wanted: CreatableTopic, moment: Moment, topic_id: bytes = NO_TOPIC_ID) -> Topic | TopicRefusal:
        """Return the topic that `make` would create, or its error. Nothing changes."""
        refused = self._refuse(wanted)
        if refused is not None:
            return refused
        configs = {
            config.name: kept(config.name, config.value) for config in wanted.configs if config.value is not None
        }
        record = TopicRecord(wanted.name, topic_id, self._count(wanted), configs, moment.wall_ms)
        return Topic(record, self._settings, self._placement)

    def _refuse(self, wanted: CreatableTopic) -> TopicRefusal | None:
        if self._is_own(wanted.name):
            return TopicRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {wanted.name}, the service's own")
        return (
            refuse_name(wanted.name)
            or self._refuse_taken(wanted.name)
            or refuse_shape(wanted, self._settings, self._placement.node_ids)
            or refuse_configs(wanted.configs, self._settings)
            or self._refuse_more(1, self._count(wanted))
        )

    def _refuse_taken(self, name: str) -> TopicRefusal | None:
        if name in self._topics:
            return TopicRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {name} already")
        if name in self.deleted:
            reason = f"the topic {name} is still being deleted, with what groups have committed for it"
            return TopicRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, reason)
        other = self._collapsed.get(collapsed(name))
        if other is not None:
            return TopicRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} differs from {other} only by '.' and '_'")
        return None

    def _refuse_more(self, topics: int, partitions: int) -> TopicRefusal | None:
        settings = self._settings
        if len(self._topics) + topics > settings.max_topics:
            return TopicRefusal(
                ErrorCode.POLICY_VIOLATION, f"there are {settings.max_topics} topics, the most there may be"
            )
        if self._partitions + partitions > settings.max_partitions:
            reason = f"all topics together may have {settings.max_partitions} partitions, and have {self._partitions}"
            return TopicRefusal(ErrorCode.POLICY_VIOLATION, reason)
        return None

    def _count(self, wanted: CreatableTopic) -> int:
        if wanted.assignments:
            return len(wanted.assignments)
        return self._settings.default_partitions if wanted.num_partitions == -1 else wanted.num_partitions

    # ---------------------------------------------------------------------------------------------------------- changes

    def grow(self, wanted: GrowingTopic, moment: Moment, *, validate_only: bool) -> TopicRefusal | None:
        """Add partitions and append the topic's record; produced records stay in their partitions."""
        topic = self._topics.get(wanted.name)
        if topic is None:
            absent = TopicRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.name}")
            return self.refuse_own(wanted.name) or absent
        has = topic.record.partitions
        refused = refuse_growth(wanted, has, self._settings, self._placement.node_ids) or self._refuse_more(
            0, wanted.count - has
        )
        if refused is not None or validate_only:
            return refused
        return self._write(wanted.name, replace(topic.record, partitions=wanted.count), moment)

    def configure(self, topic: Topic, configs: Mapping[str, str], moment: Moment) -> TopicRefusal | None:
        """Replace the topic's own settings and append its record."""
        return self._write(topic.record.name, replace(topic.record, configs=dict(configs)), moment)

    def delete(self, topic: Topic, moment: Moment) -> TopicRefusal | None:
        """Hide the topic; its name is taken until `free`. Allowed on a full disk: deletion frees space."""
        return self._write(topic.record.name, replace(topic.record, is_deleted=True), moment, makes_room=True)

    def free(self, name: str, moment: Moment) -> TopicRefusal | None:
        """Free the name of a deleted topic."""
        return self._write(name, None, moment, makes_room=True)
