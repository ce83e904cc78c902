"""The steps of docs/spec/shared-log.md#Recommended, one by one."""

from coordinator.cluster_log.effects import (
    AskProducerId,
    KeysToRepair,
    LogReplayed,
    ReadLog,
    ShardHandedOver,
    ShardLost,
    ShardOwned,
    WriteBatch,
    WritesDurable,
)
from coordinator.cluster_log.entries import claim_batch, entries_of, fence_batch, tagged_batch
from coordinator.cluster_log.events import (
    BatchAnswered,
    FollowingWanted,
    LogRead,
    OwnershipGiven,
    OwnershipLost,
    OwnershipRevoked,
)
from protocol.errors import ErrorCode
from protocol.record_batch import read_header
from tests.cluster_log.rig import SETTINGS, Bench, kinds, only

PAIR = (b"\0\1k", b"v")


def producer_of(batch: bytes) -> tuple[int, int, int]:
    header = read_header(batch)
    return header.producer_id, header.producer_epoch, header.base_sequence


def test_an_owner_claims_replays_and_writes_under_its_claim() -> None:
    bench = Bench()
    bench.put(claim_batch((7, 0, 0), 5))
    bench.put(tagged_batch([PAIR], 0, (7, 0, 1), 5))
    asked = bench.tell(OwnershipGiven())
    assert only(asked, AskProducerId).producer_id == -1
    assert bench.shard.append([PAIR], bench.now) is None, "it is not served yet"
    claimed = bench.answer(bench.answer(asked, producer_id=7, producer_epoch=1))
    assert only(claimed, LogReplayed).records == (PAIR,)
    assert producer_of(only(claimed, WriteBatch).batch) == (7, 1, 0)
    owned = bench.answer(bench.answer(claimed))
    assert kinds(owned) == ["ShardOwned"] and only(owned, ShardOwned).tag == 2
    first, second = bench.shard.append([PAIR], bench.now), bench.shard.append([PAIR, PAIR], bench.now)
    written = bench.take()
    assert producer_of(only(written, WriteBatch).batch) == (7, 1, 1)
    third = bench.shard.append([PAIR], bench.now)
    assert bench.take() == [], "one batch is under way"
    durable = bench.answer(written)
    assert only(durable, WritesDurable).position == second
    assert producer_of(only(durable, WriteBatch).batch) == (7, 1, 4)
    assert only(bench.answer(durable), WritesDurable).position == third
    assert (first, second, third) == (1, 2, 3)


def test_another_producer_id_of_the_claim_before_is_fenced_first() -> None:
    bench = Bench()
    bench.put(claim_batch((6, 32_766, 0), 5))
    fence = bench.answer(bench.answer(bench.tell(OwnershipGiven()), producer_id=7, producer_epoch=0))
    assert producer_of(only(fence, WriteBatch).batch) == (6, 32_767, 0)
    claim = bench.answer(fence)
    assert producer_of(only(claim, WriteBatch).batch) == (7, 0, 0)
    assert "ShardOwned" in kinds(bench.answer(bench.answer(claim)))


def test_a_claim_of_an_unfenced_producer_that_came_between_makes_it_begin_anew() -> None:
    bench = Bench()
    claim = bench.answer(bench.answer(bench.tell(OwnershipGiven()), producer_id=7, producer_epoch=0))
    bench.put(claim_batch((9, 4, 0), 5))
    assert "ShardOwned" not in kinds(bench.answer(bench.answer(claim)))
    assert "came between" in bench.shard.problem
    assert "AskProducerId" in kinds(bench.wait(1_000))


def test_an_answer_that_tells_the_place_of_anothers_batch_is_no_claim() -> None:
    # Its fence has the epoch and sequence of this claim, which the leader therefore takes for a repetition.
    bench = Bench()
    claim = bench.answer(bench.answer(bench.tell(OwnershipGiven()), producer_id=7, producer_epoch=5))
    base = bench.put(fence_batch((7, 5, 0), 5))
    read = bench.answer(claim, error=ErrorCode.NONE, base_offset=base)
    assert "ShardOwned" not in kinds(bench.answer(read))
    assert bench.shard.problem == "another node claimed the shard"


def test_who_was_slower_asks_again_while_the_shard_is_its_own() -> None:
    for error in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        bench = Bench()
        claim = bench.answer(bench.answer(bench.tell(OwnershipGiven()), producer_id=7, producer_epoch=0))
        bench.answer(claim, error=error)
        assert error.name in bench.shard.problem
        bench.tell(OwnershipRevoked())
        assert "AskProducerId" not in kinds(bench.wait(2_000))
        assert "AskProducerId" in kinds(bench.tell(OwnershipGiven()))


def test_claims_that_are_refused_for_long_are_repeated_once_a_second() -> None:
    bench = Bench()
    asked = bench.tell(OwnershipGiven())
    pauses = []
    for _ in range(7):
        bench.answer(asked, error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        lost_ms = bench.now_ms
        while not (asked := bench.wait(100)):
            pass
        pauses.append(bench.now_ms - lost_ms)
    assert pauses == [100, 200, 400, 800, 1_000, 1_000, 1_000]

    claim = bench.answer(bench.answer(asked, producer_id=7, producer_epoch=0))
    bench.answer(bench.answer(claim))
    assert bench.shard.is_serving
    bench.shard.append([(b"k", b"1")], bench.now)
    bench.answer(bench.take())
    bench.shard.append([(b"k", b"2")], bench.now)
    bench.answer(bench.take(), error=ErrorCode.INVALID_PRODUCER_EPOCH)
    assert "AskProducerId" in kinds(bench.wait(100)), "a write that succeeded ends the row of failures"


def test_a_claim_that_took_longer_than_a_session_begins_anew() -> None:
    bench = Bench()
    claim = bench.answer(bench.answer(bench.tell(OwnershipGiven()), producer_id=7, producer_epoch=0))
    bench.wait(SETTINGS.session_ms + 1)
    again = bench.answer(claim, error=None)
    assert again == []
    assert kinds(bench.wait(2_000)) == ["AskProducerId"]


def test_without_an_answer_the_same_bytes_go_again_alone() -> None:
    for error in (None, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS):
        bench = Bench()
        bench.own()
        bench.shard.append([PAIR], bench.now)
        written = bench.take()
        assert bench.answer(written, error=error, base_offset=1) == []
        again = bench.wait(200)
        assert only(again, WriteBatch).batch == only(written, WriteBatch).batch
        assert only(again, WriteBatch).alone is (error is not ErrorCode.NOT_ENOUGH_REPLICAS)
        assert only(written, WriteBatch).number != only(again, WriteBatch).number
        late = BatchAnswered(only(written, WriteBatch).number, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert bench.tell(late) == [], "nobody waits for that answer any more"
        assert only(bench.answer(again), WritesDurable).position == 1


def test_a_superseded_owner_stops_at_once_and_acknowledges_nothing() -> None:
    bench = Bench()
    bench.own()
    bench.shard.append([PAIR], bench.now)
    lost = bench.answer(bench.take(), error=ErrorCode.INVALID_PRODUCER_EPOCH)
    assert kinds(lost)[:2] == ["ShardLost", "StateDropped"]
    assert not bench.shard.is_serving and bench.shard.read_position(bench.now) is None
    assert not [one for one in bench.effects if isinstance(one, WritesDurable)]


def test_innocent_batches_between_are_read_and_the_write_is_acknowledged() -> None:
    bench = Bench()
    bench.own()
    bench.shard.append([PAIR], bench.now)
    written = bench.take()
    bench.put(fence_batch((3, 1, 0), 5))
    bench.put(tagged_batch([(b"zombie", b"1")], 0, (3, 0, 9), 5))
    read = bench.answer(written)
    assert kinds(read) == ["ReadLog"] and only(read, ReadLog).offset == 1
    durable = bench.answer(read)
    assert only(durable, WritesDurable).position == 1
    assert only(durable, KeysToRepair).keys == (b"zombie",)
    bench.shard.append([PAIR], bench.now)
    assert only(bench.answer(bench.take()), WritesDurable).position == 2


def test_a_claim_between_means_superseded_though_the_leader_took_the_write() -> None:
    bench = Bench()
    bench.own()
    bench.shard.append([PAIR], bench.now)
    written = bench.take()
    bench.put(claim_batch((8, 0, 0), 5))
    assert kinds(bench.answer(bench.answer(written)))[0] == "ShardLost"
    assert not [one for one in bench.effects if isinstance(one, WritesDurable)]


def test_reads_wait_for_a_no_op_without_a_lease() -> None:
    bench = Bench()
    bench.own()
    assert bench.shard.read_position(bench.now) == 0
    bench.now_ms += SETTINGS.session_ms - SETTINGS.lease_margin_ms - 1
    assert bench.shard.read_position(bench.now) == 0
    bench.now_ms += 1
    position = bench.shard.read_position(bench.now)
    assert position == bench.shard.read_position(bench.now) == 1, "reads share what was not sent yet"
    written = bench.take()
    assert bench.shard.read_position(bench.now) == 2, "one under way says nothing of a later moment"
    assert only(bench.answer(written), WritesDurable).position == 1
    assert bench.shard.read_position(bench.now) in {2, 3}, "a write that was taken is no lease"


def test_a_process_that_slept_claims_anew_once_it_knows_that_it_is_a_member() -> None:
    bench = Bench()
    bench.own()
    bench.now_ms += SETTINGS.session_ms + 1
    assert bench.shard.append([PAIR], bench.now) is None
    assert {"ShardLost", "StateDropped"} == set(kinds(bench.take()))
    bench.now_ms += 1_000
    assert bench.take() == []
    bench.beat()
    bench.now_ms += 200
    assert kinds(bench.take()) == ["AskProducerId"]


def test_who_does_not_hear_of_the_nodes_group_for_three_sessions_lets_go_and_claims_anew_when_it_hears() -> None:
    bench = Bench()
    bench.own()
    bench.shard.append([PAIR], bench.now)
    written = bench.take()
    unheard_ms = SETTINGS.unheard_sessions * SETTINGS.session_ms
    for _ in range(unheard_ms // 1_000 - 1):
        bench.now_ms += 1_000
        assert bench.take() == []
    bench.now_ms += 1_000
    assert kinds(bench.take()) == ["ShardLost", "StateDropped"]
    assert bench.answer(written) == [], "what was under way is not acknowledged"
    bench.now_ms += SETTINGS.session_ms
    assert bench.take() == []
    bench.beat()
    bench.now_ms += 200
    assert kinds(bench.take()) == ["AskProducerId"]


def test_an_owner_keeps_its_fence_alive_and_renews_its_claim() -> None:
    bench = Bench()
    bench.own()
    kept = bench.wait(SETTINGS.keep_alive_ms)
    ((_, (no_op,)),) = entries_of(only(kept, WriteBatch).batch)
    assert no_op.key.startswith(b"noop|")
    bench.answer(kept)
    while not (asked := [one for one in bench.wait(600_000) if isinstance(one, AskProducerId)]):
        last = bench.effects[-1]
        if isinstance(last, WriteBatch):
            bench.answer([last])
    assert (asked[0].producer_id, asked[0].producer_epoch) == (7, 0)
    position = bench.shard.append([PAIR], bench.now)
    assert position is not None, "it serves meanwhile"
    claim = bench.answer(bench.answer(list(asked), producer_id=7, producer_epoch=1))
    renewed = bench.answer(bench.answer(claim))
    assert "ShardOwned" not in kinds(renewed) and bench.shard.claim is not None
    assert bench.shard.claim.producer_epoch == 1
    assert producer_of(only(renewed, WriteBatch).batch) == (7, 1, 1)
    assert only(bench.answer(renewed), WritesDurable).position == position


def test_who_is_fenced_when_renewing_serves_until_a_write_says_so() -> None:
    bench = Bench()
    bench.own()
    bench.now_ms += SETTINGS.session_ms // 2
    bench.shard._renew_ms = bench.now_ms
    bench.beat()
    bench.answer(bench.take(), error=ErrorCode.PRODUCER_FENCED)
    assert bench.shard.is_serving
    bench.shard.append([PAIR], bench.now)
    assert kinds(bench.answer(bench.take(), error=ErrorCode.INVALID_PRODUCER_EPOCH))[0] == "ShardLost"


def test_a_planned_hand_over_ends_what_is_under_way_and_drops_the_state() -> None:
    bench = Bench()
    bench.own()
    bench.shard.append([PAIR], bench.now)
    written = bench.take()
    assert bench.tell(OwnershipRevoked()) == []
    assert bench.shard.append([PAIR], bench.now) is None and bench.shard.read_position(bench.now) is None
    assert kinds(bench.answer(written)) == ["WritesDurable", "StateDropped", "ShardHandedOver"]
    assert only(bench.tell(FollowingWanted(is_wanted=True)), ReadLog).offset == 0


def test_a_hand_over_whose_last_write_is_not_answered_ends_after_a_session_and_acknowledges_nothing() -> None:
    bench = Bench()
    bench.own()
    bench.shard.append([PAIR], bench.now)
    written = bench.take()
    bench.tell(OwnershipRevoked())
    begun_ms = bench.now_ms
    assert bench.wait(SETTINGS.session_ms - 1) == []
    bench.tell(OwnershipRevoked())  # the member leaves meanwhile: its shards are revoked once more
    assert bench.shard.next_deadline_ms <= begun_ms + SETTINGS.session_ms
    assert kinds(bench.wait(1)) == ["ShardLost", "StateDropped", "ShardHandedOver"]
    assert bench.answer(written) == [] and bench.wait(SETTINGS.session_ms) == []


def test_a_shard_that_is_given_back_while_it_is_handed_over_stays() -> None:
    bench = Bench()
    bench.own()
    bench.shard.append([PAIR], bench.now)
    written = bench.take()
    bench.tell(OwnershipRevoked())
    bench.tell(OwnershipGiven())
    assert bench.wait(2 * SETTINGS.session_ms) == []
    assert kinds(bench.answer(written)) == ["WritesDurable"] and bench.shard.is_serving


def test_who_is_no_member_stops_at_once() -> None:
    bench = Bench()
    bench.own()
    bench.shard.append([PAIR], bench.now)
    written = bench.take()
    assert isinstance(bench.tell(OwnershipLost())[0], ShardLost)
    assert bench.answer(written) == []
    assert not [one for one in bench.effects if isinstance(one, WritesDurable | ShardHandedOver)]


def test_a_follower_reads_on_and_a_take_over_reads_the_rest_only() -> None:
    bench = Bench()
    bench.put(claim_batch((7, 0, 0), 5))
    bench.put(tagged_batch([PAIR], 0, (7, 0, 1), 5))
    first = bench.tell(FollowingWanted(is_wanted=True))
    assert only(bench.answer(first), LogReplayed).records == (PAIR,)
    bench.put(tagged_batch([PAIR], 0, (7, 0, 2), 5))
    more = bench.wait(SETTINGS.follow_ms)
    assert only(more, ReadLog).offset == 2
    bench.answer(more)
    read = bench.answer(bench.tell(OwnershipGiven()), producer_id=7, producer_epoch=1)
    assert only(read, ReadLog).offset == 3


def test_a_log_that_was_cut_is_read_anew() -> None:
    bench = Bench()
    bench.own()
    bench.shard.append([PAIR], bench.now)
    written = bench.take()
    bench.put(fence_batch((3, 1, 0), 5))
    read = only(bench.answer(written), ReadLog)
    lost = bench.tell(LogRead(read.number, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert kinds(lost)[:2] == ["ShardLost", "StateDropped"]
