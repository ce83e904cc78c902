"""Migration of groups: requests of a group without state here wait while the cluster is asked for its offsets, which
are then imported."""

from typing import TypeVar

import msgspec

from coordinator.clock import Moment
from coordinator.core.admission import admit_write
from coordinator.core.core import INTERNAL, Core
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.migration_lookup import (
    ActiveMembers,
    ClusterOffsets,
    LookupFailed,
    LookupResult,
    NoOffsets,
    is_migrated,
    offset_fetch_reply,
    offset_records,
)
from coordinator.groups.classic.notes import Cause
from coordinator.records.records import Note
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID
from protocol.messages.consumer_groups import JOINING, ConsumerGroupHeartbeat
from protocol.messages.groups import JoinGroup, ListNotes
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import OffsetCommit, OffsetFetch, OffsetFetchGroupReply, TxnOffsetCommit
from protocol.session import RequestRef
from protocol.words import counted

GroupRequest = JoinGroup | ConsumerGroupHeartbeat | OffsetCommit | TxnOffsetCommit | OffsetFetch
"""Requests that migrate a group; only OffsetFetch reads the cluster's offsets without importing them."""
Waiting = list[tuple[RequestRef, GroupRequest]]

_NO_OFFSETS_TTL_MS = 10_000
"""Validity of "the cluster has no offsets" for OffsetFetch. Joins and commits always look the group up: they create it
here, and after that it is never looked up again."""
_REJECTION_TTL_MS, _OPERATOR_REJECTION_TTL_MS = 1_000, 10_000
"""Time for which a rejection is repeated without a request to the cluster, since many clients retry often; the second
one is for problems that need the operator."""
_MAX_REMEMBERED = 10_000
_LOG_EVERY_MS = 60_000
"""Interval of log lines about waiting groups, which all wait for the same cluster."""
_TOO_LARGE = ErrorCode.UNKNOWN_SERVER_ERROR
"""Error of a shard for records that fit no batch."""
_NO_SPACE = LookupFailed("there is no room for the group's offsets here now")


T = TypeVar("T")


class _Rejection(msgspec.Struct, frozen=True):
    """A reply for requests of a group until `until_ms`. `for_reads_too`: OffsetFetch is rejected as well, although it
    imports nothing."""

    error: ErrorCode
    text: str
    until_ms: int
    for_reads_too: bool = True


class Migration:
    """Lookups under way and the requests that wait for them."""

    def __init__(self, core: Core, is_enabled: bool) -> None:
        self._core = core
        self._is_enabled = is_enabled
        self._waiting: dict[str, Waiting] = {}
        self._without_offsets: dict[str, int] = {}
        self._rejections: dict[str, _Rejection] = {}
        self._logged_ms: int | None = None

    def group_to_migrate(self, ref: RequestRef, message: GroupRequest, moment: Moment) -> str | None:
        """Return the group that must be looked up first, or None. Requests for several groups, and internal ones, see
        only groups with state here, since reading must not import anything."""
        if not self._is_enabled or ref.connection == INTERNAL:
            return None
        if isinstance(message, OffsetFetch):
            if len(message.groups) != 1:
                return None
            group_id = message.groups[0].group_id
        elif isinstance(message, ConsumerGroupHeartbeat) and message.member_epoch != JOINING:
            return None
        else:
            group_id = message.group_id
        if len(group_id) > LONGEST_GROUP_ID or is_migrated(self._core, group_id):
            return None
        rejection = self._rejections.get(group_id)
        if rejection is not None and rejection.until_ms <= moment.monotonic_ms:
            del self._rejections[group_id]
        found_ms = self._without_offsets.get(group_id)
        # Requests that waited for this result continue at the same clock reading, so a validity of 1 ms lets them pass.
        valid_ms = _NO_OFFSETS_TTL_MS if isinstance(message, OffsetFetch) else 1
        return None if found_ms is not None and moment.monotonic_ms - found_ms < valid_ms else group_id

    def enqueue(self, group_id: str, ref: RequestRef, message: GroupRequest) -> bool:
        """Queue the request; return true if it is the first, so that a lookup must be started. A recent rejection is
        repeated instead."""
        rejection = self._rejections.get(group_id)
        if rejection is not None and (rejection.for_reads_too or not isinstance(message, OffsetFetch)):
            self._reject([(ref, message)], rejection)
            return False
        waiting = self._waiting.setdefault(group_id, [])
        waiting.append((ref, message))
        return len(waiting) == 1

    def complete(
        self, group_id: str, result: LookupResult, topics: UpstreamTopics, moment: Moment
    ) -> tuple[Waiting, str]:
        """Return the requests to serve now, and a log line, empty if there is nothing new. The other requests are
        answered here."""
        waiting = self._waiting.pop(group_id, [])
        match result:
            case NoOffsets():
                _remember(self._without_offsets, group_id, moment.monotonic_ms)
                return waiting, ""
            case ClusterOffsets() if all(isinstance(message, OffsetFetch) for _, message in waiting):
                self._reply_offsets(waiting, result.reply, topics)
                return [], ""
            case ClusterOffsets():
                failed = self._import_offsets(group_id, result, topics, moment)
                if failed is None:
                    return waiting, ""
                return [], self._reject_failed(group_id, waiting, failed, moment, for_reads_too=False)
            case ActiveMembers():
                text, until_ms = f"group {group_id!r} {result.reason}", moment.monotonic_ms + _REJECTION_TTL_MS
                self._reject_waiting(group_id, waiting, _Rejection(ErrorCode.NON_EMPTY_GROUP, text, until_ms))
                return [], self._note_rejection(group_id, Cause.MEMBERS_ELSEWHERE, result.reason, moment)
            case LookupFailed():
                return [], self._reject_failed(group_id, waiting, result, moment)

    def _reject_failed(
        self, group_id: str, waiting: Waiting, failure: LookupFailed, moment: Moment, *, for_reads_too: bool = True
    ) -> str:
        until_ms = moment.monotonic_ms + (_OPERATOR_REJECTION_TTL_MS if failure.needs_operator else _REJECTION_TTL_MS)
        rejection = _Rejection(ErrorCode.COORDINATOR_NOT_AVAILABLE, failure.reason, until_ms, for_reads_too)
        self._reject_waiting(group_id, waiting, rejection)
        if failure.needs_operator:
            return self._note_rejection(group_id, Cause.NOT_ADOPTED, failure.reason, moment)
        return self._log_line(group_id, failure.reason, moment)

    def reject_unreachable(self, group_id: str, ref: RequestRef, message: GroupRequest, moment: Moment) -> str:
        """Reject a request because the cluster cannot be asked; return a log line as `complete` does."""
        reason = f"the offsets of {group_id} are unknown while the cluster cannot be asked"
        self._reject([(ref, message)], _Rejection(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason, 0))
        return self._log_line(group_id, reason, moment)

    def _log_line(self, group_id: str, reason: str, moment: Moment) -> str:
        if self._logged_ms is not None and moment.monotonic_ms - self._logged_ms < _LOG_EVERY_MS:
            return ""
        self._logged_ms = moment.monotonic_ms
        return f"group {group_id} waits to be migrated, and others may wait too: {reason}"

    def _reject_waiting(self, group_id: str, waiting: Waiting, rejection: _Rejection) -> None:
        _remember(self._rejections, group_id, rejection)
        self._reject(waiting, rejection)

    def _reject(self, waiting: Waiting, rejection: _Rejection) -> None:
        for ref, message in waiting:
            error = rejection.error
            if isinstance(message, OffsetFetch) and error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                # Both are retriable, but librdkafka's AdminClient (2.16) crashes on the other one.
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            self._core.outbox.send(ref, ErrorReply(error, rejection.text))

    def _reply_offsets(self, waiting: Waiting, offsets: OffsetFetchGroupReply, topics: UpstreamTopics) -> None:
        """Answer from the cluster's offsets without importing them: a group that is only read is not migrated."""
        ids = {topic.name: topics.id_of(topic.name) for topic in offsets.topics}
        known = {name: topic_id for name, topic_id in ids.items() if topic_id is not None}
        for ref, message in waiting:
            assert isinstance(message, OffsetFetch)
            self._core.outbox.send(ref, offset_fetch_reply(message.groups[0], offsets, known))

    def _import_offsets(
        self, group_id: str, offsets: ClusterOffsets, topics: UpstreamTopics, moment: Moment
    ) -> LookupFailed | None:
        """Import all offsets or none: a group with some of them would count as migrated."""
        core = self._core
        if is_migrated(core, group_id):
            return None  # another request has created it since
        shard, group = core.find(group_id)
        if admit_write(core) or (group is None and core.count_groups() >= core.config.max_groups):
            return _NO_SPACE
        group = group or shard.new_group(group_id)
        ids = {topic.name: topics.id_to_record(topic.name) for topic in offsets.reply.topics}
        records = offset_records(offsets.reply, moment.wall_ms, ids)
        remark = f", metadata of {offsets.truncated} cut" if offsets.truncated else ""
        failed = shard.import_offsets(group, records, moment)
        if failed is _TOO_LARGE and any(record.metadata for record in records):
            remark = ", without their metadata: together it is too long"
            records = offset_records(offsets.reply, moment.wall_ms, ids, with_metadata=False)
            failed = shard.import_offsets(group, records, moment)
        count = counted(len(records), "offset")
        if failed is _TOO_LARGE:
            return LookupFailed(
                f"{count} at the cluster are too many for wal.segment.bytes: make it larger", needs_operator=True
            )
        if failed is not None:
            return _NO_SPACE
        detail = f"{count} of {counted(len(offsets.reply.topics), 'topic')}{remark}"
        self._append_note(group_id, Cause.ADOPTED, detail, moment)
        return None

    def _note_rejection(self, group_id: str, cause: Cause, sentence: str, moment: Moment) -> str:
        """Append a note unless the last one is the same."""
        noted = self._core.journal.list(ListNotes(group_id, limit=1)).notes
        if noted and noted[0].detail == sentence:
            return ""
        self._append_note(group_id, cause, sentence, moment)
        return f"the group {group_id} {sentence}" if cause is Cause.MEMBERS_ELSEWHERE else f"{group_id}: {sentence}"

    def _append_note(self, group_id: str, cause: Cause, detail: str, moment: Moment) -> None:
        note = Note(group_id, "admin", cause.value, "", detail, 0, 0, "Empty", moment.wall_ms)
        self._core.shard_of(group_id).append_notes([note], moment)


def _remember(remembered: dict[str, T], group_id: str, value: T) -> None:
    if len(remembered) >= _MAX_REMEMBERED:
        remembered.clear()
    remembered[group_id] = value
