"""Samples of committed offsets and of the ends of their logs: the history of lag.

A periodic pass reads the offsets of the groups served here, a slice at a time, and appends them with the ends of their
partitions to a log of the node. Unchanged offsets and ends are written once an hour.
"""

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from coordinator.clock import Moment
from coordinator.runtime.offset_pieces import offsets_in_pieces
from coordinator.runtime.shard import Shard, ShardState
from coordinator.runtime.shard_log import LocalLog
from coordinator.topics.topics import Topics
from partition_log.cleanup_policy import MIB, Retain
from partition_log.errors import AppendError
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    EndSample,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsReply,
    ListOffsetsTopic,
)
from protocol.record_batch import encode_batch

TASK: Final = "end sampling"
ENDS_LOG: Final = "__muster_ends-0"
_HOUR_MS: Final = 3_600_000
POLICY: Final = Retain(
    retention_ms=7 * 24 * _HOUR_MS, retention_bytes=1_024 * MIB, segment_bytes=32 * MIB, segment_ms=6 * _HOUR_MS
)
"""Retention of the log: seven days, and at most a size that fits on a small disk."""
_NEXT_SLICE_MS: Final = 5
_WORK_A_SLICE: Final = 500
"""Partitions after which a slice ends; each topic of a group counts as several. They take half a millisecond, and
heartbeats wait behind a slice. A large topic makes it longer: a slice ends with a whole sample."""
_PARTITIONS_A_SAMPLE: Final = 2_000
_WORK_A_TOPIC: Final = 10
_MAX_AGE_MS, _STALE_MS = 1_000, 10_000
"""Ages of log ends that come from a cluster: younger ends than the first are not requested again, older ones than the
second are not sampled."""
encode_sample: Final = msgspec.msgpack.Encoder().encode
decode_sample: Final = msgspec.msgpack.Decoder(EndSample).decode
"""Raises msgspec.DecodeError."""
_TopicOffsets = tuple[str, str, dict[int, int]]
"""A group, a topic, and some of the offsets committed by partition."""


class EndSampling:
    """State of the pass. With `interval_ms` 0 there is no pass; old samples can still be read."""

    def __init__(self, log: LocalLog, interval_ms: int) -> None:
        self.log = log
        self.interval_ms = interval_ms
        self.refused = 0
        """Number of slices that were not written since the disk was full; the next pass writes them even if nothing has
        changed since."""
        self._started = Moment(0, 0)
        self._unread: Iterator[_TopicOffsets] | None = None
        self._asked: list[_TopicOffsets] = []
        self._whole_ms = -_HOUR_MS
        self._written: dict[tuple[str, str, int], int] = {}
        """Hashes of the samples that the previous pass wrote, or omitted as unchanged, by group, topic and first
        partition."""
        self._seen: dict[tuple[str, str, int], int] = {}

    def next_request(self, shards: Collection[Shard], topics: Topics, moment: Moment) -> ListOffsets:
        """Begin the next slice: return the request for the ends of its partitions."""
        if self._unread is None:
            self._begin_pass(moment)
        unread = self._unread = self._unread or _committed_offsets(shards, topics)
        self._asked = []
        work = 0
        while work < _WORK_A_SLICE and self._unread is not None:
            if (one := next(unread, None)) is None:
                self._unread = None
            else:
                self._asked.append(one)
                work += _WORK_A_TOPIC + len(one[2])
        wanted: dict[str, dict[int, None]] = {}
        for _group_id, topic, offsets in self._asked:
            wanted.setdefault(topic, {}).update(dict.fromkeys(offsets))
        return ListOffsets(
            tuple(ListOffsetsTopic(topic, tuple(map(ListOffsetsPartition, parts))) for topic, parts in wanted.items()),
            max_age_ms=_MAX_AGE_MS,
        )

    def answer(self, reply: ListOffsetsReply, moment: Moment) -> int:
        """End the slice: append the samples that changed. Return the milliseconds to the next slice."""
        ends = {
            topic.name: {
                part.partition_index: part.offset
                for part in topic.partitions
                if part.error_code is ErrorCode.NONE and part.age_ms < _STALE_MS
            }
            for topic in reply.topics
        }
        samples: list[EndSample] = []
        for group_id, topic, offsets in self._asked:
            known = ends.get(topic, {})
            there = {index: offset for index, offset in offsets.items() if index in known}
            if not there:
                continue
            sample = EndSample(self._started.wall_ms, group_id, topic, there, {index: known[index] for index in there})
            if self._has_moved(sample):
                samples.append(sample)
        if samples:
            records = [(sample.group_id.encode(), encode_sample(sample)) for sample in samples]
            batch = encode_batch(records, timestamp_ms=self._started.wall_ms)
            if isinstance(self.log.append(batch, must_fit=False), AppendError):
                self.refused += 1
                for sample in samples:
                    self._seen.pop(_key(sample), None)
        if self._unread is not None:
            return _NEXT_SLICE_MS
        return max(_NEXT_SLICE_MS, self._started.monotonic_ms + self.interval_ms - moment.monotonic_ms)

    def _begin_pass(self, moment: Moment) -> None:
        self._started = moment
        self._written, self._seen = self._seen, {}
        if moment.monotonic_ms - self._whole_ms >= _HOUR_MS:
            self._whole_ms = moment.monotonic_ms
            self._written = {}

    def _has_moved(self, sample: EndSample) -> bool:
        key = _key(sample)
        now = self._seen[key] = hash((*sample.offsets.items(), *sample.ends.items()))
        return self._written.get(key) != now


def _key(sample: EndSample) -> tuple[str, str, int]:
    return sample.group_id, sample.topic, next(iter(sample.offsets))


def _committed_offsets(shards: Collection[Shard], topics: Topics) -> Iterator[_TopicOffsets]:
    """Yield all committed offsets in pieces; groups change between two slices."""
    for shard in shards:
        for group_id in shard.offsets.groups() if shard.state is ShardState.ACTIVE else ():
            for topic in list(shard.offsets.topics(group_id)):
                for some in offsets_in_pieces(
                    topics, topic, shard.offsets.topics(group_id).get(topic, {}), _PARTITIONS_A_SAMPLE
                ):
                    yield group_id, topic, some
