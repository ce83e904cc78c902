"""EDGE: the cluster's side of a move, at brokers as the simulation has them and by clocks of the test's own."""

import asyncio
from collections.abc import Callable

import pytest

from coordinator.cluster_log.cluster_shard import NEVER
from coordinator.cluster_log.effects import AskProducerId, WriteBatch
from coordinator.cluster_log.entries import tagged_batch
from coordinator.cluster_log.events import BatchAnswered, LogRead, ProducerIdAnswered, ShardEvent
from coordinator.cluster_log.log_move import MovePhase, Records, Request
from coordinator.cluster_log.settings import BootMoment, ClusterLogSettings
from coordinator.gateway.io.broker_client import BrokerClient, HostPort
from coordinator.gateway.io.cluster.link import ClusterLink
from coordinator.gateway.io.move import cluster_side
from coordinator.gateway.io.move.cluster_side import ClusterSide
from coordinator.gateway.io.move.data_folder import MoveRefused
from protocol.errors import ErrorCode
from tests.cluster_log.test_log_move import WANTED, Cluster

_SETTINGS = ClusterLogSettings(max_batch_bytes=100, retry_ms=1)
_SESSION_MS = _SETTINGS.session_ms
_RECORDS: Records = dict(list(WANTED.items())[:60])
_PATIENCE_S, _ANSWER_S = 60.0, 20.0
_DOES_NOT_END = 5_000
"""Answers after which a test gives up: a move that should have ended goes on."""


class Brokers:
    """Answers requests at once, in place of LogRequests; each answer takes `_ANSWER_S` by the clock of the patience."""

    def __init__(self, shards: int = 2) -> None:
        self.clusters = [Cluster(seed) for seed in range(shards)]
        self.refuses: Callable[[Request], ErrorCode | None] = lambda request: ErrorCode.NONE
        """Error with which a request is answered that is not carried out, None for no answer."""
        self.elapsed_s = 0.0
        self.boot_ms = 1_000
        self.answers = 0
        self._answer: Callable[[int, ShardEvent], None] = lambda shard, event: None

    def connect(self, link: object, topic: str, answer: Callable[[int, ShardEvent], None]) -> "Brokers":
        self._answer = answer
        return self

    def send(self, request: Request) -> None:
        asyncio.get_running_loop().call_soon(self._carry, request)

    def _carry(self, request: Request) -> None:
        self.answers += 1
        assert self.answers < _DOES_NOT_END
        self.elapsed_s += _ANSWER_S / len(self.clusters)
        error = self.refuses(request)
        if error is ErrorCode.NONE:
            self._answer(request.shard, self.clusters[request.shard].answer(request))
        elif isinstance(request, AskProducerId):
            self._answer(request.shard, ProducerIdAnswered(request.number, error))
        else:
            kind = BatchAnswered if isinstance(request, WriteBatch) else LogRead
            self._answer(request.shard, kind(request.number, error))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(cluster_side, "LogRequests", made.connect)
    monkeypatch.setattr(cluster_side, "boot_ms", lambda: made.boot_ms)
    monkeypatch.setattr(cluster_side, "_now", lambda: BootMoment(made.boot_ms, made.boot_ms))
    return made


@pytest.fixture
def side(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> ClusterSide:
    async def wait(event: asyncio.Event, timeout_s: float) -> None:
        await asyncio.sleep(0)
        if not event.is_set():  # as if the time had passed
            brokers.boot_ms += max(int(timeout_s * 1_000), 1)

    monkeypatch.setattr(cluster_side, "_wait", wait)
    link = ClusterLink([("127.0.0.1", 1)], _no_client, lambda reply: "")
    return ClusterSide(link, _SETTINGS, _PATIENCE_S, lambda: brokers.elapsed_s)


async def _no_client(address: HostPort) -> BrokerClient:
    raise AssertionError("nothing is asked but by the requests")


async def test_a_log_whose_reading_takes_longer_than_the_patience_is_read(brokers: Brokers, side: ClusterSide) -> None:
    assert await side.write([_RECORDS, _RECORDS]) == 2 * len(_RECORDS)
    brokers.elapsed_s = 0.0
    assert await side.survey(2) == [_RECORDS, _RECORDS]
    assert brokers.elapsed_s > 3 * _PATIENCE_S
    moves = await side.take(2)
    assert [one.records for one in moves] == [_RECORDS, _RECORDS]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (None, "no broker answers for it"),
        (ErrorCode.LEADER_NOT_AVAILABLE, "no broker answers for it"),
        (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "not finished, though the brokers answer for it, TOPIC_AUTHORIZATION_FAILED at last",
        ),
    ],
)
async def test_what_is_given_up_says_whether_brokers_answer(
    brokers: Brokers, side: ClusterSide, error: ErrorCode | None, why: str
) -> None:
    brokers.refuses = lambda request: ErrorCode.NONE if isinstance(request, AskProducerId) else error
    with pytest.raises(MoveRefused) as survey:
        await side.survey(2)
    assert str(survey.value) == f"shard 0 is still being read: {why}"
    brokers.refuses = lambda request: error
    with pytest.raises(MoveRefused) as take:
        await side.take(2)
    assert str(take.value).startswith(f"shard 0 is still claiming: {why}")


async def test_a_shard_whose_claim_is_refused_again_and_again_is_given_up(brokers: Brokers, side: ClusterSide) -> None:
    def refuse(request: Request) -> ErrorCode:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED if isinstance(request, WriteBatch) else ErrorCode.NONE

    brokers.refuses = refuse
    with pytest.raises(MoveRefused, match=r"shard 0 is still claiming: not finished.*before: .*AUTHORIZATION_FAILED"):
        await side.take(2)


async def test_claims_are_kept_while_a_folder_is_written_for_sessions(brokers: Brokers, side: ClusterSide) -> None:
    await side.write([_RECORDS, {}])
    moves = await side.take(2)

    async def write() -> str:
        end_ms = brokers.boot_ms + 10 * _SESSION_MS
        while brokers.boot_ms < end_ms:  # noqa: ASYNC110  (`hold` moves the clock by waiting)
            await asyncio.sleep(0)
        return "written"

    assert await side.hold(moves, write()) == "written"
    await side.confirm(moves)
    assert {one.phase for one in moves} == {MovePhase.DONE}


async def test_a_process_that_slept_while_a_folder_was_written_is_refused(brokers: Brokers, side: ClusterSide) -> None:
    await side.write([_RECORDS, {}])
    moves = await side.take(2)

    async def sleep() -> None:
        brokers.boot_ms += 2 * _SESSION_MS

    await side.hold(moves, sleep())
    assert moves[0].records == _RECORDS
    with pytest.raises(MoveRefused, match=r"shard 0: it was lost while it was moved: the process slept for 1\d+ ms"):
        await side.confirm(moves)


async def test_a_folder_that_cannot_be_written_is_told(side: ClusterSide) -> None:
    async def fail() -> None:
        raise MoveRefused("no room")

    with pytest.raises(MoveRefused, match="no room"):
        await side.hold(await side.take(2), fail())


async def test_a_repair_that_is_answered_after_take_does_not_block_confirm(brokers: Brokers, side: ClusterSide) -> None:
    cluster = brokers.clusters[0]
    first = cluster.owner()
    cluster.owner()
    assert first.claim is not None
    cluster.partition.forget()
    stale = tagged_batch([(b"key", b"stale")], first.claim.offset, (*first.claim[1:], 0), 0)
    assert cluster.partition.append(stale, cluster.now_ms)[0] is ErrorCode.NONE
    cluster.partition.replicate(cluster.now_ms)
    moves = await side.take(2)
    await asyncio.sleep(0)  # the answer arrives
    await side.confirm(moves)
    assert moves[0].phase is MovePhase.DONE and moves[0].next_deadline_ms < NEVER
