"""Requests of groups that this node has not met yet, while it is looked up what the cluster knows of them; and what
follows from that."""

from typing import TypeVar

import msgspec

from coordinator.clock import Moment
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.migration_lookup import (
    FoundMembers,
    FoundOffsets,
    NothingFound,
    Unclear,
    Verdict,
    answer_of,
    is_migrated,
    records_of,
)
from coordinator.groups.classic.notes import Cause, counted
from coordinator.handlers.admission import admit_write
from coordinator.handlers.core import INTERNAL, Core
from coordinator.records.records import Note
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID
from protocol.messages.groups import JoinGroup, ListNotes
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import OffsetCommit, OffsetFetch, OffsetFetchGroupReply
from protocol.session import RequestRef

AboutGroup = JoinGroup | OffsetCommit | OffsetFetch
"""What makes this node meet a group."""
Waiting = list[tuple[RequestRef, AboutGroup]]

_NOTHING_FOR_MS = 10_000
"""How long who only asks for offsets of a group of which the cluster has nothing is told so without looking it up
again. Whoever joins or commits wants to know how it is now: it would never be looked up again."""
_REFUSED_FOR_MS, _LASTS_FOR_MS = 1_000, 10_000
"""How long who is refused is told the same again without asking the cluster: many clients try again many times."""
_MOST_KEPT = 10_000
_TOLD_EVERY_MS = 60_000
"""That a group must wait, the operator is told of one at a time: they all wait for the same."""
_TOO_LARGE = ErrorCode.UNKNOWN_SERVER_ERROR
"""What a shard says of records that no batch can hold."""
_NO_ROOM = Unclear("there is no room for the group's offsets here now")


_T = TypeVar("_T")


class _Refusal(msgspec.Struct, frozen=True):
    """What whoever comes is told `until_ms`. `is_for_all`: also who only looks, and takes nothing over."""

    error: ErrorCode
    text: str
    until_ms: int
    is_for_all: bool = True


class Migration:
    """Every group that is being looked up, and who waits for it."""

    def __init__(self, core: Core, adopts: bool) -> None:
        self._core = core
        self._adopts = adopts
        self._waiting: dict[str, Waiting] = {}
        self._nothing: dict[str, int] = {}
        self._refusals: dict[str, _Refusal] = {}
        self._told_ms: int | None = None

    def unmet(self, ref: RequestRef, message: AboutGroup, moment: Moment) -> str | None:
        """The group that must be looked up first. Who looks at many groups at once, or from the inside, sees what is
        here: looking must not take anything over."""
        if not self._adopts or ref.connection == INTERNAL:
            return None
        if isinstance(message, OffsetFetch):
            if len(message.groups) != 1:
                return None
            group_id = message.groups[0].group_id
        else:
            group_id = message.group_id
        if len(group_id) > LONGEST_GROUP_ID or is_migrated(self._core, group_id):
            return None
        refusal = self._refusals.get(group_id)
        if refusal is not None and refusal.until_ms <= moment.monotonic_ms:
            del self._refusals[group_id]
        told_ms = self._nothing.get(group_id)
        # In the very moment in which it was told, it is so for whoever waited to hear it.
        believed_ms = _NOTHING_FOR_MS if isinstance(message, OffsetFetch) else 1
        return None if told_ms is not None and moment.monotonic_ms - told_ms < believed_ms else group_id

    def wait(self, group_id: str, ref: RequestRef, message: AboutGroup) -> bool:
        """Let the request of an unmet group wait; whether it is the first, so that the group must be looked up. Who has
        just been refused is refused again."""
        refusal = self._refusals.get(group_id)
        if refusal is not None and (refusal.is_for_all or not isinstance(message, OffsetFetch)):
            self._refuse([(ref, message)], refusal)
            return False
        waiting = self._waiting.setdefault(group_id, [])
        waiting.append((ref, message))
        return len(waiting) == 1

    def over(self, group_id: str, verdict: Verdict, topics: UpstreamTopics, moment: Moment) -> tuple[Waiting, str]:
        """Who may go on now, and a sentence for the operator, if there is something new to say. The others are
        answered."""
        waiting = self._waiting.pop(group_id, [])
        match verdict:
            case NothingFound():
                _keep(self._nothing, group_id, moment.monotonic_ms)
                return waiting, ""
            case FoundOffsets() if all(isinstance(message, OffsetFetch) for _, message in waiting):
                self._show(waiting, verdict.reply, topics)
                return [], ""
            case FoundOffsets():
                refused = self._adopt(group_id, verdict, moment)
                if refused is None:
                    return waiting, ""
                return [], self._stay_out(group_id, waiting, refused, moment, is_for_all=False)
            case FoundMembers():
                text, until_ms = f"group {group_id!r} {verdict.sentence}", moment.monotonic_ms + _REFUSED_FOR_MS
                self._refuse_all(group_id, waiting, _Refusal(ErrorCode.NON_EMPTY_GROUP, text, until_ms))
                return [], self._note_refusal(group_id, Cause.MEMBERS_ELSEWHERE, verdict.sentence, moment)
            case Unclear():
                return [], self._stay_out(group_id, waiting, verdict, moment)

    def _stay_out(
        self, group_id: str, waiting: Waiting, why: Unclear, moment: Moment, *, is_for_all: bool = True
    ) -> str:
        until_ms = moment.monotonic_ms + (_LASTS_FOR_MS if why.lasts else _REFUSED_FOR_MS)
        refusal = _Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, why.reason, until_ms, is_for_all)
        self._refuse_all(group_id, waiting, refusal)
        if why.lasts:
            return self._note_refusal(group_id, Cause.NOT_ADOPTED, why.reason, moment)
        return self._tell(group_id, why.reason, moment)

    def put_off(self, group_id: str, ref: RequestRef, message: AboutGroup, moment: Moment) -> str:
        """Nobody can be asked for the group now; a sentence for the operator as `over` gives it."""
        reason = f"what offsets {group_id} has is not known while the cluster cannot be asked"
        self._refuse([(ref, message)], _Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason, 0))
        return self._tell(group_id, reason, moment)

    def _tell(self, group_id: str, reason: str, moment: Moment) -> str:
        if self._told_ms is not None and moment.monotonic_ms - self._told_ms < _TOLD_EVERY_MS:
            return ""
        self._told_ms = moment.monotonic_ms
        return f"the group {group_id} is not let in yet, and others may wait like it: {reason}"

    def _refuse_all(self, group_id: str, waiting: Waiting, refusal: _Refusal) -> None:
        _keep(self._refusals, group_id, refusal)
        self._refuse(waiting, refusal)

    def _refuse(self, waiting: Waiting, refusal: _Refusal) -> None:
        for ref, message in waiting:
            error = refusal.error
            if isinstance(message, OffsetFetch) and error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                # It is as much a reason to try again, and librdkafka's AdminClient (2.16) dies of the other.
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            self._core.outbox.send(ref, ErrorReply(error, refusal.text))

    def _show(self, waiting: Waiting, offsets: OffsetFetchGroupReply, topics: UpstreamTopics) -> None:
        """Nobody becomes a member by asking: the group stays where it is."""
        ids = {topic.name: topics.id_of(topic.name) for topic in offsets.topics}
        known = {name: topic_id for name, topic_id in ids.items() if topic_id is not None}
        for ref, message in waiting:
            assert isinstance(message, OffsetFetch)
            self._core.outbox.send(ref, answer_of(message.groups[0], offsets, known))

    def _adopt(self, group_id: str, offsets: FoundOffsets, moment: Moment) -> Unclear | None:
        """All of them or none: a group with some of its offsets counts as met."""
        core = self._core
        if is_migrated(core, group_id):
            return None  # it came into being meanwhile
        shard, group = core.find(group_id)
        if admit_write(core) or (group is None and core.count_groups() >= core.config.max_groups):
            return _NO_ROOM
        group = group or shard.new_group(group_id)
        records = records_of(offsets.reply, moment.wall_ms)
        remark = f", metadata of {offsets.cut} cut" if offsets.cut else ""
        failed = shard.import_offsets(group, records, moment)
        if failed is _TOO_LARGE and any(record.metadata for record in records):
            remark = ", without their metadata: together it is too long"
            records = records_of(offsets.reply, moment.wall_ms, with_metadata=False)
            failed = shard.import_offsets(group, records, moment)
        count = counted(len(records), "offset")
        if failed is _TOO_LARGE:
            return Unclear(f"{count} at the cluster are too many for wal.segment.bytes: make it larger", lasts=True)
        if failed is not None:
            return _NO_ROOM
        topics = counted(len(offsets.reply.topics), "topic")
        self._write_down(group_id, Cause.ADOPTED, f"{count} of {topics}{remark}", moment)
        return None

    def _note_refusal(self, group_id: str, cause: Cause, sentence: str, moment: Moment) -> str:
        """Once, however often they come again."""
        noted = self._core.journal.list(ListNotes(group_id, limit=1)).notes
        if noted and noted[0].detail == sentence:
            return ""
        self._write_down(group_id, cause, sentence, moment)
        return f"the group {group_id} {sentence}" if cause is Cause.MEMBERS_ELSEWHERE else f"{group_id}: {sentence}"

    def _write_down(self, group_id: str, cause: Cause, detail: str, moment: Moment) -> None:
        note = Note(group_id, "admin", cause.value, "", detail, 0, 0, "Empty", moment.wall_ms)
        self._core.shard_of(group_id).append_notes([note], moment)


def _keep(kept: dict[str, _T], group_id: str, what: _T) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[group_id] = what
