"""Commits of a connector besides those of rebalances: by the application, and automatic
(docs/spec/consumer-client.md#D3, #D8).
"""

from collections.abc import Mapping
from typing import NamedTuple

from membership.events import CommitAsked, CommitDone, MemberEffect, OffsetToCommit
from membership.member import COORDINATOR_GONE
from membership.topic_partition import TopicPartition
from muster.streams.events import CommitEnded, FeedMember
from muster.streams.holdings import Holdings
from muster.streams.settings import StreamsSettings
from protocol.errors import ErrorCode

_AGAIN_MS = (100, 200, 400, 800, 1_000)


class _CommitAttempt(NamedTuple):
    number: int | None
    tries: int
    failures: int


class StreamCommits:
    """Numbers the operations of its connector, and tracks the commits among them."""

    def __init__(self, holdings: Holdings, settings: StreamsSettings) -> None:
        self._holdings = holdings
        self._settings = settings
        self._made = 0
        self._under_way: dict[int, _CommitAttempt] = {}
        self._again: list[tuple[int, _CommitAttempt]] = []
        self._due_ms: int | None = None

    def operation(self) -> int:
        """Return a unique number for an operation."""
        self._made += 1
        return self._made

    def restart(self, now_ms: int) -> None:
        """Restart the interval of automatic commits."""
        if self._settings.auto_commit_enable:
            self._due_ms = now_ms + self._settings.auto_commit_interval_ms

    def rest(self) -> None:
        """Stop automatic commits for now."""
        self._due_ms = None

    def ask(self, number: int | None, tries: int, now_ms: int, failures: int = 0) -> list[MemberEffect]:
        """Commit the consumed offsets, in at most `tries` attempts. `CommitEnded` follows if there is a number."""
        return self._send(_CommitAttempt(number, tries, failures), self._holdings.consumed(), now_ms)

    def on_commit_done(self, done: CommitDone, now_ms: int) -> list[MemberEffect]:
        """Handle the end of a commit. It is retried after retriable errors, except automatic ones, since the next one
        has newer offsets. Offsets of deleted topics cannot be stored; those of the others were.
        """
        tried = self._under_way.pop(done.operation, None)
        if tried is None:
            return []
        code = done.error_code
        may_help = code.retriable or code in COORDINATOR_GONE or code == ErrorCode.REQUEST_TIMED_OUT
        if may_help and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and tried.tries > 1:
            wait_ms = _AGAIN_MS[min(tried.failures, len(_AGAIN_MS) - 1)]
            self._again.append((now_ms + wait_ms, _CommitAttempt(tried.number, tried.tries - 1, tried.failures + 1)))
            return []
        return _ended(tried.number, code, {one: at.offset for one, at in done.offsets.items()}, done.reason)

    def forget(self, number: int) -> None:
        """Forget an operation whose caller no longer waits."""
        self._under_way = {operation: tried for operation, tried in self._under_way.items() if tried.number != number}
        self._again = [(at_ms, tried) for at_ms, tried in self._again if tried.number != number]

    def pass_time(self, now_ms: int) -> list[MemberEffect]:
        effects: list[MemberEffect] = []
        due = [tried for at_ms, tried in self._again if at_ms <= now_ms]
        self._again = [(at_ms, tried) for at_ms, tried in self._again if at_ms > now_ms]
        for tried in due:
            effects += self.ask(tried.number, tried.tries, now_ms, tried.failures)
        if self._due_ms is not None and self._due_ms <= now_ms:
            self.restart(now_ms)
            effects += self.ask(None, 1, now_ms)
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        due = [at_ms for at_ms, _ in self._again]
        return min(due if self._due_ms is None else [*due, self._due_ms], default=None)

    def _send(
        self, tried: _CommitAttempt, offsets: Mapping[TopicPartition, OffsetToCommit], now_ms: int
    ) -> list[MemberEffect]:
        if not offsets:
            return _ended(tried.number, ErrorCode.NONE, {}, "")
        operation = self.operation()
        self._under_way[operation] = tried
        deadline_ms = now_ms + self._settings.request_timeout_ms
        return [FeedMember(CommitAsked(operation, offsets, deadline_ms, once=True))]


def _ended(
    number: int | None, code: ErrorCode, offsets: Mapping[TopicPartition, int], reason: str
) -> list[MemberEffect]:
    return [] if number is None else [CommitEnded(number, code, offsets, reason)]
