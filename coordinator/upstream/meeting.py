"""Requests of groups that this node has not met yet, while it is looked up what the cluster knows of them; and what
follows from that."""

from coordinator.core import ASKED, Core
from coordinator.gates import write_gate
from coordinator.groups.classic.notes import Cause, counted
from coordinator.moment import Moment
from coordinator.records import Note
from coordinator.upstream.adoption import (
    Members,
    Nothing,
    Offsets,
    Unclear,
    Verdict,
    answer_of,
    commit_of,
    is_met,
)
from coordinator.upstream.topics import UpstreamTopics
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroup, ListNotes
from protocol.messages.node import Refused
from protocol.messages.offsets import OffsetCommit, OffsetCommitReply, OffsetFetch, OffsetFetchGroupReply
from protocol.session import RequestRef

AboutGroup = JoinGroup | OffsetCommit | OffsetFetch
"""What makes this node meet a group."""
Waiting = list[tuple[RequestRef, AboutGroup]]

_NOTHING_FOR_MS = 10_000
"""How long a group of which the cluster has nothing is not looked up again, if it does not come into being here."""
_MOST_KEPT = 10_000


class Meeting:
    """Every group that is being looked up, and who waits for it."""

    def __init__(self, core: Core, adopts: bool) -> None:
        self._core = core
        self._adopts = adopts
        self._waiting: dict[str, Waiting] = {}
        self._nothing: dict[str, int] = {}

    def unmet(self, ref: RequestRef, message: AboutGroup, moment: Moment) -> str | None:
        """The group that must be looked up first. Who looks at many groups at once, or from the inside, sees what is
        here: looking must not take anything over."""
        if not self._adopts or ref.connection == ASKED:
            return None
        if isinstance(message, OffsetFetch):
            if len(message.groups) != 1:
                return None
            group_id = message.groups[0].group_id
        else:
            group_id = message.group_id
        if is_met(self._core, group_id) or self._nothing.get(group_id, -1) > moment.monotonic_ms:
            return None
        return group_id

    def wait(self, group_id: str, ref: RequestRef, message: AboutGroup) -> bool:
        """Let the request wait; whether it is the first, so that the group must be looked up."""
        waiting = self._waiting.setdefault(group_id, [])
        waiting.append((ref, message))
        return len(waiting) == 1

    def over(self, group_id: str, verdict: Verdict, topics: UpstreamTopics, moment: Moment) -> tuple[Waiting, str]:
        """Who may go on now, and a sentence for the operator, if there is something new to say. The others are
        answered."""
        waiting = self._waiting.pop(group_id, [])
        match verdict:
            case Nothing():
                if len(self._nothing) >= _MOST_KEPT:
                    self._nothing.clear()
                self._nothing[group_id] = moment.monotonic_ms + _NOTHING_FOR_MS
                return waiting, ""
            case Offsets() if all(isinstance(message, OffsetFetch) for _, message in waiting):
                self._show(waiting, verdict.reply, topics)
                return [], ""
            case Offsets():
                refused = self._adopt(group_id, verdict.reply, moment)
                if refused:
                    self._refuse(waiting, refused, "the group's offsets could not be stored here")
                    return [], ""
                return waiting, ""
            case Members():
                self._refuse(waiting, ErrorCode.NON_EMPTY_GROUP, verdict.sentence)
                return [], self._note_refusal(group_id, verdict, moment)
            case Unclear():
                self._refuse(waiting, ErrorCode.COORDINATOR_NOT_AVAILABLE, verdict.reason)
                return [], ""

    def _refuse(self, waiting: Waiting, error: ErrorCode, text: str) -> None:
        for ref, _ in waiting:
            self._core.outbox.send(ref, Refused(error, text))

    def _show(self, waiting: Waiting, offsets: OffsetFetchGroupReply, topics: UpstreamTopics) -> None:
        """Nobody becomes a member by asking: the group stays where it is."""
        ids = {topic.name: topics.id_of(topic.name) for topic in offsets.topics}
        known = {name: topic_id for name, topic_id in ids.items() if topic_id is not None}
        for ref, message in waiting:
            assert isinstance(message, OffsetFetch)
            self._core.outbox.send(ref, answer_of(message.groups[0], offsets, known))

    def _adopt(self, group_id: str, offsets: OffsetFetchGroupReply, moment: Moment) -> ErrorCode:
        core = self._core
        if is_met(core, group_id):
            return ErrorCode.NONE  # it came into being meanwhile
        shard, group = core.find(group_id)
        refused = write_gate(core)
        if not refused and group is None and core.count_groups() >= core.config.max_groups:
            refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if refused:
            return refused
        stored = shard.store(group or shard.new_group(group_id), commit_of(offsets), moment)
        if isinstance(stored, ErrorCode):
            return stored
        assert isinstance(stored, OffsetCommitReply)
        errors = [part.error_code for topic in stored.topics for part in topic.partitions]
        text = f"{counted(errors.count(ErrorCode.NONE), 'offset')} of {counted(len(stored.topics), 'topic')}"
        failed = len(errors) - errors.count(ErrorCode.NONE)
        self._write_down(group_id, Cause.ADOPTED, text + (f", {failed} refused" if failed else ""), moment)
        return ErrorCode.NONE

    def _note_refusal(self, group_id: str, members: Members, moment: Moment) -> str:
        """Once, however often they come again."""
        noted = self._core.journal.list(ListNotes(group_id, limit=1)).notes
        if noted and noted[0].detail == members.sentence:
            return ""
        self._write_down(group_id, Cause.MEMBERS_ELSEWHERE, members.sentence, moment)
        return f"the group {group_id} {members.sentence}"

    def _write_down(self, group_id: str, cause: Cause, detail: str, moment: Moment) -> None:
        note = Note(group_id, "admin", cause.value, "", detail, 0, 0, "Empty", moment.wall_ms)
        self._core.shard_of(group_id).write_down([note], moment)
