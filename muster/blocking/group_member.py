"""A member of a group for applications that read by themselves: a Spark query, a database export, a batch job."""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from membership.events import OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.blocking.runner import ThreadRunner
from muster.blocking.topics import ThreadTopics
from muster.client.group_member import GroupMemberProcedures
from muster.client.steps import Procedure

R = TypeVar("R")


class GroupMember(ThreadTopics, GroupMemberProcedures):
    """Shares the partitions of `topics` with the other members of a group. Fetches nothing.

    Heartbeats run in a separate thread from the first `poll` on. Rebalances are served only by `poll` and `close`,
    which call `on_revoked` (a commit still counts), `on_lost` (others may own these already) and `on_assigned`, each
    with the revoked or new partitions: all of them in an eager rebalance, those that move in a cooperative one
    (`assignors` of "cooperative-sticky" alone). A member not polled for `max_poll_interval_ms` leaves its group.

    The constructor opens no connection. Use it from one thread at a time, and not across a fork; offsets of topics may
    be requested from any thread.
    """

    _runner_of = ThreadRunner

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Serve rebalances, and wait until this member has its assignment: at most `timeout_s`, not at all once it is
        steady. Return whether it is.

        Raises `GroupRefused` or `Fenced` if the coordinator refuses it, `AuthenticationFailed` if a server refuses the
        login, and `CannotConnect` when no node was ever reached in the time given (`request_timeout_ms` in all, for
        polls that do not wait).
        """
        is_steady: bool = self._runner.run_alone(self._poll(timeout_s))
        return is_steady

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store the next offset to read of each partition, and return the stored ones: partitions that this member does
        not own are skipped, because the coordinator does not check that.

        Raises `CommitRefused` (nothing was stored) and `RequestTimedOut` (unknown). ValueError for a negative offset.
        """
        stored: dict[TopicPartition, int] = self._runner.run_alone(self._member.commit(offsets, timeout_s))
        return stored

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None for a partition without one. Needs no membership. Raises `Refused`,
        `RequestTimedOut`, `CannotConnect`.
        """
        found: dict[TopicPartition, int | None] = self._runner.run_alone(self._member.committed(partitions, timeout_s))
        return found

    def close(self, timeout_s: float = 30.0) -> None:
        """Revoke all partitions (`on_revoked` is called), leave the group, end the thread. A member with a
        `group_instance_id` does not leave: it may return until its session expires. Closing twice is fine.
        """
        self._runner.close(self._close, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, procedure: Procedure[R]) -> R:
        answer: R = self._runner.run_open(procedure)
        return answer
