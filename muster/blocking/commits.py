"""Storing how far a consumer has come: at once, in the background, by itself. Part of `Consumer`."""

import time
from collections.abc import Callable, Iterable, Mapping

from muster.blocking.background import Background
from muster.blocking.errands import Errands
from muster.blocking.group_member import GroupMember
from muster.blocking.places import Places
from muster.consuming import Consuming
from muster.errors import Fenced, MusterError
from muster.events import CommitDone, OffsetToCommit
from muster.outcomes import Done, failure, refusal
from muster.topic_partition import TopicPartition
from protocol.errors import ErrorCode

CommitCallback = Callable[[Mapping[TopicPartition, int], MusterError | None], None]


class Commits(Places):
    """With a member; without one there is nowhere to store anything."""

    def __init__(self, consuming: Consuming, background: Background, member: GroupMember | None) -> None:
        super().__init__(consuming, background)
        self._member = member
        self._errands = Errands(self._changed, background.refusals) if member is None else member.errands
        self._fenced: Fenced | None = None

    @property
    def member(self) -> GroupMember:
        """The membership beneath. Raises MusterError without a `group_id`."""
        if self._member is None:
            raise MusterError("this consumer has no group_id: it can `assign` partitions, not subscribe or commit")
        return self._member

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit] | None = None, timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store `offsets`, or the position after everything polled so far, and say what was stored. Commits asked for
        earlier have ended by then, and their callbacks were called. Raises as `GroupMember.commit` does.
        """
        with self._one_user.entered():
            deadline, member = time.monotonic() + timeout_s, self.member
            self._run_callbacks()
            wanted = self.positions() if offsets is None else offsets
            stored = member.commit(wanted, timeout_s) if wanted else {}
            member.errands.finish_later_ones(deadline - time.monotonic())
            return stored

    def commit_async(
        self, offsets: Mapping[TopicPartition, int] | None = None, callback: CommitCallback | None = None
    ) -> None:
        """Send a commit once, and go on. `callback(offsets, error)` is called from a later `poll`, `commit` or `close`,
        in the order in which commits ended. Raises ValueError for a negative offset.
        """
        with self._one_user.entered():
            wanted = dict(self.positions() if offsets is None else offsets)
            self.member.commit_later(wanted, lambda done: self._tell_commit(done, wanted, callback))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None where there is none."""
        with self._one_user.entered():
            return self.member.committed(partitions, timeout_s)

    def _commit_if_due(self, *, at_once: bool = False) -> None:
        with self._changed:
            due = dict((self._consuming.commit_now if at_once else self._consuming.commit_due)(now_ms()))
        if due:
            self.member.commit_later(due, self._auto_commit_ended)

    def _auto_commit_ended(self, done: Done) -> None:
        assert isinstance(done, CommitDone)
        if done.error_code == ErrorCode.FENCED_INSTANCE_ID:
            self._fenced = Fenced(done.error_code, str(refusal(done)))
        with self._changed:
            self._consuming.commit_ended(done.error_code, now_ms())

    def _tell_commit(self, done: Done, offsets: Mapping[TopicPartition, int], callback: CommitCallback | None) -> None:
        assert isinstance(done, CommitDone)
        error = None if done.error_code == ErrorCode.NONE else failure(done)
        if done.error_code == ErrorCode.FENCED_INSTANCE_ID:
            self._fenced = Fenced(done.error_code, str(error))
        if callback is not None:
            callback(offsets, error)

    def _run_callbacks(self) -> None:
        self.member.errands.run_callbacks()
        fenced, self._fenced = self._fenced, None
        if fenced is not None:
            raise fenced


def now_ms() -> int:
    """As cores are told it."""
    return time.monotonic_ns() // 1_000_000
