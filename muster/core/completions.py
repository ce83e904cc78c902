"""Completions of operations, without I/O: commits and offset fetches, awaited or completed by callbacks."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from membership.checks import MOST_64, check_name, check_number, check_partitions
from membership.events import (
    Assigned,
    CommitDone,
    Fatal,
    LostPartitions,
    MemberEffect,
    OffsetsDone,
    OffsetToCommit,
    Revoked,
)
from membership.topic_partition import TopicPartition
from muster.errors import (
    CannotConnect,
    CommitRefused,
    Fenced,
    GroupRefused,
    MusterError,
    Refused,
    RequestTimedOut,
    WokenUp,
)
from muster.net.refusals import Refusals
from protocol.errors import ErrorCode

Done = CommitDone | OffsetsDone
Partitions = tuple[TopicPartition, ...]
Completion = Callable[[Done], Generator[Any, Any, None]]
"""A procedure that runs in a later call of the application, once an operation has ended."""

_UNHEARD = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION})
"""Errors that mean that no reply came, or will come."""


class Completions:
    """Operations by their numbers, which are used once, with the receiver of each result. Not thread-safe."""

    def __init__(self, refusals: Refusals | None = None) -> None:
        """`refusals` interrupt waits, as `wake` does."""
        self._refusals = refusals or Refusals()
        self._made = 0
        self._done: dict[int, Done] = {}
        self._receivers: dict[int, Callable[[Done], None]] = {}
        self._later: dict[int, Completion] = {}
        self._finished: deque[tuple[Completion, Done]] = deque()
        self.on_commit: Completion | None = None
        """Runs for each stored commit, before the commit's own callback."""
        self._is_woken = self._sleeps_through = False

    def number(self) -> int:
        """Return a number for an operation whose caller waits."""
        self._made += 1
        return self._made

    def number_with_receiver(self, receiver: Callable[[Done], None]) -> int:
        """Return a number for an operation whose receiver is called as soon as the effect comes."""
        number = self.number()
        self._receivers[number] = receiver
        return number

    def number_with_callback(self, callback: Completion) -> int:
        """Return a number for an operation whose callback runs in a later call of the application, by
        `next_finished`."""
        number = self.number()
        self._later[number] = callback
        return number

    def ended(self, done: Done) -> None:
        number = done.operation
        is_stored = isinstance(done, CommitDone) and done.error_code == ErrorCode.NONE and done.offsets
        if self.on_commit is not None and is_stored:
            self._finished.append((self.on_commit, done))
        if number in self._receivers:
            self._receivers.pop(number)(done)
        elif number in self._later:
            self._finished.append((self._later.pop(number), done))
        else:
            self._done[number] = done

    def is_done(self, number: int) -> bool:
        return number in self._done

    def take(self, number: int) -> Done:
        """Remove and return the result. KeyError if there is none yet."""
        return self._done.pop(number)

    def forget(self, number: int) -> None:
        """Drop an operation whose caller no longer waits, ended or not."""
        if self._done.pop(number, None) is None:
            self._receivers[number] = _ignore

    # -- operations with callbacks

    @property
    def has_callbacks(self) -> bool:
        return bool(self._finished)

    @property
    def awaits_later_ones(self) -> bool:
        return bool(self._later)

    def next_finished(self) -> tuple[Completion, Done] | None:
        """Return the callback of the next ended operation, in the order of the ends; None if there is none."""
        return self._finished.popleft() if self._finished else None

    # -- interruptions

    def wake(self) -> None:
        """Interrupt the wait under way, or the next one, once."""
        self._is_woken = not self._sleeps_through

    def raise_wakeup(self) -> None:
        """Raise WokenUp, once for each `wake`; AuthenticationFailed, once for each refusal."""
        woken, self._is_woken = self._is_woken, False
        if woken:
            raise WokenUp("wakeup was called")
        self.raise_refusal()

    def raise_refusal(self) -> None:
        """Raise AuthenticationFailed if a server has refused a login since the last time; ClientFailed."""
        self._refusals.raise_failure()
        if not self._sleeps_through:
            self._refusals.raise_last()

    @property
    def is_woken(self) -> bool:
        return self._is_woken or self.has_failed or not (self._refusals.is_clear or self._sleeps_through)

    @property
    def has_failed(self) -> bool:
        """True if no operation will end any more, since the client failed."""
        return self._refusals.has_failed

    def sleep_through(self) -> None:
        """Do not interrupt waits from now on."""
        self._is_woken, self._sleeps_through = False, True


class RebalanceQueue:
    """The rebalances to report to the application, in order."""

    def __init__(self, outcomes: Completions) -> None:
        self._outcomes = outcomes
        self._queue: deque[MemberEffect] = deque()
        self._awaited: int | None = None  # the operation that must end before the first is reported
        self._is_hurried = False

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_held_up(self) -> bool:
        """True if the next one waits for an operation that has not ended."""
        return self._awaited is not None and not self._outcomes.is_done(self._awaited)

    def hurry(self) -> None:
        """Stop waiting for operations that may never end, since no time is left."""
        self._is_hurried, self._awaited = True, None

    def add(self, effect: MemberEffect) -> None:
        self._queue.append(effect)

    def add_again(self, effect: MemberEffect) -> None:
        """Put a rebalance whose listener was interrupted back at the front."""
        self._queue.appendleft(effect)

    def next(self, prepare: Callable[[Partitions], int | None]) -> Revoked | LostPartitions | Assigned | None:
        """Return the next rebalance to report, if there is one. Before a `Revoked`, or a `LostPartitions` that still
        counts, `prepare` is called once with its partitions; if it returns an operation's number, that of a last
        commit, the effect is returned after its end. Raises GroupRefused, Fenced.
        """
        if not self._queue:
            return None
        effect = self._queue[0]
        committable = _committable(effect)
        if committable is not None and not self._is_prepared(committable, prepare):
            return None
        self._queue.popleft()
        if isinstance(effect, Fatal):
            kind = Fenced if effect.error_code == ErrorCode.FENCED_INSTANCE_ID else GroupRefused
            raise kind(effect.error_code, effect.reason)
        assert isinstance(effect, Revoked | LostPartitions | Assigned)
        return effect

    def _is_prepared(self, partitions: Partitions, prepare: Callable[[Partitions], int | None]) -> bool:
        if self._is_hurried:
            return True
        if self._awaited is None:
            self._awaited = prepare(partitions)
            if self._awaited is None:
                return True
        if not self._outcomes.is_done(self._awaited):
            return False
        self._outcomes.take(self._awaited)
        self._awaited = None
        return True


def _committable(effect: MemberEffect) -> Partitions | None:
    """Return the partitions for which a last commit is allowed before this effect; None if it is not."""
    if isinstance(effect, Revoked) or (isinstance(effect, LostPartitions) and effect.still_counts):
        return effect.partitions
    return None


def _ignore(_done: Done) -> None:
    """Drop a completion whose caller has gone."""


def without(partitions: Partitions, gone: Iterable[TopicPartition]) -> Partitions:
    lost = set(gone)
    return tuple(one for one in partitions if one not in lost)


def to_commit(offsets: Mapping[TopicPartition, int | OffsetToCommit]) -> dict[TopicPartition, OffsetToCommit]:
    """Return the offsets for a `CommitAsked`. Raises ValueError for a negative offset."""
    wanted: dict[TopicPartition, OffsetToCommit] = {}
    for one, given in offsets.items():
        at = given if isinstance(given, OffsetToCommit) else OffsetToCommit(given)
        number = check_number(f"cannot commit {at.offset!r} for {one}: an offset", at.offset, 0, MOST_64)
        if at.metadata is not None:
            check_name("the metadata of a commit", at.metadata)
        wanted[one] = at if number is at.offset else OffsetToCommit(number, at.metadata, at.owner_epoch)
    check_partitions(wanted)
    return wanted


def refusal(done: CommitDone) -> Refused:
    """Return the exception for an operation that stored nothing."""
    match done.error_code:
        case ErrorCode.REBALANCE_IN_PROGRESS:
            sentence = "the group is rebalancing: poll, then commit what is still assigned"
        case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION | ErrorCode.FENCED_INSTANCE_ID:
            why = f" ({done.reason})" if done.reason else ""
            sentence = f"{done.error_code.name}: this member is no longer in the group{why}; poll to join again"
        case _:
            sentence = f"the commit was refused: {done.error_code.name}"
    return CommitRefused(done.error_code, sentence)


def failure(done: CommitDone) -> MusterError:
    """Return the exception for a failed operation: as `refusal`, or one that says that offsets may be stored if the
    reply was lost."""
    if done.error_code in _UNHEARD:
        return RequestTimedOut("the commit was not answered: it may be stored or not")
    return refusal(done)


def stored(done: CommitDone | None, sentence: str) -> dict[TopicPartition, int]:
    """Return the stored offsets of a commit. Raises RequestTimedOut with that sentence, or the exception of
    `refusal`."""
    if done is None or done.error_code in _UNHEARD:
        raise RequestTimedOut(sentence)
    if done.error_code != ErrorCode.NONE:
        raise refusal(done)
    return {one: at.offset for one, at in done.offsets.items()}


def found(done: OffsetsDone | None, sentence: str, unreached: str | None) -> dict[TopicPartition, int | None]:
    """Return the offsets of an offset fetch. Raises RequestTimedOut with that sentence, CannotConnect with `unreached`,
    if that is given since no node was ever reached, or Refused.
    """
    if done is None or done.error_code in _UNHEARD:
        if unreached is not None:
            raise CannotConnect(unreached)
        raise RequestTimedOut(sentence)
    if done.error_code != ErrorCode.NONE:
        raise Refused(done.error_code, f"the committed offsets were refused: {done.error_code.name}")
    return dict(done.offsets)
