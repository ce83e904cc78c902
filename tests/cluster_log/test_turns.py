"""Logs of shards that others serve: read one after the other, when no client waits for a claim."""

from coordinator.cluster_log.cluster_shard import ClusterShard
from coordinator.cluster_log.effects import AskProducerId, ReadLog, ShardEffect
from coordinator.cluster_log.entries import claim_batch, tagged_batch
from coordinator.cluster_log.events import (
    FollowingWanted,
    LogRead,
    OwnershipGiven,
    OwnershipLost,
    ProducerIdAnswered,
)
from coordinator.cluster_log.lease import Lease
from coordinator.cluster_log.settings import BootMoment
from coordinator.cluster_log.turns import ReadTurns
from protocol.errors import ErrorCode
from tests.cluster_log.rig import SETTINGS, Bench, kinds, only

PAIR = (b"\0\1k", b"v")
FOLLOW = FollowingWanted(is_wanted=True)


class Two:
    """Two shards of one node."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.lease = Lease(SETTINGS)
        self.lease.heartbeat_succeeded(self.now_ms, self.now_ms)
        turns = ReadTurns()
        self.shards = [ClusterShard(index, SETTINGS, self.lease, turns, self.now) for index in range(2)]

    @property
    def now(self) -> BootMoment:
        return BootMoment(self.now_ms, self.now_ms)

    def follow_both(self) -> None:
        for shard in self.shards:
            shard.happen(FOLLOW, self.now)

    def wait(self) -> list[ShardEffect]:
        """Let the pause before a retry pass; return the effects of both."""
        self.now_ms += SETTINGS.retry_ms
        self.lease.heartbeat_succeeded(self.now_ms, self.now_ms)
        return [effect for shard in self.shards for effect in shard.take_effects(self.now)]

    def answer(self, read: ReadLog, error: ErrorCode | None = ErrorCode.NONE, end: int = 0) -> list[ShardEffect]:
        """Answer a read with nothing; at offset 0 that is the end."""
        self.shards[read.shard].happen(LogRead(read.number, error, high_watermark=end), self.now)
        return self.shards[read.shard].take_effects(self.now)


def test_a_log_that_is_followed_was_read_when_its_end_is_reached_which_is_told_once() -> None:
    bench = Bench()
    bench.put(claim_batch((7, 0, 0), 5))
    bench.put(tagged_batch([PAIR], 0, (7, 0, 1), 5))
    assert kinds(bench.answer(bench.tell(FOLLOW))) == ["LogReplayed", "ShardCaughtUp"]
    assert kinds(bench.answer(bench.wait(SETTINGS.follow_ms))) == []
    bench.tell(FollowingWanted(is_wanted=False))
    assert kinds(bench.answer(bench.tell(FOLLOW))) == ["ShardCaughtUp"], "again, if it is followed again"


def test_logs_are_read_along_one_after_the_other() -> None:
    two = Two()
    two.follow_both()
    first = only(two.wait(), ReadLog)
    assert two.wait() == []
    assert kinds(two.answer(first)) == ["ShardCaughtUp"]
    second = only(two.wait(), ReadLog)
    assert (first.shard, second.shard) == (0, 1)
    assert kinds(two.answer(second)) == ["ShardCaughtUp"]


def test_a_log_that_cannot_be_read_now_holds_up_no_other() -> None:
    two = Two()
    two.follow_both()
    assert two.answer(only(two.wait(), ReadLog), ErrorCode.LEADER_NOT_AVAILABLE) == []
    assert only(two.wait(), ReadLog).shard == 1


def test_a_log_that_is_followed_no_more_holds_up_no_other() -> None:
    two = Two()
    two.follow_both()
    assert only(two.wait(), ReadLog).shard == 0
    two.shards[0].happen(FollowingWanted(is_wanted=False), two.now)
    assert only(two.wait(), ReadLog).shard == 1


def test_no_log_is_read_along_while_a_shard_is_claimed() -> None:
    two = Two()
    claimed, followed = two.shards
    claimed.happen(OwnershipGiven(), two.now)
    followed.happen(FOLLOW, two.now)
    asked = only(two.wait(), AskProducerId)
    assert two.wait() == []
    claimed.happen(ProducerIdAnswered(asked.number, ErrorCode.NONE, 7, 0), two.now)
    assert only(claimed.take_effects(two.now), ReadLog).shard == 0, "the claim reads its own log"
    assert two.wait() == []
    claimed.happen(OwnershipLost(), two.now)
    assert only(two.wait(), ReadLog).shard == 1


def test_a_shard_that_is_claimed_while_it_is_read_along_leaves_its_turn_to_others() -> None:
    two = Two()
    two.follow_both()
    assert only(two.wait(), ReadLog).shard == 0
    two.shards[0].happen(OwnershipGiven(), two.now)
    assert kinds(two.wait()) == ["AskProducerId"]
    two.shards[0].happen(OwnershipLost(), two.now)
    assert only(two.wait(), ReadLog).shard == 1


def test_a_claim_of_a_shard_that_was_behind_waits_for_no_turn() -> None:
    two = Two()
    two.follow_both()
    assert only(two.wait(), ReadLog).shard == 0
    behind = two.shards[1]
    behind.happen(OwnershipGiven(), two.now)
    begun = two.wait()
    behind.happen(ProducerIdAnswered(only(begun, AskProducerId).number, ErrorCode.NONE, 7, 0), two.now)
    assert two.answer(only(begun, ReadLog), None) == []
    assert only(two.wait(), ReadLog).shard == 1, "it reads again after an error"


def test_a_log_that_is_damaged_holds_up_no_other() -> None:
    two = Two()
    two.follow_both()
    damaged = bytearray(claim_batch((7, 0, 0), 5))
    damaged[-1] ^= 1
    read = only(two.wait(), ReadLog)
    two.shards[0].happen(LogRead(read.number, ErrorCode.NONE, bytes(damaged), 1), two.now)
    assert "cannot be read" in two.shards[0].problem
    assert [effect.shard for effect in two.wait() if isinstance(effect, ReadLog)][-1] == 1


def test_a_claim_that_gets_no_further_holds_up_no_other() -> None:
    two = Two()
    claimed, followed = two.shards
    claimed.happen(OwnershipGiven(), two.now)
    claimed.happen(ProducerIdAnswered(only(two.wait(), AskProducerId).number, ErrorCode.NONE, 7, 0), two.now)
    read = only(claimed.take_effects(two.now), ReadLog)
    followed.happen(FOLLOW, two.now)
    assert two.wait() == []
    claimed.happen(LogRead(read.number, ErrorCode.LEADER_NOT_AVAILABLE), two.now)
    assert sorted(only([effect], ReadLog).shard for effect in two.wait()) == [0, 1]


def test_the_next_shard_is_woken_at_once() -> None:
    woken: list[int] = []
    turns = ReadTurns(woken.append)
    assert turns.take(0) and not turns.take(1) and not turns.take(2)
    turns.end(1)  # it is followed no more
    turns.end(0)
    assert woken == [2] and turns.take(2)
    turns.note_claim(5, is_under_way=True)
    assert not turns.take(3)
    turns.end(2)
    assert woken == [2]
    turns.note_claim(5, is_under_way=False)
    assert woken == [2, 3] and turns.take(3)
