"""Moves of shards into the cluster's log and out of it, at brokers as the simulation has them."""

from collections.abc import Callable
from random import Random

import pytest

from coordinator.cluster_log.cluster_shard import NEVER, ClusterShard
from coordinator.cluster_log.effects import AskProducerId, ReadLog, ShardOwned, WriteBatch
from coordinator.cluster_log.entries import TransactionOffsets, claim_batch, pending_pair, tagged_batch
from coordinator.cluster_log.events import BatchAnswered, LogRead, OwnershipGiven, ProducerIdAnswered, ShardEvent
from coordinator.cluster_log.lease import Lease
from coordinator.cluster_log.log_move import LogSurvey, MovePhase, Records, Request, ShardMove, apply
from coordinator.cluster_log.settings import BootMoment, ClusterLogSettings
from coordinator.cluster_log.turns import ReadTurns
from protocol.errors import ErrorCode
from tests.simulation.cluster.coordinators import ProducerIds
from tests.simulation.cluster.partition import Partition

DAY_MS = 86_400_000
SETTINGS = ClusterLogSettings(max_batch_bytes=2_000)
SLEPT = f"it was lost while it was moved: the process slept for {SETTINGS.session_ms + 1} ms"
WANTED: Records = {b"group-%d" % n: b"offset %d" % (n * n) for n in range(200)}
Fault = Callable[[Request], bool]


class Cluster:
    """One partition and a coordinator of ids. `loses` tells whether the answer to a request is lost."""

    def __init__(self, seed: int = 1) -> None:
        self.now_ms = 1_000
        self.partition = Partition(Random(seed), DAY_MS, DAY_MS)
        self.producer_ids = ProducerIds(1_000, DAY_MS)
        self.random = Random(seed)
        self.writes = 0
        self.loses: Fault = lambda request: False
        self.under_way: list[Request] = []
        """Requests that the last run did not carry."""

    @property
    def now(self) -> BootMoment:
        return BootMoment(self.now_ms, self.now_ms)

    def answer(self, request: Request) -> ShardEvent:
        event = self._answer(request)
        if not self.loses(request):
            return event
        if isinstance(request, AskProducerId):
            return ProducerIdAnswered(request.number, None)
        return (LogRead if isinstance(request, ReadLog) else BatchAnswered)(request.number, None)

    def _answer(self, request: Request) -> ShardEvent:
        if isinstance(request, AskProducerId):
            given = self.producer_ids.init(0, request.producer_id, request.producer_epoch, self.now_ms)
            return ProducerIdAnswered(request.number, *given)
        if isinstance(request, ReadLog):
            error, data, end = self.partition.fetch(request.offset, 3)
            return LogRead(request.number, error, data, end)
        self.writes += 1
        error, base, _ = self.partition.append(request.batch, self.now_ms)
        self.partition.replicate(self.now_ms)
        return BatchAnswered(request.number, error, base)

    def run(self, part: ShardMove | LogSurvey, until: Callable[[], bool], steps: int = 2_000) -> None:
        """Carry requests, one at a time, until then."""
        for _ in range(steps):
            requests = [*self.under_way, *part.take_effects(self.now)]
            self.under_way = []
            if until():
                self.under_way = requests
                return
            self.now_ms += 1
            if not requests:
                assert part.next_deadline_ms < NEVER, "nothing is waited for"
                self.now_ms = max(self.now_ms, part.next_deadline_ms)
            for request in requests:
                part.happen(self.answer(request), self.now)
        raise AssertionError("it does not end")

    def move(self, wanted: Records | None) -> ShardMove:
        self.under_way = []
        move = ShardMove(0, SETTINGS, self.now, wanted)
        self.run(move, lambda: move.is_settled)
        return move

    def content(self) -> Records:
        survey = LogSurvey(0, SETTINGS)
        self.under_way = []
        self.run(survey, lambda: survey.is_done)
        return survey.records

    def owner(self) -> ClusterShard:
        """Have a node claim the shard."""
        lease = Lease(SETTINGS)
        lease.heartbeat_succeeded(self.now_ms, self.now_ms)
        node = ClusterShard(0, SETTINGS, lease, ReadTurns(), self.now)
        node.happen(OwnershipGiven(), self.now)
        is_owned = False
        while not is_owned:
            for effect in node.take_effects(self.now):
                if isinstance(effect, AskProducerId | ReadLog | WriteBatch):
                    node.happen(self.answer(effect), self.now)
                is_owned |= isinstance(effect, ShardOwned)
        return node


def test_records_are_moved_to_an_empty_log_in_batches_and_read_back() -> None:
    cluster = Cluster()
    move = cluster.move(WANTED)
    assert (move.phase, move.written) == (MovePhase.DONE, len(WANTED))
    assert list(cluster.content().items()) == list(WANTED.items())
    assert cluster.writes > 5


def test_a_survey_reads_and_claims_nothing() -> None:
    cluster = Cluster()
    assert cluster.content() == {}
    assert cluster.writes == 0 and cluster.partition.end == 0


def test_records_are_moved_out_again_as_they_were() -> None:
    cluster = Cluster()
    cluster.move(WANTED)
    out = cluster.move(None)
    phases = [out.phase]
    assert list(out.records.items()) == list(WANTED.items())
    out.confirm(cluster.now)
    cluster.run(out, lambda: out.is_settled)
    assert [*phases, out.phase] == [MovePhase.CLAIMED, MovePhase.DONE]


def test_a_log_with_records_of_others_is_not_written_to() -> None:
    cluster = Cluster()
    cluster.move({b"another group": b"7"})
    move = cluster.move(WANTED)
    assert move.phase is MovePhase.FAILED
    assert move.problem == "1 of the 1 records there are not those to be moved"
    assert cluster.content() == {b"another group": b"7"}


def test_so_is_one_that_has_another_value() -> None:
    cluster = Cluster()
    cluster.move({b"group-3": b"newer"})
    assert cluster.move(WANTED).phase is MovePhase.FAILED


@pytest.mark.parametrize("writes", range(12))
def test_a_move_that_was_killed_halfway_is_ended_by_the_next(writes: int) -> None:
    cluster = Cluster()
    killed = ShardMove(0, SETTINGS, cluster.now, WANTED)
    cluster.run(killed, lambda: cluster.writes >= writes or killed.is_settled)
    there = len(cluster.content())
    move = cluster.move(WANTED)
    assert (move.phase, move.written) == (MovePhase.DONE, len(WANTED) - there)
    assert list(cluster.content().items()) == list(WANTED.items())


def test_what_a_killed_move_had_under_way_does_not_come_behind_the_next_claim() -> None:
    cluster = Cluster()
    killed = ShardMove(0, SETTINGS, cluster.now, WANTED)
    under_way: list[WriteBatch] = []
    while not under_way:
        for request in killed.take_effects(cluster.now):
            if isinstance(request, WriteBatch) and cluster.writes:
                under_way.append(request)
            else:
                killed.happen(cluster.answer(request), cluster.now)
    assert cluster.move(WANTED).phase is MovePhase.DONE
    late = cluster.answer(under_way[0])
    assert isinstance(late, BatchAnswered) and late.error is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("seed", range(20))
def test_lost_answers_and_moving_leaders_change_nothing(seed: int) -> None:
    cluster = Cluster(seed)
    cluster.loses = lambda request: not isinstance(request, AskProducerId) and cluster.random.random() < 0.3
    move = ShardMove(0, SETTINGS, cluster.now, WANTED)
    moves = 0

    def is_over() -> bool:
        nonlocal moves
        if cluster.random.random() < 0.1 and moves < 5:
            moves += 1
            cluster.partition.move(cluster.now_ms, 0)
        elif cluster.random.random() < 0.3:
            cluster.partition.replicate(cluster.now_ms)
        return move.is_settled

    cluster.run(move, is_over, 20_000)
    assert (move.phase, move.problem) == (MovePhase.DONE, "")
    cluster.partition.replicate(cluster.now_ms)
    assert cluster.content() == WANTED


@pytest.mark.parametrize("wanted", [WANTED, None])
def test_a_node_that_was_forgotten_is_fenced_by_the_move(wanted: Records | None) -> None:
    cluster = Cluster()
    node = cluster.owner()
    move = cluster.move(wanted)
    assert move.phase is (MovePhase.CLAIMED if wanted is None else MovePhase.DONE)
    node.append([(b"late", b"1")], cluster.now)
    (late,) = [one for one in node.take_effects(cluster.now) if isinstance(one, WriteBatch)]
    answer = cluster.answer(late)
    assert isinstance(answer, BatchAnswered) and answer.error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert b"late" not in cluster.content()


def test_a_node_that_claims_the_shard_meanwhile_ends_the_move() -> None:
    cluster = Cluster()
    move = ShardMove(0, SETTINGS, cluster.now, WANTED)
    cluster.run(move, lambda: cluster.writes >= 3)
    cluster.owner()
    cluster.run(move, lambda: move.is_settled)
    assert move.phase is MovePhase.FAILED
    assert move.problem.startswith("it was lost while it was moved")


def test_a_node_that_claims_the_shard_during_the_read_back_ends_the_move() -> None:
    cluster = Cluster()
    move = ShardMove(0, SETTINGS, cluster.now, WANTED)
    cluster.run(move, lambda: move.phase is MovePhase.READING_BACK)
    cluster.owner()
    cluster.run(move, lambda: move.is_settled)
    assert (move.phase, move.problem) == (MovePhase.FAILED, "another node claimed it meanwhile")


def test_a_node_that_claimed_the_shard_before_a_move_out_was_confirmed_ends_it() -> None:
    cluster = Cluster()
    cluster.move(WANTED)
    out = cluster.move(None)
    cluster.owner()
    out.confirm(cluster.now)
    cluster.run(out, lambda: out.is_settled)
    assert out.phase is MovePhase.FAILED


def test_a_move_out_whose_process_slept_fails_with_a_sentence_and_keeps_its_records() -> None:
    cluster = Cluster()
    cluster.move(WANTED)
    out = cluster.move(None)
    cluster.now_ms += SETTINGS.session_ms + 1
    out.confirm(cluster.now)
    assert (out.phase, out.problem) == (MovePhase.FAILED, SLEPT)
    assert out.take_effects(cluster.now) == [] and out.records == WANTED


def test_a_move_out_that_lost_its_shard_before_it_is_confirmed_stays_failed() -> None:
    cluster = Cluster()
    cluster.move(WANTED)
    out = cluster.move(None)
    cluster.now_ms += SETTINGS.session_ms + 1
    out.take_effects(cluster.now)
    assert (out.phase, out.records) == (MovePhase.FAILED, WANTED)
    out.confirm(cluster.now)
    assert (out.phase, out.problem) == (MovePhase.FAILED, SLEPT)


def test_a_move_out_that_is_looked_after_is_confirmed_sessions_later() -> None:
    cluster = Cluster()
    cluster.move(WANTED)
    out = cluster.move(None)
    for _ in range(10):
        cluster.now_ms = out.next_deadline_ms
        assert out.take_effects(cluster.now) == []
    out.confirm(cluster.now)
    cluster.run(out, lambda: out.is_settled)
    assert out.phase is MovePhase.DONE


def test_records_that_do_not_count_are_repaired_with_those_to_be_moved() -> None:
    """A leader forgot a former owner, and took its records behind the claim of the next."""
    cluster = Cluster()
    first = cluster.owner()
    cluster.owner()
    assert first.claim is not None
    cluster.partition.forget()
    stale = [(b"group-3", b"stale"), (b"nobody's", b"stale")]
    batch = tagged_batch(stale, first.claim.offset, (first.claim.producer_id, first.claim.producer_epoch, 0), 0)
    assert cluster.partition.append(batch, cluster.now_ms)[0] is ErrorCode.NONE
    cluster.partition.replicate(cluster.now_ms)
    assert cluster.move(WANTED).phase is MovePhase.DONE
    cluster.now_ms += 2 * DAY_MS
    cluster.partition.clean(cluster.now_ms)
    assert cluster.content() == WANTED


def test_what_was_read_back_is_compared() -> None:
    cluster = Cluster()
    move = ShardMove(0, SETTINGS, cluster.now, WANTED)
    cluster.run(move, lambda: move.phase is MovePhase.READING_BACK)
    cluster.partition.batches.pop(3)
    cluster.run(move, lambda: move.is_settled)
    assert (move.phase, move.problem) == (MovePhase.FAILED, "what was read back is not what was written")


def test_newer_values_and_tombstones_win() -> None:
    records: Records = {}
    apply(records, [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"), (b"c", None)])
    assert list(records.items()) == [(b"b", b"2"), (b"a", b"3")]


def test_offsets_of_a_transaction_that_are_pending_are_not_moved_out() -> None:
    cluster = Cluster()
    written = [claim_batch((1, 0, 0), 5), tagged_batch([pending_pair(b"txn|0|1", OFFSETS)], 0, (1, 0, 1), 5)]
    for batch in written:
        cluster.partition.append(batch, cluster.now_ms)
    cluster.partition.replicate(cluster.now_ms)
    move = ShardMove(0, SETTINGS, cluster.now, None)
    cluster.run(move, lambda: move.is_settled)
    assert move.phase is MovePhase.FAILED
    assert "a transaction are pending there" in move.problem


OFFSETS = TransactionOffsets(900, 1, ((b"\0\1k", b"v"),))
