"""Embedded topics: their list, produce and fetch, answered from partition logs.

Errors are values in the replies, by topic or by partition. A reply that promises durable state is returned with the
write-ahead position that it must wait for (the write rule).
"""

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence

from coordinator.clock import Moment
from coordinator.config.keys import INT_MAX
from coordinator.keys import NewRecordsKey
from coordinator.placement import Placement
from coordinator.topics.admin import altered, create, deletable, grow
from coordinator.topics.append_time import with_append_time
from coordinator.topics.configs import TopicConfigs
from coordinator.topics.fetch import DelayedFetch, FetchReady, ReplyBudget, epoch_error, read
from coordinator.topics.find_offset import EFFORT_US, SearchBudget, end_of_epoch, find_offset
from coordinator.topics.metadata import Sees, describe_partitions, metadata
from coordinator.topics.produce import (
    PARTITION_US,
    Allowance,
    BatchError,
    Limits,
    allowed_times,
    check_records,
    check_sequences,
)
from coordinator.topics.registry import APPEND_ERRORS, Topic, TopicIdSource, TopicList
from coordinator.topics.rules import OFFSETS_TOPIC, TopicRefusal, TopicSettings, settings_from
from partition_log.errors import AppendError
from partition_log.log.partition_log import PartitionLog
from partition_log.store.log_store import LogStore
from protocol.errors import ErrorCode
from protocol.messages.configs import AlterableConfig
from protocol.messages.data import (
    EpochEndOffset,
    EpochPartition,
    EpochTopicReply,
    Fetch,
    FetchPartition,
    FetchPartitionReply,
    FetchReply,
    FetchTopic,
    FetchTopicReply,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
    Produce,
    ProducePartition,
    ProducePartitionReply,
    ProduceReply,
    ProduceTopicReply,
)
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopic,
    ListOffsetsTopicReply,
)
from protocol.messages.topics import (
    NO_TOPIC_ID,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    DeleteTopics,
    DescribeTopicPartitions,
    DescribeTopicPartitionsReply,
    Metadata,
    MetadataTopicReply,
)
from protocol.session import RequestRef

__all__ = ["DelayedFetch", "EmbeddedTopics", "FetchReady", "TopicIdSource", "TopicSettings", "settings_from"]

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NONE = ErrorCode.NONE

Producing = Generator[int, Moment, tuple[ProduceReply, int]]
Putting = Generator[int, Moment, ProducePartitionReply]
Answers = dict[tuple[str, ListOffsetsPartition], ListOffsetsPartitionReply]


class EmbeddedTopics:
    """Topics whose partitions are logs of this node."""

    def __init__(self, store: LogStore, settings: TopicSettings, ids: TopicIdSource, placement: Placement) -> None:
        self._store = store
        self._settings = settings
        self._topics = TopicList(store, settings, ids, placement)
        # Partitions with records above the high watermark, and the high watermark that was last reported to their
        # readers.
        self._advancing: dict[NewRecordsKey, tuple[PartitionLog, int]] = {}

    def load(self) -> None:
        """Load the list, before anything else. Raises `TopicsCorrupt`, `LogDamaged`: a node must not start without its
        topics."""
        self._topics.load()
        for name in self.deleted:
            self.remove_logs(name)  # left over by a crash
        for log in _strays(self._store.names(), self._topics):
            self._store.remove(log)

    def show(self, own: Topic) -> None:
        """Show the service's own topic to readers."""
        self._topics.own = own

    @property
    def settings(self) -> TopicSettings:
        """Settings shared by all topics."""
        return self._settings

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics)

    @property
    def topic_count(self) -> int:
        return len(self._topics)

    @property
    def position(self) -> int:
        """Write-ahead position of the last change of the list: a reply that names topics waits for it."""
        return self._topics.position

    def partition_count(self, name: str) -> int | None:
        """Number of the topic's partitions; None if there is no such topic."""
        topic = self._topics.find(name)
        return None if topic is None else topic.record.partitions

    def name_of(self, topic_id: bytes) -> str | None:
        """Name of the topic with the id; None if no topic has it."""
        return self._topics.name_of(topic_id)

    def id_of(self, name: str) -> bytes | None:
        """Id of the topic; None if there is no such topic."""
        topic = self._topics.find(name)
        return None if topic is None else topic.record.topic_id

    def id_to_record(self, name: str) -> bytes:
        """Return no id: offsets of an embedded topic are deleted with it."""
        return NO_TOPIC_ID

    def may_own(self, name: str, topic_id: bytes) -> bool:
        """Return true: the log may come from a cluster whose topics had other ids."""
        return True

    def _log(self, name: str, partition: int) -> PartitionLog | None:
        """Return the partition's log, opened at first use; None if there is no such partition."""
        topic = self._topics.find(name)
        if topic is None:
            return None
        log = topic.logs.get(partition)
        if log is None and 0 <= partition < topic.record.partitions:
            log = self._store.log(f"{name}-{partition}", topic.configs.policy)
            topic.logs[partition] = log
        return log

    def log_and_configs(self, name: str, partition: int) -> tuple[PartitionLog, TopicConfigs] | None:
        """Return log and settings of a partition; None if there is no such one."""
        topic, log = self._topics.get(name), self._log(name, partition)
        return None if topic is None or log is None else (log, topic.configs)

    # --------------------------------------------------------------------------------------------------------- metadata

    def metadata(self, message: Metadata, moment: Moment) -> tuple[MetadataTopicReply, ...]:
        """Describe topics for a Metadata; the reply waits for `position`."""
        return metadata(self._topics, self._settings, message, moment)

    def describe_partitions(self, message: DescribeTopicPartitions, sees: Sees = None) -> DescribeTopicPartitionsReply:
        """Describe topics in pages, all of them if `sees` is None; the reply waits for `position`."""
        return describe_partitions(self._topics, message, sees)

    def create(self, message: CreateTopics, moment: Moment) -> tuple[CreateTopicsReply, int]:
        """Create topics, with an error for each that fails; return the reply and the position it waits for."""
        return create(self._topics, self._settings, message, moment), self.position

    def grow(self, message: CreatePartitions, moment: Moment) -> tuple[CreatePartitionsReply, int]:
        """Add partitions; return the reply and the position it waits for."""
        return grow(self._topics, message, moment), self.position

    def configs(self, name: str) -> Mapping[str, str] | None:
        """Own settings of the topic; None if there is no such topic."""
        topic = self._topics.find(name)
        return None if topic is None else topic.record.configs

    def alter(
        self, name: str, changes: Sequence[AlterableConfig], moment: Moment, *, validate_only: bool
    ) -> TopicRefusal | None:
        """Change the topic's own settings, all or none; durable when `position` is."""
        topic = self._topics.get(name)
        if topic is None:
            return self._topics.refuse_own(name) or TopicRefusal(_UNKNOWN, f"there is no topic {name}")
        configs = altered(topic, changes, self._settings)
        if isinstance(configs, TopicRefusal):
            return configs
        if validate_only or configs == topic.record.configs:
            return None
        return self._topics.configure(topic, configs, moment)

    # ----------------------------------------------------------------------------------------------------- deletion

    def deletable(self, message: DeleteTopics) -> list[tuple[DeletableTopic, Topic | TopicRefusal]]:
        """Resolve the topics of a DeleteTopics, or return their errors."""
        return deletable(self._topics, message.topics)

    def delete(self, topic: Topic, moment: Moment) -> TopicRefusal | list[Hashable]:
        """Hide the topic and delete its logs. Return the notification keys of delayed fetches of its records. Its name
        is taken until `free`; the caller deletes the offsets committed for it."""
        refused = self._topics.delete(topic, moment)
        if refused is not None:
            return refused
        self.remove_logs(topic.record.name)
        keys = [NewRecordsKey(topic.record.name, partition) for partition in topic.logs]
        for key in keys:
            self._advancing.pop(key, None)
        return list[Hashable](keys)

    @property
    def deleted(self) -> list[str]:
        """Names of deleted topics that are not free yet."""
        return list(self._topics.deleted)

    def remove_logs(self, name: str) -> bool:
        """Remove the logs of a deleted topic; false if the disk is too full to record it."""
        record = self._topics.deleted[name]
        for partition in range(record.partitions):
            if isinstance(self._store.remove(f"{name}-{partition}"), AppendError):
                return False
        return True

    def free(self, name: str, moment: Moment) -> TopicRefusal | None:
        """Free the name of a deleted topic: another topic may get it when `position` is durable."""
        return self._topics.free(name, moment)

    # ------------------------------------------------------------------------------------------------------ produce

    def produce(self, message: Produce, moment: Moment) -> tuple[ProduceReply, int]:
        """Append all records at once."""
        work = self.producing(message)
        next(work)
        try:
            while True:
                work.send(moment)
        except StopIteration as done:
            result: tuple[ProduceReply, int] = done.value
            return result

    def producing(self, message: Produce) -> Producing:
        """Append records, with a result for each partition. The generator returns the reply and, if `acks` is -1, the
        position to wait for. It yields the estimated cost of each short piece in microseconds, and is sent the moment.
        Other requests may be served in between."""
        allowance = Allowance(self._settings.max_work_us)
        put: Callable[[str, ProducePartition, Allowance, Moment], Putting] = self._append_batches
        moment = yield 0
        if message.acks not in {-1, 0, 1}:
            put = _refuse_acks
        elif message.transactional_id is not None:
            put = _refuse_transactions
        replies = []
        for topic in message.topic_data:
            name = topic.name or self._topics.name_of(topic.topic_id)
            if name is None:
                parts = [ProducePartitionReply(part.index, ErrorCode.UNKNOWN_TOPIC_ID) for part in topic.partition_data]
            else:
                parts = []
                for part in topic.partition_data:
                    parts.append((yield from put(name, part, allowance, moment)))
                    moment = yield PARTITION_US
            replies.append(ProduceTopicReply(topic.name, tuple(parts), topic.topic_id))
        # A duplicate that was stored before may not be durable yet either.
        stored = any(part.error_code is _NONE for topic in replies for part in topic.partition_responses)
        return ProduceReply(tuple(replies)), self._store.position if message.acks == -1 and stored else 0

    def _append_batches(self, name: str, part: ProducePartition, allowance: Allowance, moment: Moment) -> Putting:
        """Append several batches one by one: if the disk fills up between them, the earlier ones stay."""
        known = self.log_and_configs(name, part.index)
        if known is None:
            return ProducePartitionReply(part.index, self._topics.absence(name))
        limits = Limits(
            known[1].max_message_bytes, self._settings.max_decompressed_bytes, self._settings.max_records_per_batch
        )
        checked = yield from check_records(part.records, limits, allowance, allowed_times(known[1], moment))
        if isinstance(checked, BatchError):
            return ProducePartitionReply(part.index, checked.error, error_message=checked.message)
        topic, log = self._topics.get(name), self._log(name, part.index)
        if topic is None or log is None:  # deleted meanwhile
            return ProducePartitionReply(part.index, _UNKNOWN)
        stored_at = check_sequences(log, checked)
        if isinstance(stored_at, BatchError):
            return ProducePartitionReply(part.index, stored_at.error, error_message=stored_at.message)
        base_offset = log.next_offset if stored_at[0] is None else stored_at[0]
        append_time_ms = moment.wall_ms if topic.configs.has_append_time else -1
        for batch, known_at in zip(checked, stored_at, strict=True):
            if known_at is not None:
                continue
            timed = batch if append_time_ms < 0 else with_append_time(batch, append_time_ms)
            appended = self._store.append(log, timed)
            if isinstance(appended, AppendError):
                return ProducePartitionReply(part.index, APPEND_ERRORS[appended], error_message=appended.value)
            self._advancing.setdefault(NewRecordsKey(name, part.index), (log, log.flushed_offset))
        return ProducePartitionReply(part.index, _NONE, base_offset, append_time_ms, log.start_offset)

    def advanced(self) -> list[Hashable]:
        """Notification keys of the partitions whose high watermark has moved since the last call."""
        moved: list[Hashable] = []
        for key, (log, shown) in list(self._advancing.items()):
            if log.flushed_offset > shown:
                moved.append(key)
                self._advancing[key] = (log, log.flushed_offset)
            if log.flushed_offset == log.next_offset:
                del self._advancing[key]
        return moved

    # -------------------------------------------------------------------------------------------------------- fetch

    def fetch(self, ref: RequestRef, message: Fetch, moment: Moment, room: int = INT_MAX) -> FetchReply | DelayedFetch:
        """Return the reply if there are enough records, an error, or no time to wait; else the delayed fetch."""
        if message.session_epoch > 0 or message.max_wait_ms <= 0:
            return self.fetch_now(message, room)
        watched = []
        for topic in message.topics:
            name = self._name_of(topic)
            for part in topic.partitions:
                log = self._readable(name, part.partition, part.current_leader_epoch)
                if isinstance(log, ErrorCode):
                    return self.fetch_now(message, room)
                watched.append((NewRecordsKey(name or "", part.partition), log, part.fetch_offset))
        deadline_ms = moment.monotonic_ms + min(message.max_wait_ms, self._settings.fetch_max_wait_ms)
        enough = min(message.min_bytes, message.max_bytes, self._settings.fetch_max_bytes)
        delayed = DelayedFetch(ref, message, deadline_ms, watched, enough)
        return self.fetch_now(message, room) if not watched or delayed.is_satisfied() else delayed

    def fetch_now(self, message: Fetch, room: int = INT_MAX) -> FetchReply:
        """Return the present records, in `room` bytes or one batch. There are no fetch sessions (KIP-227): every fetch
        is a full one, and its reply says so."""
        if message.session_epoch > 0:
            return FetchReply(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        left = ReplyBudget(min(message.max_bytes, self._settings.fetch_max_bytes, room))
        return FetchReply(responses=tuple([self._fetch_topic(topic, left) for topic in message.topics]))

    def _fetch_topic(self, topic: FetchTopic, room: ReplyBudget) -> FetchTopicReply:
        name = self._name_of(topic)
        replies = tuple([self._fetch_partition(name, part, room) for part in topic.partitions])
        return FetchTopicReply(topic.topic, replies, topic.topic_id)

    def _fetch_partition(self, name: str | None, part: FetchPartition, room: ReplyBudget) -> FetchPartitionReply:
        log = self._readable(name, part.partition, part.current_leader_epoch)
        return FetchPartitionReply(part.partition, log) if isinstance(log, ErrorCode) else read(log, part, room)

    def _name_of(self, topic: FetchTopic) -> str | None:
        """Name of the topic, given directly or by its id; None for an unknown id."""
        return topic.topic or self._topics.name_of(topic.topic_id)

    def _readable(self, name: str | None, partition: int, current_leader_epoch: int) -> PartitionLog | ErrorCode:
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        log = self._log(name, partition)
        return _UNKNOWN if log is None else epoch_error(current_leader_epoch) or log

    # ------------------------------------------------------------------------------------------------- list offsets

    def list_offsets(self, message: ListOffsets) -> tuple[ListOffsetsReply, int]:
        """Find offsets (first, last, newest, by time), with a result for each partition; return the reply and the
        position it waits for."""
        effort, known = SearchBudget(EFFORT_US), Answers()
        reply = ListOffsetsReply(tuple([self._find_topic(topic, effort, known) for topic in message.topics]))
        keys = (
            NewRecordsKey(topic.name, part.partition_index) for topic in message.topics for part in topic.partitions
        )
        waits = OFFSETS_TOPIC in [one.name for one in message.topics] or any(map(self._advancing.__contains__, keys))
        return reply, self._store.deferral.awaited(self._store.position) if waits else 0

    def _find_topic(self, topic: ListOffsetsTopic, effort: SearchBudget, known: Answers) -> ListOffsetsTopicReply:
        replies = []
        for part in topic.partitions:
            question = (topic.name, part)
            if question not in known:
                known[question] = self._find(topic.name, part, effort)
            replies.append(known[question])
        return ListOffsetsTopicReply(topic.name, tuple(replies))

    def _find(self, name: str, part: ListOffsetsPartition, effort: SearchBudget) -> ListOffsetsPartitionReply:
        log = self._readable(name, part.partition_index, part.current_leader_epoch)
        if isinstance(log, ErrorCode):
            return ListOffsetsPartitionReply(part.partition_index, log)
        return find_offset(log, part, effort)

    # ----------------------------------------------------------------------------------------------- leaders' epochs

    def end_offsets(self, message: OffsetForLeaderEpoch) -> OffsetForLeaderEpochReply:
        """Return the end offsets of leader epochs, with a result for each partition (KIP-320)."""
        return OffsetForLeaderEpochReply(
            tuple(
                EpochTopicReply(topic.topic, tuple(self._end_offset(topic.topic, part) for part in topic.partitions))
                for topic in message.topics
            )
        )

    def _end_offset(self, name: str, part: EpochPartition) -> EpochEndOffset:
        log = self._readable(name, part.partition, part.current_leader_epoch)
        if isinstance(log, ErrorCode):
            return EpochEndOffset(part.partition, log)
        return end_of_epoch(log, part.partition, part.leader_epoch)


def _strays(logs: Sequence[str], topics: TopicList) -> list[str]:
    """Return the logs without a topic. Logs with the service's own prefix are not among them, since a later version may
    have more such logs."""
    found = []
    for log in logs:
        name, _, partition = log.rpartition("-")
        topic = topics.get(name)
        if not name.startswith("__") and (topic is None or int(partition) >= topic.record.partitions):
            found.append(log)
    return found


def _refuse_acks(_name: str, part: ProducePartition, _allowance: Allowance, _moment: Moment) -> Putting:
    yield PARTITION_US
    return ProducePartitionReply(part.index, ErrorCode.INVALID_REQUIRED_ACKS, error_message="acks are -1, 0 or 1")


def _refuse_transactions(_name: str, part: ProducePartition, _allowance: Allowance, _moment: Moment) -> Putting:
    yield PARTITION_US
    return ProducePartitionReply(part.index, ErrorCode.INVALID_TXN_STATE, error_message="transactions are not served")
