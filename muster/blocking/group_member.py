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

    Heartbeats run in a thread of their own from the first `poll` on. Rebalances are served from `poll` alone: there,
    and nowhere else but in `close`, `on_revoked` (commit what is done: it still counts), `on_lost` (others may have
    these already) and `on_assigned` are called, each with what is gone or new: everything in an eager rebalance, what
    moves in a cooperative one (`assignors` of nothing but "cooperative-sticky"). A member not polled for
    `max_poll_interval_ms` leaves its group.

    Making one connects to nothing. Use it from one thread at a time, and not across a fork; offsets of topics may be
    asked for from any thread.
    """

    _runner_of = ThreadRunner

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Serve what the group asks of this member, and wait until it has its share: at most `timeout_s`, not at all
        once it is steady. Says whether it is.

        Raises `GroupRefused` or `Fenced` where the coordinator does not admit it, `AuthenticationFailed` where a server
        does not let us in, and `CannotConnect` when no node was ever reached in the time given (`request_timeout_ms` in
        all, for polls that do not wait).
        """
        is_steady: bool = self._runner.run_alone(self._poll(timeout_s))
        return is_steady

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store the next offset to read of each partition, and say which were stored: those of partitions this member
        does not hold are left out, because the coordinator would take them from anybody.

        Raises `CommitRefused` (nothing was stored) and `RequestTimedOut` (unknown). ValueError for a negative offset.
        """
        stored: dict[TopicPartition, int] = self._runner.run_alone(self._member.commit(offsets, timeout_s))
        return stored

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None where there is none. Needs no membership. Raises `Refused`, `RequestTimedOut`,
        `CannotConnect`.
        """
        found: dict[TopicPartition, int | None] = self._runner.run_alone(self._member.committed(partitions, timeout_s))
        return found

    def close(self, timeout_s: float = 30.0) -> None:
        """Let go (`on_revoked` is called), leave the group, end the thread. A member with a `group_instance_id` does
        not leave: its place is kept for its return until the session times out. Closing twice is fine.
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
