"""EDGE: the cluster's side of a move: records of its log, claims of all shards at once, and the check that no node
runs."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from coordinator.cluster_log.events import BatchAnswered, LogRead, ProducerIdAnswered, ShardEvent
from coordinator.cluster_log.log_move import LogSurvey, MovePhase, Records, ShardMove
from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC, BootMoment, ClusterLogSettings
from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink
from coordinator.gateway.io.cluster.log_requests import LogRequests
from coordinator.gateway.io.cluster.member import boot_ms
from coordinator.gateway.io.cluster.nodes_members import count_members
from coordinator.gateway.io.move.data_folder import MoveRefused
from protocol.errors import ErrorCode
from protocol.record_batch import CorruptBatch
from protocol.words import counted

Parts = Sequence[LogSurvey] | Sequence[ShardMove]
T = TypeVar("T")


class ClusterSide:
    """Log of the cluster, by shards. `patience_s`: time without progress after which a move is given up."""

    def __init__(
        self,
        link: ClusterLink,
        settings: ClusterLogSettings,
        patience_s: float = 60.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._settings = settings
        self._patience_s = patience_s
        self._clock_s = clock_s
        self._requests = LogRequests(link, OFFSETS_LOG_TOPIC, self._answer)
        self._answered: list[tuple[int, ShardEvent]] = []
        self._woken = asyncio.Event()
        self._has_progressed = False
        self._errors: dict[int, ErrorCode] = {}
        """Error, or NONE, of the last answer of a broker for each shard, since the last progress."""

    async def stop(self) -> None:
        """Close the connections."""
        await self._requests.stop()
        await self._link.stop()

    # --- survey ---

    async def partitions(self) -> int:
        """Return the number of shards in the cluster's log, 0 if it has no such topic. Raises RequestFailed."""
        (topic,) = (await self._link.metadata(OFFSETS_LOG_TOPIC)).topics
        if topic.error_code not in {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
            raise RequestFailed(f"topic {OFFSETS_LOG_TOPIC}: {topic.error_code.name}")
        return len(topic.partitions)

    async def check_unused(self, group: str) -> None:
        """Raises MoveRefused while the nodes' group has members, RequestFailed if that is unknown."""
        if members := await count_members(self._link, group, self._patience_s):
            raise MoveRefused(
                f"the group {group} has {counted(members, 'member')}: stop every node first; "
                "one that was killed counts until its session has ended"
            )

    async def survey(self, shards: int) -> list[Records]:
        """Return the records of each shard, without a claim. Raises MoveRefused."""
        surveys = [LogSurvey(index, self._settings) for index in range(shards)]
        await self._run(surveys, lambda: [one for one in surveys if not one.is_done])
        return [one.records for one in surveys]

    # --- moves ---

    async def write(self, wanted: Sequence[Mapping[bytes, bytes]]) -> int:
        """Claim each shard, write those of these records that it lacks, and read it back. Return the number of records
        written. Raises MoveRefused."""
        moves = [ShardMove(index, self._settings, _now(), records) for index, records in enumerate(wanted)]
        await self._settle(moves)
        return sum(one.written for one in moves)

    async def take(self, shards: int) -> list[ShardMove]:
        """Claim each shard and read it. Raises MoveRefused."""
        moves = [ShardMove(index, self._settings, _now(), None) for index in range(shards)]
        await self._settle(moves)
        return moves

    async def hold(self, moves: Sequence[ShardMove], job: Coroutine[Any, Any, T]) -> T:
        """Keep the claims of `take` until the job is done; return its result. A shard that nobody looks after for a
        session would count as one of a process that was suspended."""
        task = asyncio.ensure_future(job)
        task.add_done_callback(lambda _: self._woken.set())
        try:
            while not task.done():
                self._send_due(moves)
                await self._receive(moves, moves)
        finally:
            task.cancel()
        return await task

    async def confirm(self, moves: Sequence[ShardMove]) -> None:
        """Verify that no shard was claimed since `take`. Raises MoveRefused."""
        for one in moves:
            one.confirm(_now())
        await self._settle(moves)

    async def _settle(self, moves: Sequence[ShardMove]) -> None:
        def unsettled() -> list[ShardMove]:
            for one in moves:
                if one.phase is MovePhase.FAILED:
                    raise MoveRefused(f"shard {one.index}: {one.reason}")
            return [one for one in moves if not one.is_settled]

        await self._run(moves, unsettled)

    # --- requests and answers ---

    async def _run(self, parts: Parts, left: Callable[[], Sequence[LogSurvey | ShardMove]]) -> None:
        """Exchange requests and answers until nothing is left. Raises MoveRefused, also after `patience_s` without
        progress."""
        progress, since_s = len(parts), self._clock_s()
        self._errors.clear()
        while True:
            self._send_due(parts)
            open_ = left()
            if not open_:
                return
            if self._has_progressed or len(open_) < progress:
                self._has_progressed, progress, since_s = False, len(open_), self._clock_s()
                self._errors.clear()
            if self._clock_s() - since_s > self._patience_s:
                raise MoveRefused(self._why_not_finished(open_[0]))
            await self._receive(parts, open_)

    def _send_due(self, parts: Parts) -> None:
        for part in parts:
            for request in part.take_effects(_now()):
                self._requests.send(request)

    async def _receive(self, parts: Parts, open_: Sequence[LogSurvey | ShardMove]) -> None:
        """Handle the answers; wait until there is one, or a part must be looked after. Raises MoveRefused."""
        due_ms = min(part.next_deadline_ms for part in open_)
        self._woken.clear()
        if not self._answered:
            await _wait(self._woken, min(max(due_ms - boot_ms(), 1), 1_000) / 1_000)
        answered, self._answered = self._answered, []
        for shard, event in answered:
            try:
                parts[shard].happen(event, _now())
            except CorruptBatch as damaged:
                raise MoveRefused(f"shard {shard} in the cluster cannot be read: {damaged}") from None

    def _answer(self, shard: int, event: ShardEvent) -> None:
        self._answered.append((shard, event))
        self._woken.set()
        if _is_progress(event):
            self._has_progressed = True
        error = event.error if isinstance(event, LogRead | BatchAnswered | ProducerIdAnswered) else None
        if error is not None and error is not ErrorCode.LEADER_NOT_AVAILABLE:  # that one stands for an unknown leader
            self._errors[shard] = error

    def _why_not_finished(self, part: LogSurvey | ShardMove) -> str:
        error = self._errors.get(part.index)
        if error is None:
            why = "no broker answers for it"
        else:
            said = "" if error is ErrorCode.NONE else f", {error.name} at last"
            why = f"not finished, though the brokers answer for it{said}"
        if isinstance(part, LogSurvey):
            return f"shard {part.index} is still being read: {why}"
        problem = f" (before: {part.problem})" if part.problem else ""
        return f"shard {part.index} is still {part.phase.value}: {why}{problem}"


def _is_progress(event: ShardEvent) -> bool:
    """Return true for an answer that brought the move on. Refusals do not count, nor do reads without records and
    producer ids: a shard that gets on no further asks for them again and again."""
    is_taken = isinstance(event, LogRead | BatchAnswered) and event.error is ErrorCode.NONE
    return is_taken and not (isinstance(event, LogRead) and not event.data)


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return


def _now() -> BootMoment:
    return BootMoment(boot_ms(), time.time_ns() // 1_000_000)
